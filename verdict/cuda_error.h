// What a CUDA error number says about compatibility, and failed launches in a
// driver log. A program that does not look at cudaGetLastError after a launch
// exits 0 although its kernel never ran; the driver says so in CUDA_LOG_FILE:
//   Returning 209 (CUDA_ERROR_NO_BINARY_FOR_GPU) from cuLibraryGetKernel
// (docs/gpu-runs.md). Pure; safe to call from any thread.

#ifndef TWINPATH_VERDICT_CUDA_ERROR_H_
#define TWINPATH_VERDICT_CUDA_ERROR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace twinpath::verdict {

// Whether `error` means that code for the GPU was not there or not accepted: it
// contradicts a prediction of success. Others (memory, device faults, the
// program's own) do not.
bool IsLoadError(uint32_t error);

// Whether `error` means that a kernel had started: it contradicts a prediction
// that nothing loads.
bool IsExecutionError(uint32_t error);

// Whether `error` is a passing state of host or device (out of memory, device
// taken, ECC, NVLink, system not ready) that says nothing about compatibility.
bool IsTransientError(uint32_t error);

// Whether two numbers are the same fault: equal, or 98 and 209, which are the
// runtime's and the driver's word for a kernel without image.
bool IsSameError(uint32_t a, uint32_t b);

struct LogFailure {
  // A kernel was launched, looked up for a launch, or died running. False: code
  // was loaded, linked or asked for by name, which programs may try and go on.
  bool launch = false;
  uint32_t cuda_error = 0;
  // Driver call, "cuLibraryGetKernel".
  std::string call;
  // Mangled name, where the log tells.
  std::string kernel;
};

// Returns the first failed launch in a driver log, or else the first failed
// load, or nothing.
std::optional<LogFailure> FindFailure(absl::string_view log);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_CUDA_ERROR_H_
