#include "base/exit_code.h"

namespace twinpath {

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitPass;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kResourceExhausted:
      return kExitUsage;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitUnreachable;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return kExitIdentity;
    case absl::StatusCode::kDataLoss:
      return kExitIntegrity;
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kAborted:
      return kExitInconclusive;
    default:
      return kExitInternal;
  }
}

}  // namespace twinpath
