// Image layouts and saved images among an artifact's files: which images they
// have, by the digests of their own documents. Hostile input; nothing is
// unpacked here. Format: image-layout.md of opencontainers/image-spec.
// Thread-safe.

#ifndef TWINPATH_RUNNER_OCI_LAYOUT_H_
#define TWINPATH_RUNNER_OCI_LAYOUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::runner {

// One image of a layout in a folder.
struct LayoutImage {
  // The descriptor as it stands in the layout, JSON.
  std::string descriptor;
  std::string digest;
  std::string id;
};

// Whether it is "sha256:" and 64 lower-case hexadecimal digits.
bool IsOciDigest(absl::string_view text);

// The images of the layout at `folder` (oci-layout, index.json, blobs/). An
// image index within it is looked into; where its own digest is `wanted`, the
// image for `architecture` in it is returned with that digest. Errors where it
// is no layout.
absl::StatusOr<std::vector<LayoutImage>> LayoutImages(
    const std::string& folder, absl::string_view wanted,
    v1::CpuArchitecture architecture);

// "amd64", "arm64".
v1::CpuArchitecture ArchitectureOfOci(absl::string_view name);

// Whether the file may be a saved image, by its first bytes and its name: a tar
// whose first member a layout may have, or a packed tar.
bool MayBeSavedImage(const std::string& path, absl::string_view name);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_OCI_LAYOUT_H_
