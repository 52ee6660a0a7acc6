// Prints the compute capability of every device, one line each:
//
//   device 0 compute_capability 12.1
//
// A capability is asked of the device, never guessed. When anything fails the
// error goes to standard error, the exit code is 1, and no number is printed
// that could be taken for an answer: lines are kept back until all devices
// answered.

#include <cuda_runtime.h>

#include <cstdio>

namespace {

constexpr int kMaxDevices = 64;

int Fail(const char* call, cudaError_t error) {
  std::fprintf(stderr, "error: %s: CUDA error %d: %s\n", call,
               static_cast<int>(error), cudaGetErrorString(error));
  return 1;
}

}  // namespace

int main() {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return Fail("cudaGetDeviceCount", error);
  if (count < 1) {
    std::fprintf(stderr, "error: cudaGetDeviceCount: no device\n");
    return 1;
  }
  if (count > kMaxDevices) count = kMaxDevices;
  int major[kMaxDevices];
  int minor[kMaxDevices];
  for (int device = 0; device < count; ++device) {
    error = cudaDeviceGetAttribute(&major[device],
                                   cudaDevAttrComputeCapabilityMajor, device);
    if (error != cudaSuccess) return Fail("cudaDeviceGetAttribute", error);
    error = cudaDeviceGetAttribute(&minor[device],
                                   cudaDevAttrComputeCapabilityMinor, device);
    if (error != cudaSuccess) return Fail("cudaDeviceGetAttribute", error);
  }
  for (int device = 0; device < count; ++device) {
    std::printf("device %d compute_capability %d.%d\n", device, major[device],
                minor[device]);
  }
  return 0;
}
