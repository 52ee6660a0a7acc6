// The program people really write: nothing is checked, success is claimed. When
// the kernel cannot run on a GPU it still prints "no error" and exits with 0,
// and the value is untouched. It shows that exit code and success line prove
// nothing: the driver's log has the failed launch.

#include <cuda_runtime.h>

#include <cstdio>

__global__ void WriteSilently(int* out) { *out = 7; }

int main() {
  int* device_value = nullptr;
  cudaMalloc(&device_value, sizeof(int));
  cudaMemset(device_value, 0, sizeof(int));
  WriteSilently<<<1, 1>>>(device_value);
  cudaDeviceSynchronize();
  int host_value = 0;
  cudaMemcpy(&host_value, device_value, sizeof(int), cudaMemcpyDeviceToHost);
  std::printf("no error\nvalue %d\n", host_value);
  return 0;
}
