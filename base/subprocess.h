// Subprocess: one child with a clean environment, given descriptors, a deadline
// and bounded output. The child runs in a process group of its own, which is
// killed as a whole at the deadline and when the caller's object dies. Children
// never inherit descriptors or variables that were not named.

#ifndef TWINPATH_BASE_SUBPROCESS_H_
#define TWINPATH_BASE_SUBPROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/digest.h"

namespace twinpath {

struct ProcessLimits {
  // RLIMIT_CPU in seconds, RLIMIT_NOFILE, RLIMIT_FSIZE in bytes, RLIMIT_CORE.
  std::optional<uint64_t> cpu_seconds;
  std::optional<uint64_t> open_files;
  std::optional<uint64_t> file_bytes;
  // RLIMIT_AS in bytes. Never for a process that uses CUDA: it reserves address
  // space beyond any sensible limit.
  std::optional<uint64_t> address_space_bytes;
  // Core dumps stay off unless set.
  uint64_t core_bytes = 0;
};

struct ProcessOptions {
  // argv[0] is the program; searched in PATH of `environment` if without '/'.
  std::vector<std::string> argv;
  // Exactly these variables, as "NAME=value".
  std::vector<std::string> environment;
  // Working folder; empty: the caller's.
  std::string directory;
  // Written to the child's standard input, which is then closed.
  std::string input;
  // Caller's descriptor -> number in the child (3 or higher). Others close.
  std::vector<std::pair<int, int>> descriptors;
  // Bytes kept of the start and of the end of each output stream. What lies
  // between is counted and hashed but not kept.
  uint64_t head_bytes = 1 << 20;
  uint64_t tail_bytes = 0;
  // Whether the output streams are hashed.
  bool digests = true;
  // Called in the caller's thread with each piece of the child's standard
  // output as it arrives, all of them before RunProcess returns.
  std::function<void(absl::string_view)> on_output;
  // The child gets SIGTERM at the deadline and SIGKILL after `grace`. A child
  // that survives SIGKILL (uninterruptible sleep) is abandoned: result `hung`.
  absl::Duration timeout = absl::Seconds(30);
  absl::Duration grace = absl::Seconds(2);
  // How long to wait behind SIGKILL before giving the child up.
  absl::Duration abandon_after = absl::Seconds(5);
  ProcessLimits limits;
  // Polled about every 100 ms while the child runs; true ends it like the
  // deadline, with result `cancelled`.
  std::function<bool()> cancelled;
};

struct StreamCapture {
  std::string head;
  std::string tail;
  uint64_t total_bytes = 0;
  // All zeros where ProcessOptions.digests is not set.
  Sha256 digest;
  // head (+ tail) is everything.
  bool complete() const { return total_bytes == head.size() + tail.size(); }
};

struct ProcessResult {
  enum class Ending { kExited, kSignaled, kTimedOut, kHung, kCancelled };
  Ending ending = Ending::kExited;
  int exit_code = 0;
  int signal = 0;
  StreamCapture out;
  StreamCapture err;
  absl::Duration duration;
  // Peak resident bytes of the child itself, from wait4.
  uint64_t max_rss_bytes = 0;

  bool succeeded() const { return ending == Ending::kExited && exit_code == 0; }
  // "exit 3", "signal 11 (SIGSEGV)", "timed out", ... for messages.
  std::string Describe() const;
};

// Runs a child to its end. NOT_FOUND if the program does not exist,
// PERMISSION_DENIED if it may not be run, INVALID_ARGUMENT if it is no program
// (exec format); other start errors as ErrnoStatus. A child that started is
// always a result, however it ended. Thread-safe.
absl::StatusOr<ProcessResult> RunProcess(const ProcessOptions& options);

// The environment a helper child needs and nothing else: PATH, HOME, LANG=C.
std::vector<std::string> MinimalEnvironment();

}  // namespace twinpath

#endif  // TWINPATH_BASE_SUBPROCESS_H_
