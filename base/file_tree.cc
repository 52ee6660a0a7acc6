// RemoveTree: works relative to open folders and never follows a link, so that
// a program still writing into the tree cannot lead it elsewhere.

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"

namespace twinpath {
namespace {

// Descriptors held at once. What lies deeper is moved up to the root first, so
// that no tree is too deep.
constexpr int kDeepest = 64;

class TreeRemover {
 public:
  TreeRemover(int root, absl::string_view path) : root_(root), path_(path) {}

  // Removes everything below the root; the first error, if any.
  absl::Status Run() {
    do {
      moved_up_ = false;
      Empty(root_, 0);
    } while (moved_up_ && first_error_.ok());
    return first_error_;
  }

 private:
  void Fail(int error_number, absl::string_view name) {
    if (!first_error_.ok()) return;
    first_error_ = ErrnoStatus(
        error_number,
        absl::StrCat("remove ", Printable(name), " in ", Printable(path_)));
  }

  // Names are read before anything is removed, since readdir may skip entries
  // of a folder that changes.
  std::vector<std::string> NamesIn(int folder) {
    std::vector<std::string> names;
    const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0) {
      Fail(errno, ".");
      return names;
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(copy), closedir);
    if (stream == nullptr) {
      Fail(errno, ".");
      close(copy);
      return names;
    }
    errno = 0;
    while (const dirent* entry = readdir(stream.get())) {
      const absl::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    if (errno != 0) Fail(errno, ".");
    return names;
  }

  void Empty(int folder, int depth) {
    for (const std::string& name : NamesIn(folder)) {
      Remove(folder, name, depth);
    }
  }

  void Remove(int folder, const std::string& name, int depth) {
    if (unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT) return;
    const int unlink_error = errno;
    // EISDIR on Linux, EPERM by POSIX.
    struct stat info {};
    if (fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISDIR(info.st_mode)) {
      Fail(unlink_error, name);
      return;
    }
    if (unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0) return;
    // A folder that its owner may not write is made writable; AT_FDCWD-relative
    // chmod would follow a link, so it is opened first.
    if ((info.st_mode & S_IRWXU) != S_IRWXU) {
      const UniqueFd handle(openat(
          folder, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (handle.valid()) {
        chmod(absl::StrCat("/proc/self/fd/", handle.get()).c_str(), S_IRWXU);
      }
    }
    if (depth >= kDeepest) {
      // A name met in the tree already is only skipped over.
      int result = -1;
      do {
        const std::string up =
            absl::StrCat(".twinpath-remove-", ++moved_count_);
        result = renameat(folder, name.c_str(), root_, up.c_str());
      } while (result != 0 &&
               (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR));
      if (result != 0) {
        Fail(errno, name);
      } else {
        moved_up_ = true;
      }
      return;
    }
    const UniqueFd child(openat(
        folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!child.valid()) {
      Fail(errno, name);
      return;
    }
    Empty(child.get(), depth + 1);
    if (unlinkat(folder, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
      Fail(errno, name);
    }
  }

  const int root_;
  const absl::string_view path_;
  bool moved_up_ = false;
  int moved_count_ = 0;
  absl::Status first_error_;
};

}  // namespace

absl::Status RemoveTree(const std::string& path) {
  const std::string removing = absl::StrCat("remove ", Printable(path));
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  const int unlink_error = errno;
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return ErrnoStatus(unlink_error, removing);
  }
  if ((info.st_mode & S_IRWXU) != S_IRWXU) chmod(path.c_str(), S_IRWXU);
  const UniqueFd root(
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!root.valid()) return ErrnoStatus(errno, removing);
  TWINPATH_RETURN_IF_ERROR(TreeRemover(root.get(), path).Run());
  if (rmdir(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, removing);
  }
  return absl::OkStatus();
}

}  // namespace twinpath
