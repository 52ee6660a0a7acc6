// Two streams ordered by an event: the second adds to what the first wrote.
// Exact.

#include "coverage.h"

__global__ void Write(int* values, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] = i;
}
__global__ void Add(int* values, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += 1000;
}

int main() {
  const int n = 1 << 16;
  coverage::DeviceArray<int> values(n);
  cudaStream_t first, second;
  cudaEvent_t written;
  coverage::Check("cudaStreamCreate", cudaStreamCreate(&first));
  coverage::Check("cudaStreamCreate", cudaStreamCreate(&second));
  coverage::Check("cudaEventCreate", cudaEventCreate(&written));
  Write<<<n / 256, 256, 0, first>>>(values.get(), n);
  coverage::Check("Write", cudaGetLastError());
  coverage::Check("cudaEventRecord", cudaEventRecord(written, first));
  coverage::Check("cudaStreamWaitEvent",
                  cudaStreamWaitEvent(second, written, 0));
  Add<<<n / 256, 256, 0, second>>>(values.get(), n);
  coverage::CheckLaunch("Add");
  std::vector<int> want(n);
  for (int i = 0; i < n; ++i) want[i] = i + 1000;
  coverage::Compare("streams", values.Read(), want, 0);
  cudaEventDestroy(written);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  return coverage::Pass("streams: 65536 values in order");
}
