#include "agent/state_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"

namespace twinpath::agent {

absl::StatusOr<StateDirectory> StateDirectory::Open(const std::string& given) {
  TWINPATH_RETURN_IF_ERROR_CTX(MakeDirectories(given, 0700),
                               absl::StrCat("making state folder ", given));
  // Children work in other folders, so every path has to be absolute.
  std::unique_ptr<char, decltype(&free)> resolved(
      realpath(given.c_str(), nullptr), &free);
  if (resolved == nullptr) {
    return ErrnoStatus(errno, absl::StrCat("resolving state folder ", given));
  }
  const std::string path = resolved.get();

  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("looking at state folder ", path));
  }
  if ((info.st_mode & 022) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "state folder ", path, " can be written by others: chmod 0700 it"));
  }

  const std::string lock_path = JoinPath(path, "lock");
  UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) {
    return ErrnoStatus(errno, absl::StrCat("opening ", lock_path));
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return absl::FailedPreconditionError(
          absl::StrCat("state folder ", path,
                       " is in use by another agent: stop that one, or give "
                       "this one its own --state"));
    }
    return ErrnoStatus(errno, absl::StrCat("locking ", lock_path));
  }

  StateDirectory state(path, std::move(lock));
  TWINPATH_RETURN_IF_ERROR(RemoveTree(state.work()));
  for (const std::string& folder :
       {state.journal(), state.reservations(), state.spool(), state.cache(),
        state.work()}) {
    TWINPATH_RETURN_IF_ERROR(MakeDirectories(folder, 0700));
  }
  TWINPATH_RETURN_IF_ERROR(SyncDirectory(path));
  return state;
}

}  // namespace twinpath::agent
