// Watches the processes of a run from outside: how much memory they hold
// together and how many tasks there are. (RLIMIT_AS is no use for CUDA, which
// reserves address space beyond any limit, and RLIMIT_NPROC does not bind
// root.) In bubblewrap the process tree is counted from /proc; in a systemd
// unit also the unit's control group, where no process can hide.

#ifndef TWINPATH_RUNNER_PROCESS_WATCH_H_
#define TWINPATH_RUNNER_PROCESS_WATCH_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace twinpath::runner {

struct TreeUsage {
  uint64_t resident_bytes = 0;
  uint64_t processes = 0;
  uint64_t tasks = 0;
};

// Usage of all descendants of `root`, itself not counted, read from /proc. What
// ends meanwhile is not counted.
TreeUsage UsageOfDescendants(pid_t root);

// Every process below `root`, itself left out, as /proc has them.
std::vector<pid_t> DescendantsOf(pid_t root);

// Usage of the control group this process is in: memory that belongs to
// processes (anonymous and shared; no page cache) and tasks. Zeros where it
// cannot be read. Knows the unified hierarchy and the older one. `root` goes
// before /proc and /sys; only for tests.
TreeUsage UsageOfControlGroup(const std::string& root = "");

// The processes in that control group, this one left out. In a unit with
// ProtectProc= the tree in /proc has gaps: who may not be looked into is not
// there, and what is below it cannot be reached.
std::vector<pid_t> ProcessesOfControlGroup(const std::string& root = "");

// How many processes of that control group the kernel has taken for want of
// memory, since the group was made. Nothing where it does not say.
std::optional<uint64_t> TakenForMemory(const std::string& root = "");

// One line of /proc/<pid>/stat.
struct ProcessStat {
  pid_t parent = 0;
  uint64_t threads = 0;
  uint64_t resident_pages = 0;
};
// Returns false for a line that is none. The name may hold blanks and ')'.
bool ParseProcessStat(absl::string_view line, ProcessStat& stat);

// Bytes of memory this host has; 0 if unknown.
uint64_t HostMemoryBytes();

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_PROCESS_WATCH_H_
