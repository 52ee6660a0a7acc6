// Constant memory written by the host, a __device__ variable written by a
// kernel, and managed memory. Exact.

#include "coverage.h"

__constant__ int table[64];
__device__ int counter;

__global__ void Constant(int* out, int* managed) {
  out[threadIdx.x] = table[63 - threadIdx.x] * 2;
  atomicAdd(&counter, table[threadIdx.x]);
  managed[threadIdx.x] += 1;
}

int main() {
  std::vector<int> values(64), want(64), from_managed(64);
  int sum = 100;
  for (int i = 0; i < 64; ++i) {
    values[i] = i * i;
    sum += values[i];
  }
  for (int i = 0; i < 64; ++i) want[i] = values[63 - i] * 2;
  const int start = 100;
  coverage::Check("cudaMemcpyToSymbol table",
                  cudaMemcpyToSymbol(table, values.data(), sizeof(table)));
  coverage::Check("cudaMemcpyToSymbol counter",
                  cudaMemcpyToSymbol(counter, &start, sizeof(start)));
  int* managed = nullptr;
  coverage::Check("cudaMallocManaged",
                  cudaMallocManaged(&managed, 64 * sizeof(int)));
  for (int i = 0; i < 64; ++i) managed[i] = i;
  coverage::DeviceArray<int> out(64);
  Constant<<<1, 64>>>(out.get(), managed);
  coverage::CheckLaunch("Constant");
  int counted = 0;
  coverage::Check("cudaMemcpyFromSymbol",
                  cudaMemcpyFromSymbol(&counted, counter, sizeof(counted)));
  coverage::Compare("constant table", out.Read(), want, 0);
  coverage::Compare("device variable", std::vector<int>{counted},
                    std::vector<int>{sum}, 0);
  for (int i = 0; i < 64; ++i) {
    from_managed[i] = managed[i];
    want[i] = i + 1;
  }
  coverage::Check("cudaFree", cudaFree(managed));
  coverage::Compare("managed memory", from_managed, want, 0);
  return coverage::Pass(
      "constant_memory: constant, device and managed memory exact");
}
