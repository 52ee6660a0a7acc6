// An entry with a kernel of its own and a call of cuBLAS: under forced JIT the
// own kernel compiles, and cuBLAS, whose PTX is for its newest GPUs alone,
// cannot follow. The fault is then cuBLAS's, not the program's.
//
//   exit 0  "PASS: own kernel and cuBLAS" on standard output
//   exit 1  a CUDA call or the own kernel failed
//   exit 2  a value is wrong
//   exit 3  cuBLAS failed; "own kernel ran" was printed before

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdio>

#include "entries.h"

__global__ void FillForCublas(float* out, int n) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < n) out[i] = static_cast<float>(i);
}

int main() {
  constexpr int kCount = 4;
  float* values = nullptr;
  CHECK_CUDA(cudaMalloc(&values, 2 * kCount * sizeof(float)));
  FillForCublas<<<1, 32>>>(values, kCount);
  CHECK_CUDA(cudaGetLastError());
  CHECK_CUDA(cudaDeviceSynchronize());
  std::printf("own kernel ran\n");
  std::fflush(stdout);

  cublasHandle_t handle = nullptr;
  cublasStatus_t status = cublasCreate(&handle);
  if (status != CUBLAS_STATUS_SUCCESS) return Fail("cublasCreate", status);
  CHECK_CUDA(cudaMemset(values + kCount, 0, kCount * sizeof(float)));
  const float two = 2;
  status = cublasSaxpy(handle, kCount, &two, values, 1, values + kCount, 1);
  if (status != CUBLAS_STATUS_SUCCESS) return Fail("cublasSaxpy", status);
  CHECK_CUDA(cudaDeviceSynchronize());
  float seen[kCount] = {};
  CHECK_CUDA(
      cudaMemcpy(seen, values + kCount, sizeof(seen), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i) {
    if (seen[i] != 2.0f * static_cast<float>(i)) return Wrong("value", i);
  }
  cublasDestroy(handle);
  std::printf("PASS: own kernel and cuBLAS\n");
  return 0;
}
