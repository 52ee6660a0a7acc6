// Ends a run that takes more than its share of memory, tasks or disk. Looked at
// while it runs, about ten times a second; disk use, which takes a walk through
// folders, less often. Not thread-safe.

#ifndef TWINPATH_RUNNER_RUN_WATCH_H_
#define TWINPATH_RUNNER_RUN_WATCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "runner/process_watch.h"

namespace twinpath::runner {

// Threads and processes of one run together.
inline constexpr uint64_t kMaxRunTasks = 4096;
// Bytes on disk of one run: what it writes, and what was copied for it.
inline constexpr uint64_t kMaxRunDiskBytes = uint64_t{64} << 30;
// A bound of the host's own, bytes; root's unit file sets it.
inline constexpr char kDiskLimitVariable[] = "TWINPATH_RUN_DISK_BYTES";

// What a run may have on disk: kMaxRunDiskBytes, or less where
// kDiskLimitVariable says so.
uint64_t DiskLimit();

// Bytes that the files below `folder` occupy, links not followed and other file
// systems not entered; at least `enough` where there is that much: the walk
// then stops. What cannot be read is not counted.
uint64_t DiskUsage(const std::string& folder, uint64_t enough);

struct WatchLimits {
  // 0: none.
  uint64_t memory_bytes = 0;
  // This process and the run are alone in a control group.
  bool control_group = false;
  // What the run holds. Unset: what all processes below this one hold.
  std::function<TreeUsage()> usage;
  // 0: none.
  uint64_t disk_bytes = 0;
  std::vector<std::string> disk_folders;
};

class RunWatch {
 public:
  explicit RunWatch(WatchLimits limits);

  // Whether the run is over a limit; problem() then says which.
  bool Exceeded();
  const std::string& problem() const { return problem_; }

 private:
  bool DiskExceeded();

  const WatchLimits limits_;
  // What this process itself had before the run.
  TreeUsage own_;
  absl::Time next_walk_;
  std::string problem_;
};

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_RUN_WATCH_H_
