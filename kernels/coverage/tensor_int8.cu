// Tensor cores on 8-bit integers, from compute capability 7.2. Exact.

#include <mma.h>

#include <cstdint>

#include "coverage.h"

namespace wmma = nvcuda::wmma;

__global__ void TensorInt8(const signed char* a, const signed char* b, int* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
  wmma::fill_fragment(fc, 0);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

int main() {
  coverage::NeedCapability(72);
  const int n = 16;
  std::vector<signed char> a(n * n), b(n * n);
  std::vector<int> want(n * n, 0);
  for (int i = 0; i < n * n; ++i) {
    a[i] = static_cast<signed char>(i * 7 % 251 - 125);
    b[i] = static_cast<signed char>(i * 11 % 251 - 125);
  }
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      for (int k = 0; k < n; ++k)
        want[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  }
  coverage::DeviceArray<signed char> device_a(a), device_b(b);
  coverage::DeviceArray<int> device_c(n * n);
  TensorInt8<<<1, 32>>>(device_a.get(), device_b.get(), device_c.get());
  coverage::CheckLaunch("TensorInt8");
  coverage::Compare("tensor_int8", device_c.Read(), want, 0);
  return coverage::Pass("tensor_int8: 16 x 16 x 16 exact");
}
