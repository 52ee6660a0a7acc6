// Tensor cores: one warp multiplies 16 x 16 matrices of half precision and sums
// in single precision. Inputs are quarters, so products and sums are exact.

#include <cuda_fp16.h>
#include <mma.h>

#include "coverage.h"

namespace wmma = nvcuda::wmma;

__global__ void TensorFp16(const __half* a, const __half* b, float* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

int main() {
  const int n = 16;
  std::vector<__half> a(n * n), b(n * n);
  std::vector<float> want(n * n, 0.0f);
  for (int i = 0; i < n * n; ++i) {
    a[i] = __float2half(coverage::Sample(i));
    b[i] = __float2half(coverage::Sample(i + 5));
  }
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      for (int k = 0; k < n; ++k) {
        want[i * n + j] +=
            coverage::Sample(i * n + k) * coverage::Sample(k * n + j + 5);
      }
    }
  }
  coverage::DeviceArray<__half> device_a(a), device_b(b);
  coverage::DeviceArray<float> device_c(n * n);
  TensorFp16<<<1, 32>>>(device_a.get(), device_b.get(), device_c.get());
  coverage::CheckLaunch("TensorFp16");
  coverage::Compare("tensor_fp16", device_c.Read(), want, 0);
  return coverage::Pass("tensor_fp16: 16 x 16 x 16 exact");
}
