#include "verdict/cuda_error.h"

#include <cstdint>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "compat/cuda_error.h"
#include "compat/diagnose.h"

namespace twinpath::verdict {
namespace {

// Failures on the way to code that a program may expect and handle: relocatable
// code that cannot be linked, a kernel that is asked for by name.
bool IsMildFailure(const compat::CudaErrorSeen& seen) {
  return compat::IsMildImageError(seen.code) ||
         (seen.code == 500 && absl::StartsWith(seen.call, "cuLibraryGet"));
}

}  // namespace

bool IsLoadError(uint32_t error) {
  // 35: the driver is older than the runtime, so nothing of the file loads.
  return error == 35 ||
         (compat::KindOfError(error) == compat::ErrorKind::kImage &&
          !compat::IsMildImageError(error));
}

bool IsExecutionError(uint32_t error) {
  return compat::KindOfError(error) == compat::ErrorKind::kExecution;
}

bool IsTransientError(uint32_t error) {
  return compat::KindOfError(error) == compat::ErrorKind::kState;
}

bool IsSameError(uint32_t a, uint32_t b) { return compat::IsSameError(a, b); }

std::optional<LogFailure> FindFailure(absl::string_view log) {
  std::optional<LogFailure> load;
  for (const compat::CudaErrorSeen& seen : compat::ErrorsInDriverLog(log)) {
    const bool mild = IsMildFailure(seen);
    if (!compat::IsLaunchCall(seen.call) && !IsLoadError(seen.code) &&
        !IsExecutionError(seen.code) && !mild) {
      continue;
    }
    LogFailure failure;
    failure.launch = compat::IsLaunchCall(seen.call) ||
                     (!compat::IsLoadCall(seen.call) && !mild);
    failure.cuda_error = seen.code;
    failure.call = seen.call;
    failure.kernel = seen.kernel;
    if (failure.launch) return failure;
    if (!load) load = failure;
  }
  return load;
}

}  // namespace twinpath::verdict
