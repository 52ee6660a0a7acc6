// A kernel that launches another (relocatable code, libcudadevrt). Exact.
// Under forced JIT this fails with 300 on devices for which the toolkit's
// libcudadevrt carries no PTX (docs/gpu-runs.md).

#include "coverage.h"

__global__ void Child(int* values, int add) { values[threadIdx.x] += add; }

__global__ void Parent(int* values) {
  if (threadIdx.x != 0) return;
  Child<<<1, 64>>>(values, 7);
  Child<<<1, 64>>>(values, 100);
}

int main() {
  std::vector<int> want(64);
  for (int i = 0; i < 64; ++i) want[i] = i;
  coverage::DeviceArray<int> values(want);
  Parent<<<1, 32>>>(values.get());
  coverage::CheckLaunch("Parent");
  for (int& value : want) value += 107;
  coverage::Compare("dynamic_parallelism", values.Read(), want, 0);
  return coverage::Pass("dynamic_parallelism: two child grids exact");
}
