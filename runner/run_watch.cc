#include "runner/run_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text.h"

namespace twinpath::runner {
namespace {

constexpr absl::Duration kLeastPause = absl::Seconds(1);
// Of the time a walk took: the pause behind it.
constexpr int kPauseFactor = 10;
// st_blocks counts these, whatever the file system's own blocks are (stat(2)).
constexpr uint64_t kStatBlock = 512;
// Deeper folders of a hostile run do not exhaust the stack; an inode costs
// something, too, so that many empty files are not free.
constexpr int kMaxDepth = 64;
constexpr uint64_t kInodeBytes = 256;

// Takes over `fd`. Adds to `bytes` until it has `enough`.
void Walk(int fd, dev_t device, int depth, uint64_t enough, uint64_t& bytes) {
  DIR* folder = fdopendir(fd);
  if (folder == nullptr) {
    close(fd);
    return;
  }
  while (bytes < enough) {
    const dirent* entry = readdir(folder);
    if (entry == nullptr) break;
    if (std::strcmp(entry->d_name, ".") == 0 ||
        std::strcmp(entry->d_name, "..") == 0) {
      continue;
    }
    struct stat info;
    if (fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) !=
        0) {
      continue;
    }
    // Of folders only: files of a layered file system may say another device.
    const bool directory = S_ISDIR(info.st_mode);
    if (directory && info.st_dev != device) continue;
    bytes += static_cast<uint64_t>(info.st_blocks) * kStatBlock + kInodeBytes;
    if (!directory || depth >= kMaxDepth) continue;
    const int below = openat(dirfd(folder), entry->d_name,
                             O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below >= 0) Walk(below, device, depth + 1, enough, bytes);
  }
  closedir(folder);
}

uint64_t Less(uint64_t all, uint64_t own) { return all > own ? all - own : 0; }

}  // namespace

uint64_t DiskLimit() {
  uint64_t bytes = 0;
  const char* text = std::getenv(kDiskLimitVariable);
  if (text == nullptr || !absl::SimpleAtoi(text, &bytes) || bytes == 0) {
    return kMaxRunDiskBytes;
  }
  return std::min(bytes, kMaxRunDiskBytes);
}

uint64_t DiskUsage(const std::string& folder, uint64_t enough) {
  const int fd =
      open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat info;
  if (fd < 0) return 0;
  if (fstat(fd, &info) != 0) {
    close(fd);
    return 0;
  }
  uint64_t bytes = 0;
  Walk(fd, info.st_dev, 0, enough, bytes);
  return bytes;
}

RunWatch::RunWatch(WatchLimits limits)
    : limits_(std::move(limits)), next_walk_(absl::Now()) {
  if (limits_.control_group) own_ = UsageOfControlGroup();
}

bool RunWatch::DiskExceeded() {
  if (limits_.disk_bytes == 0 || absl::Now() < next_walk_) return false;
  const absl::Time start = absl::Now();
  uint64_t bytes = 0;
  for (const std::string& folder : limits_.disk_folders) {
    bytes += DiskUsage(folder, limits_.disk_bytes + 1);
  }
  const absl::Time end = absl::Now();
  next_walk_ = end + std::max(kLeastPause, (end - start) * kPauseFactor);
  if (bytes <= limits_.disk_bytes) return false;
  problem_ = absl::StrCat("disk limit: the run's files took more than the ",
                          HumanBytes(limits_.disk_bytes), " allowed");
  return true;
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
