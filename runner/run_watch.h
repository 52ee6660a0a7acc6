// Ends a run that takes more than its share of memory, tasks or disk. Looked at
// while it runs, about ten times a second. Disk use takes a walk through
// folders (disk_use.h): once a second at most, less often where that is slow,
// and at once where the file system loses what the run had left.
//
// Nothing a run does to its files takes them out of the limit. Those that no
// walk finds are in what the file system lost since the run began. There others
// of the host count, too, so that some of it is let pass (kUnseenVariable), and
// for each other run that the host may have at once all that it may have
// (kRunsVariable), since a run cannot see another's files. Beyond that the run
// is ended, and the problem says that it cannot be told who it was. Not
// thread-safe.

#ifndef TWINPATH_RUNNER_RUN_WATCH_H_
#define TWINPATH_RUNNER_RUN_WATCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "runner/disk_use.h"
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

// What the file system may lose beyond the limit while a run is on, bytes,
// since the host writes, too; root's unit file may set it.
inline constexpr uint64_t kUnseenBytes = uint64_t{8} << 30;
inline constexpr char kUnseenVariable[] = "TWINPATH_RUN_UNSEEN_BYTES";
uint64_t UnseenAllowance();

// How many runs the host may have at once: an agent has one on each GPU. Unset:
// as many as the driver has GPUs; 1 where it does not say.
inline constexpr char kRunsVariable[] = "TWINPATH_RUNS_AT_ONCE";
// `root` goes before /proc; only for tests.
uint64_t RunsAtOnce(const std::string& root = "");

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
  uint64_t unseen_bytes = UnseenAllowance();
  // This one counts.
  uint64_t runs_at_once = RunsAtOnce();
  // What the folders' file systems have left. Unset: FreeBytes(disk_folders).
  std::function<std::optional<uint64_t>()> free_bytes;
};

class RunWatch {
 public:
  // Looks at the disk once: make it before the run starts.
  explicit RunWatch(WatchLimits limits);

  // Whether the run is over a limit; problem() then says which.
  bool Exceeded();
  // The same, with a look at the disk whenever the last one was.
  bool ExceededNow();
  const std::string& problem() const { return problem_; }

 private:
  bool DiskExceeded();
  void LookAtDisk();
  std::optional<uint64_t> Free() const;

  const WatchLimits limits_;
  // What this process itself had before the run.
  TreeUsage own_;
  // What was on disk, and free there, before the run.
  uint64_t first_bytes_ = 0;
  std::optional<uint64_t> first_free_;
  // At the last look.
  DiskUse last_;
  uint64_t last_free_ = 0;
  // When the next look is due, and before when there is none in any case.
  absl::Time next_look_;
  absl::Time soonest_look_;
  std::string problem_;
};

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_RUN_WATCH_H_
