#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"

namespace twinpath {
namespace {

constexpr uint64_t kReadStep = 1 << 20;

// Errors name the path; a path may hold foreign bytes.
absl::Status PathError(int error_number, absl::string_view doing,
                       absl::string_view path) {
  return ErrnoStatus(error_number, absl::StrCat(doing, " ", Printable(path)));
}

absl::string_view KindOf(mode_t mode) {
  if (S_ISREG(mode)) return "a file";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

absl::Status NotAFile(mode_t mode, absl::string_view path) {
  return absl::InvalidArgumentError(absl::StrCat(
      Printable(path), " is ", KindOf(mode), ", not a regular file"));
}

absl::StatusOr<UniqueFd> Open(const std::string& path, int flags) {
  while (true) {
    const int fd = open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0) return UniqueFd(fd);
    if (errno != EINTR) return PathError(errno, "open", path);
  }
}

}  // namespace

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void UniqueFd::Close() {
  // Not repeated on EINTR: Linux has closed the descriptor by then.
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

absl::StatusOr<UniqueFd> OpenForRead(const std::string& path) {
  return Open(path, O_RDONLY);
}

absl::StatusOr<UniqueFd> OpenRegularFile(const std::string& path) {
  // Looked at before it is opened, since opening a device can have effects, and
  // once more behind it, since the name may have been given to another file.
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return PathError(errno, "open", path);
  if (!S_ISREG(info.st_mode)) return NotAFile(info.st_mode, path);
  TWINPATH_ASSIGN_OR_RETURN(UniqueFd fd, Open(path, O_RDONLY | O_NONBLOCK));
  if (fstat(fd.get(), &info) != 0) return PathError(errno, "stat", path);
  if (!S_ISREG(info.st_mode)) return NotAFile(info.st_mode, path);
  return fd;
}

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     uint64_t max_bytes) {
  TWINPATH_ASSIGN_OR_RETURN(const UniqueFd fd, OpenForRead(path));
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return PathError(errno, "stat", path);
  if (S_ISDIR(info.st_mode)) return NotAFile(info.st_mode, path);
  const auto too_large = [&] {
    return absl::ResourceExhaustedError(
        absl::StrCat(Printable(path), " holds more than the ",
                     HumanBytes(max_bytes), " accepted here"));
  };
  const uint64_t stated =
      static_cast<uint64_t>(std::max<off_t>(info.st_size, 0));
  if (S_ISREG(info.st_mode) && stated > max_bytes) return too_large();

  // The size stated is only a hint: files in /proc state none, and a file may
  // grow while it is read.
  std::string content;
  content.reserve(static_cast<size_t>(std::min(stated, max_bytes)));
  while (true) {
    const size_t old_size = content.size();
    const uint64_t room = max_bytes - old_size;
    // One byte more than allowed tells a full file from a longer one.
    const uint64_t expected =
        stated > old_size ? stated - old_size + 1 : uint64_t{64} * 1024;
    const uint64_t step = std::min(
        {expected, kReadStep, room < kReadStep ? room + 1 : kReadStep});
    content.resize(old_size + static_cast<size_t>(step));
    const ssize_t got =
        read(fd.get(), content.data() + old_size, static_cast<size_t>(step));
    content.resize(old_size + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0) {
      if (errno == EINTR) continue;
      return PathError(errno, "read", path);
    }
    if (got == 0) return content;
    if (content.size() > max_bytes) return too_large();
  }
}

absl::StatusOr<std::string> PreadUpTo(int fd, uint64_t offset, uint64_t size) {
  constexpr uint64_t kLastOffset =
      static_cast<uint64_t>(std::numeric_limits<off_t>::max());
  std::string content;
  if (offset > kLastOffset) return content;
  size = std::min(size, kLastOffset - offset);
  // `size` may come from a hostile file: no more is allocated than is there.
  struct stat info {};
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "stat");
  if (S_ISREG(info.st_mode)) {
    const uint64_t end =
        static_cast<uint64_t>(std::max<off_t>(info.st_size, 0));
    const uint64_t left = end > offset ? end - offset : 0;
    content.reserve(static_cast<size_t>(std::min(size, left)));
  }
  while (content.size() < size) {
    const size_t old_size = content.size();
    const size_t spare = content.capacity() - old_size;
    const uint64_t step = std::min<uint64_t>(
        size - old_size, spare > 0 ? spare : uint64_t{64} * 1024);
    content.resize(old_size + static_cast<size_t>(step));
    const ssize_t got =
        pread(fd, content.data() + old_size, static_cast<size_t>(step),
              static_cast<off_t>(offset + old_size));
    content.resize(old_size + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "read");
    }
    if (got == 0) break;
  }
  return content;
}

absl::Status WriteAll(int fd, absl::string_view data) {
  while (!data.empty()) {
    const ssize_t wrote = write(fd, data.data(), data.size());
    if (wrote >= 0) {
      data.remove_prefix(static_cast<size_t>(wrote));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return ErrnoStatus(errno, "write");
    pollfd wait{fd, POLLOUT, 0};
    if (poll(&wait, 1, /*timeout=*/-1) < 0 && errno != EINTR) {
      return ErrnoStatus(errno, "poll");
    }
  }
  return absl::OkStatus();
}

absl::Status WriteFileAtomic(const std::string& path, absl::string_view data,
                             uint32_t mode) {
  const std::string folder = DirName(path);
  // Short, so that a name near the limit of the file system still works.
  std::string temporary = JoinPath(folder, ".twinpath-XXXXXX");
  UniqueFd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) return PathError(errno, "create a file in", folder);
  absl::Cleanup remove_temporary = [&temporary] { unlink(temporary.c_str()); };

  const std::string writing = absl::StrCat("write ", Printable(path));
  if (fchmod(fd.get(), static_cast<mode_t>(mode)) != 0) {
    return ErrnoStatus(errno, writing);
  }
  TWINPATH_RETURN_IF_ERROR_CTX(WriteAll(fd.get(), data), writing);
  if (fsync(fd.get()) != 0) return ErrnoStatus(errno, writing);
  // Network file systems report a full disk as late as here.
  if (close(fd.Release()) != 0 && errno != EINTR) {
    return ErrnoStatus(errno, writing);
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    return ErrnoStatus(errno, writing);
  }
  std::move(remove_temporary).Cancel();
  return SyncDirectory(folder);
}

absl::Status MakeDirectories(const std::string& path, uint32_t mode) {
  if (path.empty()) {
    return absl::InvalidArgumentError("make a folder: the path is empty");
  }
  size_t end = 0;
  while (end < path.size()) {
    end = path.find('/', end + 1);
    if (end == std::string::npos) end = path.size();
    const std::string part = path.substr(0, end);
    struct stat info {};
    // mkdir tells less than stat where a parent exists but is read-only.
    if (stat(part.c_str(), &info) != 0) {
      if (errno != ENOENT) return PathError(errno, "make folder", part);
      if (mkdir(part.c_str(), static_cast<mode_t>(mode)) == 0) continue;
      // Another process may have made it meanwhile; a broken link exists too.
      const int mkdir_error = errno;
      if (mkdir_error != EEXIST || stat(part.c_str(), &info) != 0) {
        return PathError(mkdir_error, "make folder", part);
      }
    }
    if (!S_ISDIR(info.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat("make folder ", Printable(path), ": ", Printable(part),
                       " is ", KindOf(info.st_mode), ", not a folder"));
    }
  }
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& path) {
  TWINPATH_ASSIGN_OR_RETURN(const UniqueFd fd,
                            Open(path, O_RDONLY | O_DIRECTORY));
  // Some file systems cannot sync a folder and say EINVAL.
  if (fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP) {
    return PathError(errno, "sync folder", path);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListDirectory(
    const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()),
                                                   closedir);
  if (folder == nullptr) return PathError(errno, "list", path);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = readdir(folder.get());
    if (entry == nullptr) break;
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return PathError(errno, "list", path);
  std::sort(names.begin(), names.end());
  return names;
}

std::string JoinPath(absl::string_view a, absl::string_view b) {
  if (a.empty()) return std::string(b);
  if (b.empty()) return std::string(a);
  while (absl::EndsWith(a, "/")) a.remove_suffix(1);
  while (absl::StartsWith(b, "/")) b.remove_prefix(1);
  return absl::StrCat(a, "/", b);
}

absl::string_view BaseName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

std::string DirName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  absl::string_view folder = path.substr(0, slash);
  while (absl::EndsWith(folder, "/")) folder.remove_suffix(1);
  return folder.empty() ? "/" : std::string(folder);
}

absl::StatusOr<TempDirectory> TempDirectory::Make(const std::string& parent) {
  std::string base = parent;
  if (base.empty()) {
    const char* from_environment = std::getenv("TMPDIR");
    base = from_environment != nullptr && *from_environment != '\0'
               ? from_environment
               : "/tmp";
  }
  std::string path = JoinPath(base, "twinpath-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return PathError(errno, "make a temporary folder in", base);
  }
  return TempDirectory(std::move(path));
}

TempDirectory& TempDirectory::operator=(TempDirectory&& other) noexcept {
  if (this != &other) {
    if (!path_.empty()) RemoveTree(path_).IgnoreError();
    path_ = std::exchange(other.path_, "");
  }
  return *this;
}

TempDirectory::~TempDirectory() {
  if (!path_.empty()) RemoveTree(path_).IgnoreError();
}

}  // namespace twinpath
