// The oci_image an entry names: found among the artifact's files or in the
// host's storage, brought into a storage of its own, and what its configuration
// says. Nothing is ever fetched from a registry. Podman does the unpacking; the
// digests that decide what runs are made here.

#ifndef TWINPATH_RUNNER_OCI_IMAGE_H_
#define TWINPATH_RUNNER_OCI_IMAGE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runner/podman.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::runner {

// An image that is in podman's storage.
struct OciImage {
  v1::OciImageFacts facts;
  // Where its volumes (VOLUME) lie: clean absolute paths, each once.
  std::vector<std::string> volumes;
};

// The most volumes of an image that is run.
inline constexpr size_t kMaxVolumes = 64;

// What a run needs to know of an image, from `podman image inspect`. An error
// for volumes that no container of ours can have: the root, in the kernel's
// folders or the run's, or too many.
absl::StatusOr<OciImage> ReadImage(absl::string_view inspect_json);

// Brings the image with digest `wanted` into podman's storage. `files`: the
// artifact's regular files by name, below `artifact`. An error begins with
// "TP136" where there is no such image, and with "TP134" where podman fails.
absl::StatusOr<OciImage> TakeImage(Podman& podman, const std::string& artifact,
                                   absl::string_view wanted,
                                   v1::CpuArchitecture architecture,
                                   const std::function<bool()>& cancelled);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_OCI_IMAGE_H_
