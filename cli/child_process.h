// ChildProcess: a program that runs beside the caller (a daemon started by
// `twinpath up`, a build started by `twinpath record`). What has an end and
// output to keep goes through base/subprocess.h. Not thread-safe.

#ifndef TWINPATH_CLI_CHILD_PROCESS_H_
#define TWINPATH_CLI_CHILD_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace twinpath::cli {

struct ChildOptions {
  // argv[0] is a path, or a name that is looked for in PATH.
  std::vector<std::string> argv;
  // Variables to take out of the inherited environment.
  std::vector<std::string> unset;
  // Variables to set, "NAME=value".
  std::vector<std::string> set;
  // Standard output and error are appended to this file; standard input is
  // /dev/null. Empty: all three are inherited.
  std::string log_path;
  // The child gets SIGTERM when its parent dies, and leads a process group of
  // its own, so that Ctrl-C reaches the parent alone.
  bool daemon = false;
};

class ChildProcess {
 public:
  // NOT_FOUND, PERMISSION_DENIED and others as execve says.
  static absl::StatusOr<ChildProcess> Start(const ChildOptions& options);

  ChildProcess(ChildProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), status_(other.status_) {}
  ChildProcess& operator=(ChildProcess&&) = delete;
  // Kills the child if it still runs, and reaps it.
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Sends a signal; nothing if it has ended.
  void Signal(int number);
  // The wait status if it has ended.
  std::optional<int> Poll();
  // Waits at most `timeout`. Returns the wait status, nullopt while running.
  std::optional<int> WaitFor(absl::Duration timeout);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
  std::optional<int> status_;
};

// Exit code as a shell gives it: the code, or 128 + signal.
int ShellExitCode(int wait_status);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_CHILD_PROCESS_H_
