// Files: reading with a stated limit, writing whole or not at all, descriptors
// that close themselves, temporary folders.

#ifndef TWINPATH_BASE_FILE_H_
#define TWINPATH_BASE_FILE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace twinpath {

// Owns a file descriptor; closes it when it dies. Move-only.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd() { Close(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Close();

 private:
  int fd_ = -1;
};

// Opens `path` for reading (O_CLOEXEC). Errors as ErrnoStatus, the path named.
absl::StatusOr<UniqueFd> OpenForRead(const std::string& path);

// Opens a regular file for reading. INVALID_ARGUMENT for a folder or a device,
// saying which it is.
absl::StatusOr<UniqueFd> OpenRegularFile(const std::string& path);

// Reads the whole file. RESOURCE_EXHAUSTED if it holds more than `max_bytes`;
// nothing larger than that is ever allocated.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     uint64_t max_bytes);

// Reads up to `size` bytes at `offset`; fewer only at the end of the file.
absl::StatusOr<std::string> PreadUpTo(int fd, uint64_t offset, uint64_t size);

// Writes all of `data` to `fd`. Errors as ErrnoStatus.
absl::Status WriteAll(int fd, absl::string_view data);

// Writes `data` to a temporary file beside `path`, syncs it, renames it over
// `path` and syncs the folder. On any error nothing half-written stays behind
// and an older file at `path` is untouched.
absl::Status WriteFileAtomic(const std::string& path, absl::string_view data,
                             uint32_t mode = 0600);

// Makes `path` and its parents. OK if it is a folder already.
absl::Status MakeDirectories(const std::string& path, uint32_t mode = 0700);

// Syncs a folder, so that renames in it survive a power cut.
absl::Status SyncDirectory(const std::string& path);

// Removes a tree; links are removed, not followed. OK if it does not exist.
absl::Status RemoveTree(const std::string& path);

// Names in a folder, sorted, without "." and "..".
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

// Joins with exactly one '/' between.
std::string JoinPath(absl::string_view a, absl::string_view b);
// Part behind the last '/'.
absl::string_view BaseName(absl::string_view path);
// Part before the last '/'; "." if there is none, "/" for "/x".
std::string DirName(absl::string_view path);

// A new private folder, removed with everything in it when this dies.
class TempDirectory {
 public:
  // Makes it under `parent`, or under $TMPDIR or /tmp when that is empty.
  static absl::StatusOr<TempDirectory> Make(const std::string& parent = "");
  TempDirectory(TempDirectory&& other) noexcept
      : path_(std::exchange(other.path_, "")) {}
  TempDirectory& operator=(TempDirectory&& other) noexcept;
  ~TempDirectory();
  const std::string& path() const { return path_; }

 private:
  explicit TempDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Path of a program installed with this one: beside the running executable (the
// build tree), or in ../libexec/twinpath and ../bin seen from there. The folder
// TWINPATH_LIBEXEC names, if set, goes first. NOT_FOUND names all places.
absl::StatusOr<std::string> FindCompanion(absl::string_view program);

// Path of a data folder or file installed with this program: `relative` under
// ../share/twinpath seen from the executable, or under the source tree when
// running from the build tree (build/<preset>/bin -> source root). The folder
// TWINPATH_DATA names, if set, goes first.
absl::StatusOr<std::string> FindData(absl::string_view relative);

}  // namespace twinpath

#endif  // TWINPATH_BASE_FILE_H_
