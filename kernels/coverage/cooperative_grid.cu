// A cooperative launch: all blocks wait for each other twice. Exact.

#include <cooperative_groups.h>

#include "coverage.h"

namespace cg = cooperative_groups;

__global__ void GridSync(int* values, int* total, int n) {
  const cg::grid_group grid = cg::this_grid();
  const int i = static_cast<int>(grid.thread_rank());
  if (i < n) values[i] = i;
  grid.sync();
  // Written by another block.
  const int other = i < n ? values[n - 1 - i] : 0;
  grid.sync();
  if (i < n) atomicAdd(total, other);
}

int main() {
  int device = 0;
  int cooperative = 0;
  coverage::Check("cudaGetDevice", cudaGetDevice(&device));
  coverage::Check("cudaDeviceGetAttribute",
                  cudaDeviceGetAttribute(&cooperative,
                                         cudaDevAttrCooperativeLaunch, device));
  if (cooperative == 0) {
    coverage::NotApplicable("the device has no cooperative launch");
  }
  int n = 8 * 64;
  coverage::DeviceArray<int> values(n), total(std::vector<int>{0});
  int* values_pointer = values.get();
  int* total_pointer = total.get();
  void* arguments[] = {&values_pointer, &total_pointer, &n};
  coverage::Check(
      "cudaLaunchCooperativeKernel",
      cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&GridSync),
                                  dim3(8), dim3(64), arguments, 0, nullptr));
  coverage::CheckLaunch("GridSync");
  coverage::Compare("cooperative_grid", total.Read(),
                    std::vector<int>{n * (n - 1) / 2}, 0);
  return coverage::Pass("cooperative_grid: 8 blocks, sum exact");
}
