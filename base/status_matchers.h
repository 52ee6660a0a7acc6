// Matchers for tests: IsOk(), IsOkAndHolds(m), StatusIs(code, message_matcher).

#ifndef TWINPATH_BASE_STATUS_MATCHERS_H_
#define TWINPATH_BASE_STATUS_MATCHERS_H_

#include <gmock/gmock.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace twinpath {

inline absl::Status StatusOf(const absl::Status& status) { return status; }
template <typename T>
absl::Status StatusOf(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

MATCHER(IsOk, "is OK") {
  const absl::Status status = StatusOf(arg);
  *result_listener << "which is " << status.ToString();
  return status.ok();
}

MATCHER_P(IsOkAndHolds, inner, "is OK and holds a matching value") {
  if (!arg.ok()) {
    *result_listener << "which is " << arg.status().ToString();
    return false;
  }
  return ::testing::ExplainMatchResult(inner, *arg, result_listener);
}

MATCHER_P2(StatusIs, code, message, "has the status code and message") {
  const absl::Status status = StatusOf(arg);
  if (status.code() != code) {
    *result_listener << "which is " << status.ToString();
    return false;
  }
  return ::testing::ExplainMatchResult(message, std::string(status.message()),
                                       result_listener);
}
MATCHER_P(StatusIs, code, "has the status code") {
  const absl::Status status = StatusOf(arg);
  *result_listener << "which is " << status.ToString();
  return status.code() == code;
}

}  // namespace twinpath

#endif  // TWINPATH_BASE_STATUS_MATCHERS_H_
