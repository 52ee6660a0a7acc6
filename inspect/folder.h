// The files below a folder, for inspection: every regular file once, whichever
// way it is reached, in the order of their names. Nothing is opened but
// folders, one at a time. Safe on trees that change meanwhile and on any tree a
// user can make: loops of links, endless depth, millions of names.
//
// Thread-safe; keeps no state between calls.

#ifndef TWINPATH_INSPECT_FOLDER_H_
#define TWINPATH_INSPECT_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/child.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

struct FolderLimits {
  // Entries of all folders.
  size_t files = 1'000'000;
  // Folders inside each other.
  size_t depth = 256;
  // Notes that are kept.
  size_t notes = 1000;
};

// Something in a folder that is no target.
struct FolderNote {
  // Named as targets are.
  std::string name;
  // "is a pipe", "is a link to nothing", ...
  std::string what;
  // Something that should be there to be inspected is not: an unreadable
  // folder, a cap. Otherwise it is passed by as a matter of course.
  bool incomplete = false;
};

struct FolderListing {
  // By name. A folder with an OCI image layout is one target.
  std::vector<InspectTarget> targets;
  // In the order found; behind limits.notes only counted.
  std::vector<FolderNote> notes;
  uint64_t more_notes = 0;
  // The listing is cut short by a cap or an unreadable folder.
  bool incomplete = false;
};

// Lists what lies below `path`, a folder or a link to one. Names of targets are
// `name` and the path below it. A file that several names lead to has the one
// that needs no symbolic link, if there is one, and of these the first. Returns
// NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT where `path` is no folder that
// can be read.
absl::StatusOr<FolderListing> ListFolder(const std::string& path,
                                         absl::string_view name,
                                         const FolderLimits& limits = {});

// Whether the folder is an OCI image layout: a file oci-layout, a file
// index.json and a folder blobs.
bool IsOciLayoutFolder(const std::string& path);

// The files of an OCI layout in a folder by their paths in it, documents first,
// at most `max`; sets `left_out` to the number of others. Links are not
// followed. Errors as ListFolder.
absl::StatusOr<std::vector<std::string>> ListOciLayout(const std::string& path,
                                                       size_t max,
                                                       uint64_t& left_out);

// Which members of a thin archive are not among `targets`. `archive` is the
// report of the file at `path`; its members are named relative to the file's
// folder. What is returned is how the archive names them.
std::vector<std::string> ThinMembersElsewhere(
    const v1::FileReport& archive, const std::string& path,
    const std::vector<InspectTarget>& targets);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_FOLDER_H_
