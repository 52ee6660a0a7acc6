// Dynamic shared memory above the 48 KiB that need no request: a reversal of
// 15,360 words (60 KiB) in one block. Exact.

#include "coverage.h"

constexpr int kWords = 15360;

__global__ void Reverse(const int* in, int* out) {
  extern __shared__ int words[];
  for (int i = threadIdx.x; i < kWords; i += blockDim.x) words[i] = in[i];
  __syncthreads();
  for (int i = threadIdx.x; i < kWords; i += blockDim.x) {
    out[i] = words[kWords - 1 - i];
  }
}

int main() {
  std::vector<int> in(kWords), want(kWords);
  for (int i = 0; i < kWords; ++i) {
    in[i] = i * 3 + 1;
    want[kWords - 1 - i] = in[i];
  }
  coverage::DeviceArray<int> device_in(in), device_out(kWords);
  const int bytes = kWords * static_cast<int>(sizeof(int));
  coverage::Check(
      "cudaFuncSetAttribute",
      cudaFuncSetAttribute(Reverse, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           bytes));
  Reverse<<<1, 256, bytes>>>(device_in.get(), device_out.get());
  coverage::CheckLaunch("Reverse");
  coverage::Compare("dynamic_shared", device_out.Read(), want, 0);
  return coverage::Pass("dynamic_shared: 60 KiB reversed exactly");
}
