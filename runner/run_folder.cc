#include "runner/run_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/status.h"
#include "base/text.h"
#include "runner/jit_cache.h"

namespace twinpath::runner {
namespace {

constexpr int kMaxDepth = 16;
constexpr uint32_t kMaxFiles = 100'000;
constexpr size_t kMaxLinks = 10'000;
// A log longer than this is cut: nobody reads it, and hashing it takes time.
constexpr uint64_t kMaxLogBytes = uint64_t{256} << 20;
constexpr const char* kLogName = "driver.log";

absl::Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, absl::StrCat("make ", Printable(path)));
  }
  return absl::OkStatus();
}

// Clears `whole` where a folder could not be looked into.
// Who wrote a file of the cache; empty where it does not say.
std::string WriterOf(int folder, const char* name) {
  // O_NONBLOCK: it may have become a FIFO.
  const UniqueFd fd(
      openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return "";
  const auto head = PreadUpTo(fd.get(), 0, kCacheHeadBytes);
  return head.ok() ? CacheWriterOf(*head) : "";
}

void CountFiles(int fd, int depth, v1::CacheEvidence& evidence, bool& whole) {
  DIR* folder = fdopendir(fd);
  if (folder == nullptr) {
    close(fd);
    whole = false;
    return;
  }
  while (const dirent* entry = readdir(folder)) {
    if (std::strcmp(entry->d_name, ".") == 0 ||
        std::strcmp(entry->d_name, "..") == 0) {
      continue;
    }
    if (evidence.files() >= kMaxFiles) break;
    struct stat info;
    if (fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) !=
        0) {
      continue;
    }
    if (S_ISREG(info.st_mode)) {
      evidence.set_files(evidence.files() + 1);
      evidence.set_bytes(evidence.bytes() +
                         static_cast<uint64_t>(info.st_size));
      if (kCacheIndex != entry->d_name) {
        CountCacheEntry(WriterOf(dirfd(folder), entry->d_name), evidence);
      }
    } else if (S_ISDIR(info.st_mode)) {
      const int below =
          depth < kMaxDepth
              ? openat(dirfd(folder), entry->d_name,
                       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
              : -1;
      if (below >= 0) {
        CountFiles(below, depth + 1, evidence, whole);
      } else {
        whole = false;
      }
    }
  }
  closedir(folder);
}

}  // namespace

absl::StatusOr<RunFolder> RunFolder::Make(const std::string& path,
                                          const std::string& artifact_directory,
                                          bool may_hold_files) {
  if (path.empty() || path[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat(
        "the work folder must be an absolute path: ", Printable(path)));
  }
  TWINPATH_ASSIGN_OR_RETURN_CTX(const std::vector<std::string> present,
                                ListDirectory(path), "work folder");
  if (!present.empty() && !may_hold_files) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the work folder is not empty: ", Printable(path),
        "; each run needs a new one, or files of an earlier run would count"));
  }
  RunFolder folder;
  folder.home_ = JoinPath(path, "home");
  folder.cache_ = JoinPath(path, "cache");
  folder.driver_log_ = JoinPath(path, kLogName);
  TWINPATH_RETURN_IF_ERROR(MakeFolder(folder.home_));
  TWINPATH_RETURN_IF_ERROR(MakeFolder(folder.cache_));
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  folder.folder_fd_ = UniqueFd(open(path.c_str(), kFlags));
  folder.cache_fd_ = UniqueFd(open(folder.cache_.c_str(), kFlags));
  if (!folder.folder_fd_.valid() || !folder.cache_fd_.valid()) {
    return ErrnoStatus(errno, absl::StrCat("open ", Printable(path)));
  }
  if (may_hold_files) unlinkat(folder.folder_fd_.get(), kLogName, 0);
  if (!artifact_directory.empty()) {
    TWINPATH_ASSIGN_OR_RETURN_CTX(const std::vector<std::string> names,
                                  ListDirectory(artifact_directory),
                                  "artifact folder");
    // Arguments that name files of the artifact work as they stand, and what
    // the program writes beside them lands here.
    for (size_t i = 0; i < std::min(names.size(), kMaxLinks); ++i) {
      const std::string target = JoinPath(artifact_directory, names[i]);
      if (symlink(target.c_str(), JoinPath(folder.home_, names[i]).c_str()) !=
              0 &&
          errno != EEXIST) {
        return ErrnoStatus(errno, absl::StrCat("link ", Printable(target)));
      }
    }
  }
  return folder;
}

v1::CacheEvidence RunFolder::CacheEvidenceNow() const {
  v1::CacheEvidence evidence;
  struct stat info;
  // A folder that the program removed or replaced shows nothing.
  if (fstat(cache_fd_.get(), &info) != 0 || info.st_nlink == 0) return evidence;
  struct stat named;
  if (fstatat(folder_fd_.get(), "cache", &named, AT_SYMLINK_NOFOLLOW) != 0 ||
      named.st_ino != info.st_ino || named.st_dev != info.st_dev) {
    return evidence;
  }
  const int fd = openat(cache_fd_.get(), ".",
                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  bool whole = fd >= 0;
  if (fd >= 0) CountFiles(fd, 0, evidence, whole);
  // What could not be looked into may hold files; "none" would be a guess.
  evidence.set_observed(whole || evidence.files() > 0);
  return evidence;
}

v1::CapturedOutput RunFolder::DriverLogNow(uint64_t limit) const {
  v1::CapturedOutput captured;
  // O_NONBLOCK: the program may have put a FIFO there.
  const UniqueFd fd(openat(folder_fd_.get(), kLogName,
                           O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info;
  if (!fd.valid() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return captured;
  }
  const uint64_t size =
      std::min(static_cast<uint64_t>(info.st_size), kMaxLogBytes);
  captured.set_total_bytes(size);
  Sha256Stream digest;
  std::string tail;
  for (uint64_t at = 0; at < size;) {
    const auto part =
        PreadUpTo(fd.get(), at, std::min<uint64_t>(size - at, 1 << 20));
    if (!part.ok() || part->empty()) break;
    digest.Update(*part);
    absl::string_view rest = *part;
    if (captured.head().size() < limit) {
      const size_t room = static_cast<size_t>(limit) - captured.head().size();
      const size_t taken = std::min(room, rest.size());
      captured.mutable_head()->append(rest.data(), taken);
      rest.remove_prefix(taken);
    }
    tail.append(rest.data(), rest.size());
    if (tail.size() > limit) {
      tail.erase(0, tail.size() - static_cast<size_t>(limit));
    }
    at += part->size();
  }
  captured.set_tail(tail);
  captured.mutable_digest()->set_sha256(digest.Finish().Raw());
  return captured;
}

}  // namespace twinpath::runner
