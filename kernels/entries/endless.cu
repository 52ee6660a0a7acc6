// A kernel that never ends: what a runner must end within its time limit.

#include <cuda_runtime.h>

#include <cstdio>

#include "entries.h"

__global__ void NeverEnds(volatile int* flag) {
  while (*flag == 0) {
  }
}

int main() {
  int* flag = nullptr;
  CHECK_CUDA(cudaMalloc(&flag, sizeof(int)));
  CHECK_CUDA(cudaMemset(flag, 0, sizeof(int)));
  NeverEnds<<<1, 1>>>(flag);
  CHECK_CUDA(cudaGetLastError());
  std::printf("launched\n");
  std::fflush(stdout);
  CHECK_CUDA(cudaDeviceSynchronize());
  std::printf("ended\n");
  return 0;
}
