#include "runner/disk_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/text.h"

namespace twinpath::runner {
namespace {

// st_blocks counts these, whatever the file system's own blocks are (stat(2)).
constexpr uint64_t kStatBlock = 512;
// An inode costs something, too, so that many empty files are not free.
constexpr uint64_t kInodeBytes = 256;
// Each level holds a descriptor.
constexpr int kMaxDepth = 256;
// How many files lie between two looks at the clock.
constexpr uint64_t kFilesPerLook = 1024;
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

uint64_t BytesOf(const struct stat& info) {
  return static_cast<uint64_t>(info.st_blocks) * kStatBlock + kInodeBytes;
}

std::string SelfPath(int fd) { return absl::StrCat("/proc/self/fd/", fd); }

// A folder that is open, and open to its owner as long as that takes.
class OpenFolder {
  // Its owner, which the run and its watcher both are, may look into it and
  // pass through it.
  static constexpr mode_t kNeeded = S_IRUSR | S_IXUSR;

 public:
  OpenFolder() = default;
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;
  ~OpenFolder() { Close(); }

  // Returns 0 or an errno.
  int Open(int parent, const char* name) {
    constexpr int kTries = 3;
    int error = EACCES;
    for (int i = 0; i < kTries && error == EACCES; ++i) {
      Close();
      path_ = UniqueFd(
          openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      struct stat info;
      if (!path_.valid() || fstat(path_.get(), &info) != 0) return errno;
      if ((info.st_mode & kNeeded) != kNeeded && info.st_uid == geteuid() &&
          info.st_uid != 0) {
        closed_ = info.st_mode & 07777;
        // Not through its name, which may be another's by now.
        if (chmod(SelfPath(path_.get()).c_str(), closed_ | kNeeded) != 0) {
          return errno;
        }
        widened_ = true;
      }
      fd_ = UniqueFd(openat(path_.get(), ".", kFolderFlags));
      error = fd_.valid() ? 0 : errno;
      // What is open can be read on; only passing through is asked each time.
      if (error == 0 && (closed_ & S_IXUSR) != 0) CloseToOwner();
    }
    return error;
  }
  int fd() const { return fd_.get(); }

 private:
  // As it was, unless somebody has set another mode meanwhile.
  void CloseToOwner() {
    struct stat info;
    if (widened_ && fstat(path_.get(), &info) == 0 &&
        (info.st_mode & 07777) == (closed_ | kNeeded)) {
      chmod(SelfPath(path_.get()).c_str(), closed_);
    }
    widened_ = false;
  }
  void Close() {
    CloseToOwner();
    fd_ = UniqueFd();
    path_ = UniqueFd();
  }

  UniqueFd path_;
  UniqueFd fd_;
  bool widened_ = false;
  mode_t closed_ = 0;
};

class Walk {
 public:
  Walk(uint64_t enough, absl::Time until) : enough_(enough), until_(until) {}

  // `name` below `parent`, a folder.
  void Folder(int parent, const char* name, int depth) {
    if (depth > kMaxDepth) {
      Unseen(absl::StrCat("folders more than ", kMaxDepth, " deep"));
      return;
    }
    OpenFolder folder;
    if (const int error = folder.Open(parent, name); error != 0) {
      // What is gone, or no folder any more, has nothing.
      if (error != ENOENT && error != ENOTDIR && error != ELOOP) {
        Unseen(absl::StrCat("the folder ", Printable(name), " (",
                            std::strerror(error), ")"));
      }
      return;
    }
    struct stat info;
    if (fstat(folder.fd(), &info) != 0) return;
    if (depth == 0) device_ = info.st_dev;
    if (info.st_dev != device_) return;
    // The stream closes its own.
    const int own = fcntl(folder.fd(), F_DUPFD_CLOEXEC, 0);
    DIR* const stream = own < 0 ? nullptr : fdopendir(own);
    if (stream == nullptr) {
      if (own >= 0) close(own);
      Unseen(absl::StrCat("the folder ", Printable(name), " (",
                          std::strerror(errno), ")"));
      return;
    }
    while (!Over()) {
      const dirent* const entry = readdir(stream);
      if (entry == nullptr) break;
      if (std::strcmp(entry->d_name, ".") != 0 &&
          std::strcmp(entry->d_name, "..") != 0) {
        File(folder.fd(), entry->d_name, depth);
      }
    }
    closedir(stream);
  }
  DiskUse& use() { return use_; }

 private:
  void File(int folder, const char* name, int depth) {
    struct stat info;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT) {
        Unseen(absl::StrCat(Printable(name), " (", std::strerror(errno), ")"));
      }
      return;
    }
    // Of folders only: files of a layered file system may say another device.
    const bool is_folder = S_ISDIR(info.st_mode);
    if (is_folder && info.st_dev != device_) return;
    use_.bytes += BytesOf(info);
    if (is_folder) Folder(folder, name, depth + 1);
  }
  bool Over() {
    if (use_.bytes >= enough_ || stopped_) return true;
    if (++files_ % kFilesPerLook == 1 && absl::Now() >= until_) {
      Unseen("all of its files, since there are too many of them");
      stopped_ = true;
    }
    return stopped_;
  }
  void Unseen(std::string what) {
    if (use_.unseen.empty()) use_.unseen = std::move(what);
  }

  const uint64_t enough_;
  const absl::Time until_;
  dev_t device_ = 0;
  uint64_t files_ = 0;
  bool stopped_ = false;
  DiskUse use_;
};

// Nothing of it is left but its number.
bool HasEnded(pid_t pid) {
  const auto stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"), 4096);
  if (!stat.ok()) return true;
  // Its state stands behind the name, which may hold blanks and ')'.
  const size_t name_end = stat->rfind(") ");
  return name_end == std::string::npos ||
         stat->compare(name_end, 3, ") Z") == 0 ||
         stat->compare(name_end, 3, ") X") == 0;
}

bool IsInMemory(const struct statfs& info) {
  return info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC ||
         info.f_type == HUGETLBFS_MAGIC;
}

}  // namespace

DiskUse DiskUseBelow(const std::string& folder, uint64_t enough,
                     absl::Time until) {
  Walk walk(enough, until);
  walk.Folder(AT_FDCWD, folder.c_str(), 0);
  return std::move(walk.use());
}

DiskUse DeletedFilesOf(absl::Span<const pid_t> processes,
                       absl::Span<const std::string> folders,
                       absl::Time until) {
  DiskUse use;
  std::set<dev_t> places;
  for (const std::string& folder : folders) {
    struct stat info;
    if (stat(folder.c_str(), &info) == 0) places.insert(info.st_dev);
  }
  std::set<std::pair<dev_t, ino_t>> counted;
  uint64_t looked = 0;
  for (const pid_t pid : processes) {
    const std::string folder = absl::StrCat("/proc/", pid, "/fd");
    DIR* const stream = opendir(folder.c_str());
    if (stream == nullptr) {
      const int error = errno;
      if ((error == EACCES || error == EPERM) && use.unseen.empty() &&
          !HasEnded(pid)) {
        use.unseen = absl::StrCat("the open files of process ", pid, " (",
                                  std::strerror(error), ")");
      }
      continue;
    }
    while (const dirent* entry = readdir(stream)) {
      if (++looked % kFilesPerLook == 0 && absl::Now() >= until) {
        closedir(stream);
        if (use.unseen.empty()) {
          use.unseen =
              "all of its open files, since there are too many of them";
        }
        return use;
      }
      struct stat info;
      // The link leads to the file itself; nothing is opened.
      if (fstatat(dirfd(stream), entry->d_name, &info, 0) != 0 ||
          !S_ISREG(info.st_mode) || info.st_nlink != 0) {
        continue;
      }
      struct statfs where;
      if (places.count(info.st_dev) == 0 &&
          (statfs(JoinPath(folder, entry->d_name).c_str(), &where) != 0 ||
           IsInMemory(where))) {
        continue;
      }
      if (counted.emplace(info.st_dev, info.st_ino).second) {
        use.bytes += BytesOf(info);
      }
    }
    closedir(stream);
  }
  return use;
}

std::optional<uint64_t> FreeBytes(absl::Span<const std::string> folders) {
  uint64_t bytes = 0;
  std::set<dev_t> counted;
  for (const std::string& folder : folders) {
    struct stat info;
    struct statfs where;
    if (stat(folder.c_str(), &info) != 0 ||
        statfs(folder.c_str(), &where) != 0) {
      if (errno == ENOENT) continue;
      return std::nullopt;
    }
    if (!counted.insert(info.st_dev).second) continue;
    if (where.f_blocks == 0) {
      // Memory without a bound of its own.
      if (IsInMemory(where)) continue;
      return std::nullopt;
    }
    bytes += static_cast<uint64_t>(where.f_bfree) *
             static_cast<uint64_t>(where.f_frsize > 0 ? where.f_frsize
                                                      : where.f_bsize);
  }
  return bytes;
}

}  // namespace twinpath::runner
