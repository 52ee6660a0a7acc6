#include "agent/backoff.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace twinpath::agent {

Trouble TroubleOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kAborted:
      return Trouble::kTakenOver;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
      return Trouble::kPermanent;
    default:
      return Trouble::kTransient;
  }
}

absl::Duration Backoff::After(const absl::Status& status,
                              absl::Duration lasted) {
  if (lasted >= options_.stable) failures_ = 0;
  switch (TroubleOf(status)) {
    case Trouble::kPermanent:
      return options_.slow * (0.5 + 0.5 * uniform_());
    case Trouble::kTakenOver:
      return options_.taken_over * (0.5 + 0.5 * uniform_());
    case Trouble::kTransient:
      break;
  }
  absl::Duration ceiling = options_.first;
  for (int i = 0; i < failures_ && ceiling < options_.longest; ++i) {
    ceiling *= 2;
  }
  ++failures_;
  return std::min(ceiling, options_.longest) * uniform_();
}

absl::Duration Backoff::AfterDrain(absl::Duration retry_after) {
  failures_ = 0;
  // A hostile or mistaken duration must not send the agent away for good.
  retry_after = std::clamp(retry_after, absl::ZeroDuration(), absl::Hours(1));
  return retry_after + std::max(retry_after, options_.first) * uniform_();
}

}  // namespace twinpath::agent
