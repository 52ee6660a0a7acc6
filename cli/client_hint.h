// The next step for an error of the coordinator.

#ifndef TWINPATH_CLI_CLIENT_HINT_H_
#define TWINPATH_CLI_CLIENT_HINT_H_

#include <string>

#include "absl/status/status.h"

namespace twinpath::cli {

// A hint for people; empty where the message says it all.
inline std::string HintFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return "start one with \"twinpath up\", or name another with "
             "--coordinator HOST:PORT or TWINPATH_COORDINATOR";
    case absl::StatusCode::kDeadlineExceeded:
      return "look at the coordinator's log";
    case absl::StatusCode::kResourceExhausted:
      return "make room in the coordinator's state folder, then try again: an "
             "upload goes on where it ended";
    case absl::StatusCode::kDataLoss:
      return "the file changed while it was read; push it again";
    case absl::StatusCode::kUnimplemented:
      return "compare the versions: twinpath version, twinpath-coordinator "
             "--version";
    default:
      return "";
  }
}

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_CLIENT_HINT_H_
