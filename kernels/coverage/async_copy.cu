// Asynchronous copies from global to shared memory, by the pipeline primitives;
// an instruction from 8.0 on, a plain copy before. Exact.

#include <cuda_pipeline.h>

#include "coverage.h"

__global__ void AsyncCopy(const int4* in, int4* out) {
  __shared__ int4 stage[128];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  __pipeline_memcpy_async(&stage[threadIdx.x], &in[i], sizeof(int4));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  int4 value = stage[(threadIdx.x + 1) % 128];
  value.x += 1;
  out[i] = value;
}

int main() {
  const int n = 1024;
  std::vector<int4> in(n);
  for (int i = 0; i < n; ++i) in[i] = make_int4(i, 2 * i, 3 * i, 4 * i);
  coverage::DeviceArray<int4> device_in(in), device_out(n);
  AsyncCopy<<<n / 128, 128>>>(device_in.get(), device_out.get());
  coverage::CheckLaunch("AsyncCopy");
  std::vector<int> got, want;
  const std::vector<int4> out = device_out.Read();
  for (int i = 0; i < n; ++i) {
    const int4 from = in[i / 128 * 128 + (i + 1) % 128];
    for (int value : {out[i].x, out[i].y, out[i].z, out[i].w}) {
      got.push_back(value);
    }
    for (int value : {from.x + 1, from.y, from.z, from.w}) {
      want.push_back(value);
    }
  }
  coverage::Compare("async_copy", got, want, 0);
  return coverage::Pass("async_copy: 16 KiB exact");
}
