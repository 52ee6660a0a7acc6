// Double precision: a fused multiply-add chain, a square root, a division.
// Tolerance 1e-14 relative: a few units in the last place.

#include "coverage.h"

__global__ void Fp64(const double* in, double* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const double x = in[i];
  out[i] = sqrt(fma(x, x, 1.0)) / (2.0 + x * x);
}

int main() {
  const int n = 1000;
  std::vector<double> in(n), want(n);
  for (int i = 0; i < n; ++i) {
    in[i] = (i - 500) * 0.37;
    want[i] = std::sqrt(std::fma(in[i], in[i], 1.0)) / (2.0 + in[i] * in[i]);
  }
  coverage::DeviceArray<double> device_in(in), device_out(n);
  Fp64<<<(n + 127) / 128, 128>>>(device_in.get(), device_out.get(), n);
  coverage::CheckLaunch("Fp64");
  coverage::Compare("fp64", device_out.Read(), want, 1e-14);
  return coverage::Pass("fp64: 1000 values within 1e-14");
}
