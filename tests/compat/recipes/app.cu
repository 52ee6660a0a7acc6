// A program that launches a kernel and checks what it wrote.
#include <cstdio>
__global__ void seven(int* out) { *out = 7; }
int main() {
  int* device = nullptr;
  int host = 0;
  cudaMalloc(&device, sizeof(int));
  seven<<<1, 1>>>(device);
  cudaMemcpy(&host, device, sizeof(int), cudaMemcpyDeviceToHost);
  std::printf("%d\n", host);
  return host == 7 ? 0 : 1;
}
