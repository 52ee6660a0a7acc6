// Exit codes of the command-line tools. Stable; also in docs/exit-codes.md.

#ifndef TWINPATH_BASE_EXIT_CODE_H_
#define TWINPATH_BASE_EXIT_CODE_H_

#include "absl/status/status.h"

namespace twinpath {

enum ExitCode : int {
  kExitPass = 0,
  // The gate failed; a check found what it looks for.
  kExitFail = 1,
  // Usage, configuration or input error.
  kExitUsage = 2,
  // Inconclusive or stale.
  kExitInconclusive = 3,
  // Coordinator or hosts unreachable; deadline without an answer.
  kExitUnreachable = 4,
  // Permission or identity.
  kExitIdentity = 5,
  // Digest or signature does not match.
  kExitIntegrity = 6,
  // A bug in Twinpath.
  kExitInternal = 70,
  // Whoever read the result closed the pipe before its end. What a shell shows
  // of a program that SIGPIPE ends.
  kExitClosedPipe = 141,
};

// Maps a status: INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS,
// FAILED_PRECONDITION, OUT_OF_RANGE, RESOURCE_EXHAUSTED -> usage; UNAVAILABLE,
// DEADLINE_EXCEEDED -> unreachable; PERMISSION_DENIED, UNAUTHENTICATED ->
// identity; DATA_LOSS -> integrity; INTERNAL, UNKNOWN, UNIMPLEMENTED ->
// internal; CANCELLED, ABORTED -> inconclusive.
ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace twinpath

#endif  // TWINPATH_BASE_EXIT_CODE_H_
