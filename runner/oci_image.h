// The oci_image an entry names: found among the artifact's files or in the
// host's storage, brought into a storage of its own, and what its configuration
// says. Nothing is ever fetched from a registry. Podman does the unpacking; the
// digests that decide what runs are made here.

#ifndef TWINPATH_RUNNER_OCI_IMAGE_H_
#define TWINPATH_RUNNER_OCI_IMAGE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/subprocess.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::runner {

// Podman with a storage of its own.
class Podman {
 public:
  // Makes `folder`/storage and the configuration files beside it. `folder` must
  // exist. NOT_FOUND where podman or a runtime is not installed. `host_store`:
  // its images are seen, too, read-only.
  static absl::StatusOr<Podman> Make(const std::string& folder);

  // Lets the images of the host's own storage be seen, read-only. UNAVAILABLE
  // where that storage cannot be found.
  absl::Status ShowHostStorage();

  // Command line up to the subcommand.
  const std::vector<std::string>& argv() const { return argv_; }
  const std::vector<std::string>& environment() const { return environment_; }
  // Runs podman with these arguments. Errors of starting it, and where it
  // fails, INTERNAL with its last words.
  absl::StatusOr<std::string> Run(const std::vector<std::string>& arguments,
                                  absl::Duration limit,
                                  const std::function<bool()>& cancelled) const;
  // Removes every container, ends their processes, unmounts and deletes the
  // storage.
  void Remove() const;
  const std::string& folder() const { return folder_; }
  bool rootless() const { return rootless_; }

 private:
  absl::Status WriteStorageConf(absl::string_view driver,
                                absl::string_view image_store) const;
  std::string podman_;
  std::string folder_;
  bool rootless_ = false;
  std::vector<std::string> argv_;
  std::vector<std::string> environment_;
};

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
