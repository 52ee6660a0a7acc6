// 8-bit integers: the four-way dot product with accumulation. Exact.

#include <cstdint>

#include "coverage.h"

__global__ void Int8(const int* a, const int* b, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __dp4a(a[i], b[i], i);
}

static int Pack(int i, int step) {
  uint32_t word = 0;
  for (int k = 0; k < 4; ++k) {
    const auto byte = static_cast<uint8_t>((i * step + k * 37) % 251 - 125);
    word |= static_cast<uint32_t>(byte) << (8 * k);
  }
  return static_cast<int>(word);
}

int main() {
  const int n = 1024;
  std::vector<int> a(n), b(n), want(n);
  for (int i = 0; i < n; ++i) {
    a[i] = Pack(i, 3);
    b[i] = Pack(i, 5);
    want[i] = i;
    for (int k = 0; k < 4; ++k) {
      want[i] += static_cast<int8_t>(static_cast<uint32_t>(a[i]) >> (8 * k)) *
                 static_cast<int8_t>(static_cast<uint32_t>(b[i]) >> (8 * k));
    }
  }
  coverage::DeviceArray<int> device_a(a), device_b(b), device_out(n);
  Int8<<<n / 128, 128>>>(device_a.get(), device_b.get(), device_out.get(), n);
  coverage::CheckLaunch("Int8");
  coverage::Compare("int8", device_out.Read(), want, 0);
  return coverage::Pass("int8: 1024 dot products exact");
}
