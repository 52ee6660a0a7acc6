// How RunProcess starts a child: from options to a process that has become, or
// could not become, the program. Internal to base/subprocess.

#ifndef TWINPATH_BASE_SUBPROCESS_START_H_
#define TWINPATH_BASE_SUBPROCESS_START_H_

#include <sys/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace twinpath::subprocess_internal {

enum class Stage : int { kDescriptors, kDirectory, kLimits, kExec };

// What the child tells when it could not become the program.
struct StartFailure {
  Stage stage;
  int error;
};

struct StartedChild {
  pid_t pid = -1;
  // Gives one StartFailure if the child could not become the program, else ends
  // without a byte. Does not block; nor do the two streams.
  UniqueFd failure;
  UniqueFd out;
  UniqueFd err;
};

// Checks the options and forks. The child is in a process group of its own,
// whose number is its pid. Thread-safe.
absl::StatusOr<StartedChild> StartChild(const ProcessOptions& options);

// What a person should read about a failed start; codes as RunProcess promises.
absl::Status StartError(const StartFailure& failure,
                        const ProcessOptions& options);

}  // namespace twinpath::subprocess_internal

#endif  // TWINPATH_BASE_SUBPROCESS_START_H_
