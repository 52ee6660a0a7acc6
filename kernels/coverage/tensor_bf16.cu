// Tensor cores on bfloat16, from compute capability 8.0. Exact, as the inputs
// are quarters.

#include <cuda_bf16.h>
#include <mma.h>

#include "coverage.h"

namespace wmma = nvcuda::wmma;

__global__ void TensorBf16(const __nv_bfloat16* a, const __nv_bfloat16* b,
                           float* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

int main() {
  coverage::NeedCapability(80);
  const int n = 16;
  std::vector<__nv_bfloat16> a(n * n), b(n * n);
  std::vector<float> want(n * n, 0.0f);
  for (int i = 0; i < n * n; ++i) {
    a[i] = __float2bfloat16(coverage::Sample(i));
    b[i] = __float2bfloat16(coverage::Sample(i + 5));
  }
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      for (int k = 0; k < n; ++k) {
        want[i * n + j] +=
            coverage::Sample(i * n + k) * coverage::Sample(k * n + j + 5);
      }
    }
  }
  coverage::DeviceArray<__nv_bfloat16> device_a(a), device_b(b);
  coverage::DeviceArray<float> device_c(n * n);
  TensorBf16<<<1, 32>>>(device_a.get(), device_b.get(), device_c.get());
  coverage::CheckLaunch("TensorBf16");
  coverage::Compare("tensor_bf16", device_c.Read(), want, 0);
  return coverage::Pass("tensor_bf16: 16 x 16 x 16 exact");
}
