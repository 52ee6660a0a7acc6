// What a run has on disk, as its watcher sees it, who has no more rights than
// the run itself. Three views, since no single one cannot be avoided:
//
//   folders  everything below them; a folder that its owner closed (mode 0) is
//            opened for the look and closed again
//   deleted  files that have no name any more and that a process holds open, of
//            those that may be looked into
//   free     what the file system has left. Here nothing can hide (a deleted
//            file that is only mapped, or on its way in a socket, or held by a
//            process that may not be looked into), but everybody on the host
//            counts.
//
// What could not be looked into is said, never taken for nothing; only of a
// process that /proc does not show at all (ProtectProc=) nothing is known.
// Thread-safe.

#ifndef TWINPATH_RUNNER_DISK_USE_H_
#define TWINPATH_RUNNER_DISK_USE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace twinpath::runner {

struct DiskUse {
  uint64_t bytes = 0;
  // The first thing that could not be looked into, and why. Empty: none.
  std::string unseen;

  void Add(const DiskUse& other) {
    bytes += other.bytes;
    if (unseen.empty()) unseen = other.unseen;
  }
};

// Bytes that the files below `folder` occupy, links not followed and other file
// systems not entered. The walk stops where there are at least `enough`, and at
// `until`, which is said. A folder that is not there has none.
DiskUse DiskUseBelow(const std::string& folder, uint64_t enough,
                     absl::Time until);

// Bytes of the deleted files that these processes hold open, each file once;
// files in memory are left out, but for those on the file systems of `folders`.
// A process that may not be looked into is said (`unseen`); those that have
// ended have none.
DiskUse DeletedFilesOf(absl::Span<const pid_t> processes,
                       absl::Span<const std::string> folders, absl::Time until);

// Bytes that the file systems of these folders have left, together, each once.
// Nothing where one does not say.
std::optional<uint64_t> FreeBytes(absl::Span<const std::string> folders);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_DISK_USE_H_
