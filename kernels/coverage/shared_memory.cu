// Static shared memory: a transpose through a padded tile. Exact.

#include "coverage.h"

constexpr int kTile = 32;

__global__ void Transpose(const int* in, int* out, int n) {
  __shared__ int tile[kTile][kTile + 1];
  const int x = blockIdx.x * kTile + threadIdx.x;
  const int y = blockIdx.y * kTile + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] = in[y * n + x];
  __syncthreads();
  const int tx = blockIdx.y * kTile + threadIdx.x;
  const int ty = blockIdx.x * kTile + threadIdx.y;
  out[ty * n + tx] = tile[threadIdx.x][threadIdx.y];
}

int main() {
  const int n = 4 * kTile;
  std::vector<int> in(n * n), want(n * n);
  for (int i = 0; i < n * n; ++i) in[i] = i;
  for (int y = 0; y < n; ++y) {
    for (int x = 0; x < n; ++x) want[x * n + y] = in[y * n + x];
  }
  coverage::DeviceArray<int> device_in(in), device_out(n * n);
  Transpose<<<dim3(4, 4), dim3(kTile, kTile)>>>(device_in.get(),
                                                device_out.get(), n);
  coverage::CheckLaunch("Transpose");
  coverage::Compare("shared_memory", device_out.Read(), want, 0);
  return coverage::Pass("shared_memory: 128 x 128 transposed exactly");
}
