#include "runner/run_watch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/text.h"

namespace twinpath::runner {
namespace {

constexpr absl::Duration kLeastPause = absl::Seconds(1);
// Of the time a look took: the pause behind it.
constexpr int kPauseFactor = 10;
// Memory and time limits wait meanwhile.
constexpr absl::Duration kLongestLook = absl::Seconds(5);
// An agent has no more (agent/worker.cc).
constexpr uint64_t kMostRuns = 16;

// A number in the environment; `none` where there is none.
uint64_t NumberOf(const char* variable, uint64_t none) {
  uint64_t number = 0;
  const char* text = std::getenv(variable);
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : none;
}

uint64_t Less(uint64_t all, uint64_t own) { return all > own ? all - own : 0; }

// What is too much to be counted is the most there is.
uint64_t Sum(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

uint64_t Product(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

}  // namespace

uint64_t DiskLimit() {
  const uint64_t bytes = NumberOf(kDiskLimitVariable, kMaxRunDiskBytes);
  return bytes == 0 ? kMaxRunDiskBytes : std::min(bytes, kMaxRunDiskBytes);
}

uint64_t UnseenAllowance() { return NumberOf(kUnseenVariable, kUnseenBytes); }

uint64_t RunsAtOnce(const std::string& root) {
  uint64_t gpus = 0;
  if (const auto folders = ListDirectory(root + "/proc/driver/nvidia/gpus");
      folders.ok()) {
    gpus = folders->size();
  }
  return std::clamp<uint64_t>(NumberOf(kRunsVariable, gpus), 1, kMostRuns);
}

RunWatch::RunWatch(WatchLimits limits) : limits_(std::move(limits)) {
  if (limits_.control_group) own_ = UsageOfControlGroup();
  if (limits_.disk_bytes == 0) return;
  first_free_ = Free();
  LookAtDisk();
  first_bytes_ = last_.bytes;
  last_free_ = first_free_.value_or(0);
  soonest_look_ = next_look_ = absl::Now();
}

std::optional<uint64_t> RunWatch::Free() const {
  return limits_.free_bytes ? limits_.free_bytes()
                            : FreeBytes(limits_.disk_folders);
}

void RunWatch::LookAtDisk() {
  const absl::Time start = absl::Now();
  const absl::Time until = start + kLongestLook;
  DiskUse use;
  for (const std::string& folder : limits_.disk_folders) {
    use.Add(DiskUseBelow(folder, limits_.disk_bytes + 1, until));
  }
  use.Add(DeletedFilesOf(limits_.control_group ? ProcessesOfControlGroup()
                                               : DescendantsOf(getpid()),
                         limits_.disk_folders, until));
  const absl::Duration took = absl::Now() - start;
  soonest_look_ = absl::Now() + took;
  next_look_ = absl::Now() + std::max(kLeastPause, took * kPauseFactor);
  last_ = std::move(use);
}

bool RunWatch::DiskExceeded() {
  if (limits_.disk_bytes == 0) return false;
  const std::optional<uint64_t> free = Free();
  if (!free || !first_free_) {
    problem_ =
        "disk limit: what the run has on disk cannot be measured, since the "
        "file system of its folder does not say what it has left";
    return true;
  }
  const uint64_t lost = Less(*first_free_, *free);
  const uint64_t others =
      Sum(limits_.unseen_bytes,
          Product(Less(limits_.runs_at_once, 1), limits_.disk_bytes));
  const bool lost_too_much =
      Sum(first_bytes_, lost) > Sum(limits_.disk_bytes, others);
  const bool loses_all =
      Less(last_free_, *free) > Less(limits_.disk_bytes, last_.bytes);
  if (absl::Now() < (loses_all || lost_too_much ? soonest_look_ : next_look_)) {
    if (!lost_too_much) return false;
  } else {
    LookAtDisk();
    last_free_ = *free;
    if (last_.bytes > limits_.disk_bytes) {
      problem_ = absl::StrCat("disk limit: the run's files took more than the ",
                              HumanBytes(limits_.disk_bytes), " allowed");
      return true;
    }
    if (!lost_too_much) return false;
  }
  problem_ = absl::StrCat(
      "disk limit: the file system lost ", HumanBytes(lost),
      " since the run began, and the run's files that can be seen have ",
      HumanBytes(Less(last_.bytes, first_bytes_)),
      " of it; whether the run or another program of the host has the rest "
      "cannot be told");
  if (limits_.runs_at_once > 1) {
    absl::StrAppend(&problem_, " (it is more than the ", limits_.runs_at_once,
                    " runs this host may have at once may have together)");
  }
  if (!last_.unseen.empty()) {
    absl::StrAppend(&problem_, "; not looked into: ", last_.unseen);
  }
  absl::StrAppend(&problem_,
                  "; give the folder of runs (/var/tmp) a file "
                  "system of its own, or set ",
                  kUnseenVariable);
  return true;
}

bool RunWatch::ExceededNow() {
  next_look_ = soonest_look_ = absl::InfinitePast();
  return Exceeded();
}

bool RunWatch::Exceeded() {
  if (!problem_.empty()) return true;
  TreeUsage usage =
      limits_.usage ? limits_.usage() : UsageOfDescendants(getpid());
  if (limits_.control_group) {
    const TreeUsage group = UsageOfControlGroup();
    usage.resident_bytes = std::max(
        usage.resident_bytes, Less(group.resident_bytes, own_.resident_bytes));
    usage.tasks = std::max(usage.tasks, Less(group.tasks, own_.tasks));
  }
  if (limits_.memory_bytes > 0 && usage.resident_bytes > limits_.memory_bytes) {
    problem_ = absl::StrCat("memory limit: the run's processes held ",
                            HumanBytes(usage.resident_bytes), " of ",
                            HumanBytes(limits_.memory_bytes), " allowed");
    return true;
  }
  if (usage.tasks > kMaxRunTasks) {
    problem_ =
        absl::StrCat("task limit: the run had ", usage.tasks,
                     " threads and processes of ", kMaxRunTasks, " allowed");
    return true;
  }
  return DiskExceeded();
}

}  // namespace twinpath::runner
