// A kernel whose code differs by target: 42 where it was compiled for compute
// capability 8.0 or newer, 0 elsewhere. Built with old PTX and new machine
// code, its two paths give two answers, and both exit with 0: only comparing
// the outputs shows it. Every call is checked as in check.cu.

#include <cuda_runtime.h>

#include <cstdio>

namespace {

int Fail(const char* call, cudaError_t error) {
  std::fprintf(stderr, "error: %s: CUDA error %d: %s\n", call,
               static_cast<int>(error), cudaGetErrorString(error));
  return 1;
}

}  // namespace

__global__ void WriteGuarded(int* out) {
#if __CUDA_ARCH__ >= 800
  *out = 42;
#else
  *out = 0;
#endif
}

int main() {
  int* device_value = nullptr;
  cudaError_t error = cudaMalloc(&device_value, sizeof(int));
  if (error != cudaSuccess) return Fail("cudaMalloc", error);
  WriteGuarded<<<1, 1>>>(device_value);
  error = cudaGetLastError();
  if (error != cudaSuccess) return Fail("launch of WriteGuarded", error);
  error = cudaDeviceSynchronize();
  if (error != cudaSuccess) return Fail("cudaDeviceSynchronize", error);
  int host_value = -1;
  error = cudaMemcpy(&host_value, device_value, sizeof(int),
                     cudaMemcpyDeviceToHost);
  if (error != cudaSuccess) return Fail("cudaMemcpy to the host", error);
  std::printf("value %d\n", host_value);
  return 0;
}
