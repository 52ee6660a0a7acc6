// Input of nvcc_test: two kernels, a device function, static shared memory and
// launch bounds, in a program that never runs.

#include <cstdio>

__device__ __noinline__ int Twice(int value) { return 2 * value; }

__global__ void __launch_bounds__(128) Bounded(int* out) {
  __shared__ int buffer[32];
  buffer[threadIdx.x % 32] = Twice(static_cast<int>(threadIdx.x));
  __syncthreads();
  out[threadIdx.x] = buffer[(threadIdx.x + 1) % 32];
}

template <typename T>
__global__ void Typed(T* out) {
  *out = T{1};
}

int main() {
  Bounded<<<1, 32>>>(nullptr);
  Typed<float><<<1, 1>>>(nullptr);
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
