// bfloat16 in pairs, from compute capability 8.0. Sums and products of quarters
// fit its 8 bits, so the tolerance is 0.

#include <cuda_bf16.h>

#include "coverage.h"

__global__ void Bf16(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (2 * i + 1 >= n) return;
  const __nv_bfloat162 x = __floats2bfloat162_rn(in[2 * i], in[2 * i + 1]);
  const __nv_bfloat162 y = __hfma2(x, x, __float2bfloat162_rn(1.0f));
  out[2 * i] = __low2float(y);
  out[2 * i + 1] = __high2float(y);
}

int main() {
  coverage::NeedCapability(80);
  const int n = 512;
  std::vector<float> in(n), want(n);
  for (int i = 0; i < n; ++i) {
    in[i] = coverage::Sample(i);
    want[i] = in[i] * in[i] + 1.0f;
  }
  coverage::DeviceArray<float> device_in(in), device_out(n);
  Bf16<<<n / 2 / 64, 64>>>(device_in.get(), device_out.get(), n);
  coverage::CheckLaunch("Bf16");
  coverage::Compare("bf16", device_out.Read(), want, 0);
  return coverage::Pass("bf16: 512 values exact");
}
