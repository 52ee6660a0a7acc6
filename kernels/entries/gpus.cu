// Runs a kernel on every GPU the process sees and says which they were: for
// entries that ask for one GPU, for several or for all.
//
//   gpus N   exit 0 and "PASS: N GPUs" where exactly N are seen and all ran
//
//   exit 1  a CUDA call failed
//   exit 2  a value is wrong, or another number of GPUs is seen

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "entries.h"

__global__ void WriteDevice(int* out, int device) { *out = device + 1; }

int main(int argc, char** argv) {
  const int wanted = argc > 1 ? std::atoi(argv[1]) : 1;
  int count = 0;
  CHECK_CUDA(cudaGetDeviceCount(&count));
  for (int device = 0; device < count; ++device) {
    CHECK_CUDA(cudaSetDevice(device));
    cudaDeviceProp properties = {};
    CHECK_CUDA(cudaGetDeviceProperties(&properties, device));
    std::fprintf(stderr, "GPU %d: %s, bus %d\n", device, properties.name,
                 properties.pciBusID);
    int* value = nullptr;
    CHECK_CUDA(cudaMalloc(&value, sizeof(int)));
    WriteDevice<<<1, 1>>>(value, device);
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaDeviceSynchronize());
    int seen = 0;
    CHECK_CUDA(cudaMemcpy(&seen, value, sizeof(int), cudaMemcpyDeviceToHost));
    CHECK_CUDA(cudaFree(value));
    if (seen != device + 1) return Wrong("value of GPU", device);
  }
  if (count != wanted) return Wrong("number of GPUs", count);
  std::printf("PASS: %d GPUs\n", count);
  return 0;
}
