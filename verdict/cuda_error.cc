#include "verdict/cuda_error.h"

#include <cstdint>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "compat/diagnose.h"

namespace twinpath::verdict {
namespace {

// Calls that start a kernel; whatever they return but 0, it did not start.
bool IsLaunchCall(absl::string_view call) {
  return absl::StartsWith(call, "cuLaunch") ||
         absl::StartsWith(call, "cuGraphLaunch");
}

// Calls that bring code in; a library may offer the driver several images.
bool IsLoadCall(absl::string_view call) {
  return absl::StrContains(call, "ModuleLoad") ||
         absl::StrContains(call, "LibraryLoad") ||
         absl::StartsWith(call, "cuLink");
}

// Failures on the way to code that a program may expect and handle: relocatable
// code that cannot be linked, a kernel that is asked for by name.
bool IsMildFailure(const compat::CudaErrorSeen& seen) {
  return seen.code == 225 || seen.code == 300 ||
         (seen.code == 500 && absl::StartsWith(seen.call, "cuLibraryGet"));
}

}  // namespace

bool IsLoadError(uint32_t error) {
  switch (error) {
    case 35:   // driver older than the runtime
    case 98:   // invalid device function
    case 200:  // invalid image
    case 209:  // no binary for GPU
    case 218:  // invalid PTX
    case 221:  // no JIT compiler
    case 222:  // PTX of an unsupported toolchain
    case 223:  // JIT compilation disabled
      return true;
    default:
      return false;
  }
}

bool IsExecutionError(uint32_t error) {
  switch (error) {
    case 700:  // illegal address
    case 702:  // launch timeout
    case 710:  // assert
    case 714:  // hardware stack error
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // launch failure
      return true;
    default:
      return false;
  }
}

bool IsTransientError(uint32_t error) {
  switch (error) {
    case 2:    // out of memory
    case 46:   // device unavailable
    case 214:  // uncorrectable ECC
    case 216:  // exclusive device in use
    case 220:  // uncorrectable NVLink
    case 802:  // system not ready
      return true;
    default:
      return false;
  }
}

bool IsSameError(uint32_t a, uint32_t b) {
  const auto driver_number = [](uint32_t e) { return e == 98 ? 209U : e; };
  return driver_number(a) == driver_number(b);
}

std::optional<LogFailure> FindFailure(absl::string_view log) {
  std::optional<LogFailure> load;
  for (const compat::CudaErrorSeen& seen : compat::ErrorsInDriverLog(log)) {
    const bool mild = IsMildFailure(seen);
    if (!IsLaunchCall(seen.call) && !IsLoadError(seen.code) &&
        !IsExecutionError(seen.code) && !mild) {
      continue;
    }
    LogFailure failure;
    failure.launch =
        IsLaunchCall(seen.call) || (!IsLoadCall(seen.call) && !mild);
    failure.cuda_error = seen.code;
    failure.call = seen.call;
    failure.kernel = seen.kernel;
    if (failure.launch) return failure;
    if (!load) load = failure;
  }
  return load;
}

}  // namespace twinpath::verdict
