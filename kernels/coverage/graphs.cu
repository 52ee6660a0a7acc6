// A graph captured from a stream and launched three times. Exact.

#include "coverage.h"

__global__ void Step(int* values, int add, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] = values[i] * 2 + add;
}

int main() {
  const int n = 4096;
  std::vector<int> want(n);
  for (int i = 0; i < n; ++i) want[i] = i;
  coverage::DeviceArray<int> values(want);
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t runnable;
  coverage::Check("cudaStreamCreate", cudaStreamCreate(&stream));
  coverage::Check(
      "cudaStreamBeginCapture",
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  Step<<<n / 128, 128, 0, stream>>>(values.get(), 1, n);
  Step<<<n / 128, 128, 0, stream>>>(values.get(), 5, n);
  coverage::Check("cudaStreamEndCapture", cudaStreamEndCapture(stream, &graph));
  coverage::Check("cudaGraphInstantiate",
                  cudaGraphInstantiate(&runnable, graph, 0));
  for (int k = 0; k < 3; ++k) {
    coverage::Check("cudaGraphLaunch", cudaGraphLaunch(runnable, stream));
    for (int& value : want) value = (value * 2 + 1) * 2 + 5;
  }
  coverage::Check("cudaStreamSynchronize", cudaStreamSynchronize(stream));
  coverage::Compare("graphs", values.Read(), want, 0);
  cudaGraphExecDestroy(runnable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return coverage::Pass("graphs: three launches of two nodes exact");
}
