// Atomics in global and shared memory: add on int, unsigned 64 bit, float and
// double, maximum, compare-and-swap. Integers are exact; the floating sums are
// of halves and exact in any order.

#include "coverage.h"

__global__ void Atomics(int* sum, unsigned long long* wide, float* single,
                        double* twice, int* largest, int* by_swap) {
  __shared__ int in_block;
  if (threadIdx.x == 0) in_block = 0;
  __syncthreads();
  atomicAdd(&in_block, 1);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(sum, in_block);
  atomicAdd(wide, 1ull << 33);
  atomicAdd(single, 0.5f);
  atomicAdd(twice, 0.5);
  atomicMax(largest, static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x));
  int seen = *by_swap;
  for (;;) {
    const int before = atomicCAS(by_swap, seen, seen + 2);
    if (before == seen) break;
    seen = before;
  }
}

int main() {
  const int threads = 64 * 128;
  coverage::DeviceArray<int> sum(std::vector<int>{0}),
      largest(std::vector<int>{-1}), by_swap(std::vector<int>{0});
  coverage::DeviceArray<unsigned long long> wide(
      std::vector<unsigned long long>{0});
  coverage::DeviceArray<float> single(std::vector<float>{0});
  coverage::DeviceArray<double> twice(std::vector<double>{0});
  Atomics<<<64, 128>>>(sum.get(), wide.get(), single.get(), twice.get(),
                       largest.get(), by_swap.get());
  coverage::CheckLaunch("Atomics");
  coverage::Compare("atomicAdd int", sum.Read(), std::vector<int>{threads}, 0);
  coverage::Compare("atomicAdd 64 bit", wide.Read(),
                    std::vector<double>{threads * 8589934592.0}, 0);
  coverage::Compare("atomicAdd float", single.Read(),
                    std::vector<double>{threads / 2.0}, 0);
  coverage::Compare("atomicAdd double", twice.Read(),
                    std::vector<double>{threads / 2.0}, 0);
  coverage::Compare("atomicMax", largest.Read(), std::vector<int>{threads - 1},
                    0);
  coverage::Compare("atomicCAS", by_swap.Read(), std::vector<int>{2 * threads},
                    0);
  return coverage::Pass("atomics: six operations of 8192 threads exact");
}
