// Tensor cores on TF32, from compute capability 8.0: 16 x 16 x 8. The inputs
// have more bits than TF32 keeps, so the tolerance is 2e-3 relative; a result
// in full single precision would pass too, a wrong layout would not.

#include <mma.h>

#include "coverage.h"

namespace wmma = nvcuda::wmma;

__global__ void Tf32(const float* a, const float* b, float* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32,
                 wmma::row_major>
      fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32,
                 wmma::row_major>
      fb;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fa, a, 8);
  wmma::load_matrix_sync(fb, b, 16);
  for (int i = 0; i < fa.num_elements; ++i) {
    fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
  }
  for (int i = 0; i < fb.num_elements; ++i) {
    fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
  }
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

int main() {
  coverage::NeedCapability(80);
  std::vector<float> a(16 * 8), b(8 * 16);
  std::vector<double> want(16 * 16, 0.0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = 1.0f + static_cast<float>(i) * 0.0123f;
    b[i] = 2.0f - static_cast<float>(i) * 0.0071f;
  }
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      for (int k = 0; k < 8; ++k) {
        want[i * 16 + j] += static_cast<double>(a[i * 8 + k]) * b[k * 16 + j];
      }
    }
  }
  coverage::DeviceArray<float> device_a(a), device_b(b), device_c(16 * 16);
  Tf32<<<1, 32>>>(device_a.get(), device_b.get(), device_c.get());
  coverage::CheckLaunch("Tf32");
  coverage::Compare("tf32", device_c.Read(), want, 2e-3);
  return coverage::Pass("tf32: 16 x 16 x 8 within 2e-3");
}
