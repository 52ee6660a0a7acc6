// The check program: one thread writes a value, the host compares. Every call
// and the launch itself are checked, and the success line is printed only after
// the value was compared.
//
//   exit 0  "PASS: kernel wrote 7" on standard output
//   exit 1  a CUDA call failed; number and text on standard error
//   exit 2  everything succeeded and the value is wrong

#include <cuda_runtime.h>

#include <cstdio>

namespace {

constexpr int kExpected = 7;
constexpr int kUntouched = -1;

int Fail(const char* call, cudaError_t error) {
  std::fprintf(stderr, "error: %s: CUDA error %d: %s\n", call,
               static_cast<int>(error), cudaGetErrorString(error));
  return 1;
}

}  // namespace

__global__ void WriteValue(int* out, int value) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *out = value;
}

int main() {
  int* device_value = nullptr;
  cudaError_t error = cudaMalloc(&device_value, sizeof(int));
  if (error != cudaSuccess) return Fail("cudaMalloc", error);
  int host_value = kUntouched;
  error = cudaMemcpy(device_value, &host_value, sizeof(int),
                     cudaMemcpyHostToDevice);
  if (error != cudaSuccess) return Fail("cudaMemcpy to the device", error);

  WriteValue<<<1, 1>>>(device_value, kExpected);
  // The launch's own error: a later call would not show it.
  error = cudaGetLastError();
  if (error != cudaSuccess) return Fail("launch of WriteValue", error);
  error = cudaDeviceSynchronize();
  if (error != cudaSuccess) return Fail("cudaDeviceSynchronize", error);

  error = cudaMemcpy(&host_value, device_value, sizeof(int),
                     cudaMemcpyDeviceToHost);
  if (error != cudaSuccess) return Fail("cudaMemcpy to the host", error);
  error = cudaFree(device_value);
  if (error != cudaSuccess) return Fail("cudaFree", error);
  if (host_value != kExpected) {
    std::fprintf(stderr, "error: wrong value: got %d, want %d\n", host_value,
                 kExpected);
    return 2;
  }
  std::printf("PASS: kernel wrote %d\n", host_value);
  return 0;
}
