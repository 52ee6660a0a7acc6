// A kernel that calls a function and reads a variable of another object
// (device_link_other.cu), joined by nvlink. Exact.

#include "coverage.h"

extern __device__ int offset_of_other_object;
extern __device__ int Twice(int value);

__global__ void Linked(int* out) {
  out[threadIdx.x] =
      Twice(static_cast<int>(threadIdx.x)) + offset_of_other_object;
}

int main() {
  coverage::DeviceArray<int> out(64);
  Linked<<<1, 64>>>(out.get());
  coverage::CheckLaunch("Linked");
  std::vector<int> want(64);
  for (int i = 0; i < 64; ++i) want[i] = 2 * i + 11;
  coverage::Compare("device_link", out.Read(), want, 0);
  return coverage::Pass("device_link: two objects, 64 values exact");
}
