#include "runner/run_watch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text.h"

namespace twinpath::runner {
namespace {

constexpr absl::Duration kLeastPause = absl::Seconds(1);
// Of the time a look took: the pause behind it.
constexpr int kPauseFactor = 10;
// Memory and time limits wait meanwhile.
constexpr absl::Duration kLongestLook = absl::Seconds(5);

// A number of bytes in the environment; `none` where there is none.
uint64_t BytesOf(const char* variable, uint64_t none) {
  uint64_t bytes = 0;
  const char* text = std::getenv(variable);
  return text != nullptr && absl::SimpleAtoi(text, &bytes) ? bytes : none;
}

uint64_t Less(uint64_t all, uint64_t own) { return all > own ? all - own : 0; }

}  // namespace

uint64_t DiskLimit() {
  const uint64_t bytes = BytesOf(kDiskLimitVariable, kMaxRunDiskBytes);
  return bytes == 0 ? kMaxRunDiskBytes : std::min(bytes, kMaxRunDiskBytes);
}

uint64_t UnseenAllowance() { return BytesOf(kUnseenVariable, kUnseenBytes); }

RunWatch::RunWatch(WatchLimits limits) : limits_(std::move(limits)) {
  if (limits_.control_group) own_ = UsageOfControlGroup();
  if (limits_.disk_bytes == 0) return;
  first_free_ = FreeBytes(limits_.disk_folders);
  first_bytes_ = last_bytes_ = LookAtDisk().bytes;
  last_free_ = first_free_.value_or(0);
  soonest_look_ = next_look_ = absl::Now();
}

DiskUse RunWatch::LookAtDisk() {
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
  return use;
}

bool RunWatch::DiskExceeded() {
  if (limits_.disk_bytes == 0) return false;
  const std::optional<uint64_t> free = FreeBytes(limits_.disk_folders);
  if (!free || !first_free_) {
    problem_ =
        "disk limit: what the run has on disk cannot be measured, since the "
        "file system of its folder does not say what it has left";
    return true;
  }
  const absl::Time now = absl::Now();
  const bool loses_all =
      Less(last_free_, *free) > Less(limits_.disk_bytes, last_bytes_);
  if (now < (loses_all ? soonest_look_ : next_look_)) return false;
  const DiskUse use = LookAtDisk();
  last_bytes_ = use.bytes;
  last_free_ = *free;
  if (use.bytes > limits_.disk_bytes) {
    problem_ = absl::StrCat("disk limit: the run's files took more than the ",
                            HumanBytes(limits_.disk_bytes), " allowed");
    return true;
  }
  const uint64_t lost = Less(*first_free_, *free);
  if (first_bytes_ + lost <= limits_.disk_bytes + limits_.unseen_bytes) {
    return false;
  }
  problem_ = absl::StrCat(
      "disk limit: the file system lost ", HumanBytes(lost),
      " since the run began, and the run's files that can be seen have ",
      HumanBytes(Less(use.bytes, first_bytes_)),
      " of it; whether the run or another program of the host has the rest "
      "cannot be told");
  if (!use.unseen.empty()) {
    absl::StrAppend(&problem_, "; not looked into: ", use.unseen);
  }
  absl::StrAppend(&problem_,
                  "; give the folder of runs (/var/tmp) a file "
                  "system of its own, or set ",
                  kUnseenVariable);
  return true;
}

bool RunWatch::ExceededNow() {
  next_look_ = absl::InfinitePast();
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
