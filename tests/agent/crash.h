// Runs a piece of code in a forked child that is killed at a fault point, as a
// power cut or the kernel's killer would: nothing is flushed, no destructor
// runs. The test then looks at what is left on disk.

#ifndef TWINPATH_TESTS_AGENT_CRASH_H_
#define TWINPATH_TESTS_AGENT_CRASH_H_

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "absl/strings/string_view.h"
#include "agent/fault_point.h"

namespace twinpath::agent {

// Returns whether the child was killed at the point (false: it never came by).
inline bool CrashAt(absl::string_view point, int occurrence,
                    const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    ArmFaultPoint(point, occurrence);
    body();
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

}  // namespace twinpath::agent

#endif  // TWINPATH_TESTS_AGENT_CRASH_H_
