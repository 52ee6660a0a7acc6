// Both 8-bit floating-point formats, there and back; below 8.9 the header
// converts without the instruction. Quarters up to 2 are exact in E4M3 and, to
// three significant bits, in E5M2; the reference rounds as the format says.

#include <cuda_fp8.h>

#include "coverage.h"

__global__ void Fp8(const float* in, float* e4m3, float* e5m2, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  e4m3[i] = static_cast<float>(__nv_fp8_e4m3(in[i]));
  e5m2[i] = static_cast<float>(__nv_fp8_e5m2(in[i]));
}

// Rounds to `bits` significant bits, ties to even, as both formats do for
// values of this size.
static float Round(float value, int bits) {
  if (value == 0.0f) return 0.0f;
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);
  const float scaled = std::ldexp(fraction, bits);
  return std::ldexp(std::nearbyint(scaled), exponent - bits);
}

int main() {
  const int n = 256;
  std::vector<float> in(n), e4m3(n), e5m2(n);
  for (int i = 0; i < n; ++i) {
    in[i] = coverage::Sample(i) + (i % 3) * 0.0625f;
    e4m3[i] = Round(in[i], 4);
    e5m2[i] = Round(in[i], 3);
  }
  coverage::DeviceArray<float> device_in(in), device_e4m3(n), device_e5m2(n);
  Fp8<<<n / 64, 64>>>(device_in.get(), device_e4m3.get(), device_e5m2.get(), n);
  coverage::CheckLaunch("Fp8");
  coverage::Compare("fp8 E4M3", device_e4m3.Read(), e4m3, 0);
  coverage::Compare("fp8 E5M2", device_e5m2.Read(), e5m2, 0);
  return coverage::Pass("fp8: 256 values of E4M3 and of E5M2 exact");
}
