// What every program of the coverage suite shares: checked calls, a comparison
// with a host reference under a stated tolerance, one line of result.
//
//   exit 0  "PASS: ..." on standard output, and every value was compared
//   exit 1  a CUDA call failed; call, number and text on standard error
//   exit 2  everything succeeded and a value is wrong; the first one is named
//   exit 3  not applicable on this device or host; the reason is named

#ifndef TWINPATH_KERNELS_COVERAGE_COVERAGE_H_
#define TWINPATH_KERNELS_COVERAGE_COVERAGE_H_

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace coverage {

[[noreturn]] inline void Fail(const char* call, cudaError_t error) {
  std::fprintf(stderr, "error: %s: CUDA error %d: %s\n", call,
               static_cast<int>(error), cudaGetErrorString(error));
  std::exit(1);
}

inline void Check(const char* call, cudaError_t error) {
  if (error != cudaSuccess) Fail(call, error);
}

// Right after a launch: its own error, which no later call shows, then what the
// kernel met.
inline void CheckLaunch(const char* kernel) {
  Check(kernel, cudaGetLastError());
  Check("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

[[noreturn]] inline void NotApplicable(const char* reason) {
  std::fprintf(stderr, "not applicable: %s\n", reason);
  std::exit(3);
}

// Ends the program where the device is below a compute capability, 80 for 8.0.
inline void NeedCapability(int number) {
  int device = 0;
  int major = 0;
  int minor = 0;
  Check("cudaGetDevice", cudaGetDevice(&device));
  Check("cudaDeviceGetAttribute",
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                               device));
  Check("cudaDeviceGetAttribute",
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor,
                               device));
  if (major * 10 + minor >= number) return;
  char reason[96];
  std::snprintf(reason, sizeof(reason),
                "needs compute capability %d.%d, this device has %d.%d",
                number / 10, number % 10, major, minor);
  NotApplicable(reason);
}

// Values on the device, filled with a pattern no kernel writes, so that a
// kernel that never ran cannot pass.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_(size) {
    Check("cudaMalloc", cudaMalloc(&data_, size * sizeof(T)));
    Check("cudaMemset", cudaMemset(data_, 0xA5, size * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& values)
      : DeviceArray(values.size()) {
    Check("cudaMemcpy to the device",
          cudaMemcpy(data_, values.data(), size_ * sizeof(T),
                     cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* get() const { return data_; }
  std::vector<T> Read() const {
    std::vector<T> values(size_);
    Check("cudaMemcpy to the host",
          cudaMemcpy(values.data(), data_, size_ * sizeof(T),
                     cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

// Ends with exit 2 at the first value off by more than
// tolerance * max(1, |want|). NaN is never equal.
template <typename T, typename U>
void Compare(const char* what, const std::vector<T>& got,
             const std::vector<U>& want, double tolerance) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double g = static_cast<double>(got[i]);
    const double w = static_cast<double>(want[i]);
    if (std::fabs(g - w) <= tolerance * std::fmax(1.0, std::fabs(w))) continue;
    std::fprintf(stderr,
                 "error: %s: wrong value at %zu: got %.17g, want %.17g, "
                 "tolerance %g\n",
                 what, i, g, w, tolerance);
    std::exit(2);
  }
}

// Small numbers that every format of the suite holds exactly: -2.0 to 1.75 in
// steps of a quarter, the same on every machine.
inline float Sample(std::size_t i) {
  return static_cast<float>(static_cast<int>((i * 7 + 3) % 16) - 8) * 0.25f;
}

inline int Pass(const char* what) {
  std::printf("PASS: %s\n", what);
  return 0;
}

}  // namespace coverage

#endif  // TWINPATH_KERNELS_COVERAGE_COVERAGE_H_
