// An entry with a kernel of its own and a plan of cuFFT, which loads its code
// itself and has PTX for its newest GPUs alone.
//
//   exit 0  "PASS: own kernel and cuFFT" on standard output
//   exit 1  a CUDA call or the own kernel failed
//   exit 2  a value is wrong
//   exit 3  cuFFT failed; "own kernel ran" was printed before

#include <cuda_runtime.h>
#include <cufft.h>

#include <cmath>
#include <cstdio>

#include "entries.h"

__global__ void FillForCufft(cufftComplex* out, int n) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < n) out[i] = {1, 0};
}

int main() {
  constexpr int kCount = 64;
  cufftComplex* values = nullptr;
  CHECK_CUDA(cudaMalloc(&values, kCount * sizeof(cufftComplex)));
  FillForCufft<<<1, kCount>>>(values, kCount);
  CHECK_CUDA(cudaGetLastError());
  CHECK_CUDA(cudaDeviceSynchronize());
  std::printf("own kernel ran\n");
  std::fflush(stdout);

  cufftHandle plan = 0;
  cufftResult status = cufftPlan1d(&plan, kCount, CUFFT_C2C, 1);
  if (status != CUFFT_SUCCESS) return Fail("cufftPlan1d", status);
  status = cufftExecC2C(plan, values, values, CUFFT_FORWARD);
  if (status != CUFFT_SUCCESS) return Fail("cufftExecC2C", status);
  CHECK_CUDA(cudaDeviceSynchronize());
  cufftComplex seen[kCount] = {};
  CHECK_CUDA(cudaMemcpy(seen, values, sizeof(seen), cudaMemcpyDeviceToHost));
  // The transform of a constant is one peak.
  for (int i = 0; i < kCount; ++i) {
    const float want = i == 0 ? kCount : 0;
    if (std::fabs(seen[i].x - want) > 1e-3f || std::fabs(seen[i].y) > 1e-3f) {
      return Wrong("value", i);
    }
  }
  cufftDestroy(plan);
  std::printf("PASS: own kernel and cuFFT\n");
  return 0;
}
