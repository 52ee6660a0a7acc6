// Podman with a storage of its own: where it keeps what, how it is asked, and
// how everything goes away behind a run. Not thread-safe.

#ifndef TWINPATH_RUNNER_PODMAN_H_
#define TWINPATH_RUNNER_PODMAN_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace twinpath::runner {

// What podman is asked without unpacking anything.
inline constexpr absl::Duration kPodmanQuestionLimit = absl::Minutes(2);

// FAILED_PRECONDITION, TP134 with the reason.
absl::Status ContainersUnavailable(absl::string_view why);

// Podman with a storage of its own.
class Podman {
 public:
  // Makes `folder`/storage and the configuration files beside it. `folder` must
  // exist. ContainersUnavailable where podman or a runtime is not installed.
  static absl::StatusOr<Podman> Make(const std::string& folder);

  // Lets the images of the host's own storage be seen, read-only. UNAVAILABLE
  // where that storage cannot be found.
  absl::Status ShowHostStorage();

  // Command line up to the subcommand.
  const std::vector<std::string>& argv() const { return argv_; }
  const std::vector<std::string>& environment() const { return environment_; }
  // Runs podman with these arguments and returns what it printed. CANCELLED
  // where `cancelled` said so; ContainersUnavailable where it cannot be started
  // or fails, with its last words.
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

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_PODMAN_H_
