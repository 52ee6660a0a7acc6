// The files of an OCI image layout in a folder that are to be opened: all of
// them where they are few, otherwise those that its images need. A layout may
// be a store with the blobs of many images, most of which nothing in its index
// leads to.
//
// Nothing in the layout is read here. What a document refers to is found out by
// a `SurveyLayout`, which reads it in a child process; paths that it names are
// checked before they are opened. Thread-safe.

#ifndef TWINPATH_INSPECT_LAYOUT_FILES_H_
#define TWINPATH_INSPECT_LAYOUT_FILES_H_

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file.h"
#include "inspect/oci.h"

namespace twinpath::inspect {

// Most files of a layout that are opened, whatever the system allows.
inline constexpr size_t kMaxLayoutFiles = 16'384;

// The files of a layout, by their paths in it.
struct LayoutFiles {
  std::vector<std::string> paths;
  // One a path.
  std::vector<UniqueFd> fds;
  // Needed files that could not be opened.
  OciUnopened unopened;
};

// Says what a layout needs, as far as the files tell. DATA_LOSS where the child
// fails.
using SurveyLayout =
    std::function<absl::StatusOr<OciNeeds>(const LayoutFiles& files)>;

// How many files of a layout may be open at once.
struct LayoutLimits {
  // Up to this many blobs all are opened, and nothing is surveyed.
  size_t few = 400;
  size_t most = kMaxLayoutFiles;
};

// Opens the files of the layout at `path`: documents before layers, the layers
// of an image from the highest down. Where the descriptors that this process
// may have do not do, raises its soft limit of them towards the hard one, which
// stays; those that still do not fit are `unopened`. Errors as ListFolder, and
// those of `survey`.
absl::StatusOr<LayoutFiles> OpenLayout(const std::string& path,
                                       const SurveyLayout& survey,
                                       const LayoutLimits& limits = {});

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_LAYOUT_FILES_H_
