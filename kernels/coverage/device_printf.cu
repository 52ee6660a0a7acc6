// printf on the device. The entry's expected output names the line; here the
// value that the kernel wrote beside it is compared. Exact.

#include "coverage.h"

__global__ void Print(int* out) {
  const int count =
      printf("device says %d\n", 40 + static_cast<int>(threadIdx.x));
  out[threadIdx.x] = count;
}

int main() {
  coverage::DeviceArray<int> out(2);
  Print<<<1, 2>>>(out.get());
  coverage::CheckLaunch("Print");
  // Device printf returns the number of arguments.
  coverage::Compare("device_printf", out.Read(), std::vector<int>(2, 1), 0);
  return coverage::Pass("device_printf: two lines printed");
}
