// The oci_image an entry names: found among the artifact's files or in the
// host's storage, brought into a storage of its own, and what its configuration
// says. Nothing is ever fetched from a registry. Podman does the unpacking; the
// digests that decide what runs are made here.

#ifndef TWINPATH_RUNNER_OCI_IMAGE_H_
#define TWINPATH_RUNNER_OCI_IMAGE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runner/podman.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::runner {

// What a run needs to know of an image, from `podman image inspect`.
absl::StatusOr<v1::OciImageFacts> ImageFacts(absl::string_view inspect_json);

// Brings the image with digest `wanted` into podman's storage. `files`: the
// artifact's regular files by name, below `artifact`. An error begins with
// "TP136" where there is no such image, and with "TP134" where podman fails.
absl::StatusOr<v1::OciImageFacts> TakeImage(
    Podman& podman, const std::string& artifact, absl::string_view wanted,
    v1::CpuArchitecture architecture, const std::function<bool()>& cancelled);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_OCI_IMAGE_H_
