// Single precision: fused multiply-add, square root, division.
// Tolerance 1e-6 relative.

#include "coverage.h"

__global__ void Fp32(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float x = in[i];
  out[i] = sqrtf(fmaf(x, x, 1.0f)) / (2.0f + x * x);
}

int main() {
  const int n = 1000;
  std::vector<float> in(n);
  std::vector<double> want(n);
  for (int i = 0; i < n; ++i) {
    in[i] = static_cast<float>(i - 500) * 0.37f;
    const double x = in[i];
    want[i] = std::sqrt(x * x + 1.0) / (2.0 + x * x);
  }
  coverage::DeviceArray<float> device_in(in), device_out(n);
  Fp32<<<(n + 127) / 128, 128>>>(device_in.get(), device_out.get(), n);
  coverage::CheckLaunch("Fp32");
  coverage::Compare("fp32", device_out.Read(), want, 1e-6);
  return coverage::Pass("fp32: 1000 values within 1e-6");
}
