// Half precision, scalar and in pairs. Products and sums of quarters are exact
// in the format, so the tolerance is 0.

#include <cuda_fp16.h>

#include "coverage.h"

__global__ void Fp16(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (2 * i + 1 >= n) return;
  const __half2 x = __floats2half2_rn(in[2 * i], in[2 * i + 1]);
  const __half2 y = __hfma2(x, x, __float2half2_rn(1.0f));
  out[2 * i] = __half2float(__low2half(y));
  out[2 * i + 1] = __half2float(__hadd(__high2half(y), __float2half(0.0f)));
}

int main() {
  const int n = 512;
  std::vector<float> in(n), want(n);
  for (int i = 0; i < n; ++i) {
    in[i] = coverage::Sample(i);
    want[i] = in[i] * in[i] + 1.0f;
  }
  coverage::DeviceArray<float> device_in(in), device_out(n);
  Fp16<<<n / 2 / 64, 64>>>(device_in.get(), device_out.get(), n);
  coverage::CheckLaunch("Fp16");
  coverage::Compare("fp16", device_out.Read(), want, 0);
  return coverage::Pass("fp16: 512 values exact");
}
