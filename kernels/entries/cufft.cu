// An entry with a kernel of its own and a plan of cuFFT, which loads its code
// itself and has PTX for its newest GPUs alone. For some sizes it makes PTX at
// run time and falls back to machine code where that is not compiled (12.0).
//
//   cufft N  transforms N numbers, a power of two up to 1048576 (default 64)
//
//   exit 0  "PASS: own kernel and cuFFT" on standard output
//   exit 1  a CUDA call or the own kernel failed
//   exit 2  a value is wrong
//   exit 3  cuFFT failed; "own kernel ran" was printed before

#include <cuda_runtime.h>
#include <cufft.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "entries.h"

__global__ void FillForCufft(cufftComplex* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = {1, 0};
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 64;
  if (count < 1 || count > 1 << 20) return Wrong("size", count);
  cufftComplex* values = nullptr;
  CHECK_CUDA(cudaMalloc(&values, count * sizeof(cufftComplex)));
  FillForCufft<<<(count + 255) / 256, 256>>>(values, count);
  CHECK_CUDA(cudaGetLastError());
  CHECK_CUDA(cudaDeviceSynchronize());
  std::printf("own kernel ran\n");
  std::fflush(stdout);

  cufftHandle plan = 0;
  cufftResult status = cufftPlan1d(&plan, count, CUFFT_C2C, 1);
  if (status != CUFFT_SUCCESS) return Fail("cufftPlan1d", status);
  status = cufftExecC2C(plan, values, values, CUFFT_FORWARD);
  if (status != CUFFT_SUCCESS) return Fail("cufftExecC2C", status);
  CHECK_CUDA(cudaDeviceSynchronize());
  std::vector<cufftComplex> seen(count);
  CHECK_CUDA(cudaMemcpy(seen.data(), values, count * sizeof(cufftComplex),
                        cudaMemcpyDeviceToHost));
  // The transform of a constant is one peak.
  for (int i = 0; i < count; ++i) {
    const float want = i == 0 ? static_cast<float>(count) : 0;
    if (std::fabs(seen[i].x - want) > 1e-3f * count ||
        std::fabs(seen[i].y) > 1e-3f * count) {
      return Wrong("value", i);
    }
  }
  cufftDestroy(plan);
  std::printf("PASS: own kernel and cuFFT\n");
  return 0;
}
