// A run in a container: podman with a storage of its own, no network, a
// read-only root file system, no capabilities, users of its own, the GPU as CDI
// describes it, and twinpath-inside as process 1, which confines the program
// and says how it ended. When this process ends, the container does: process 1
// holds one end of a pipe whose other end is here.
//
//   image's folders   read-only; /tmp /run /var/tmp /dev/shm private, in memory
//   image's volumes   as podman makes them: with what the image has there and
//                     its owner, in the run's storage
//   /twinpath         the run's folder: home (HOME), cache, driver.log
//   variables         the image's, then CDI's, then the path's; the image's JIT
//                     variables never reach the program
//   command           the image's entry point, then the entry's command
//
// docs/oci-entries.md says what a person needs to know.

#ifndef TWINPATH_RUNNER_OCI_RUN_H_
#define TWINPATH_RUNNER_OCI_RUN_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runner/oci_cdi.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/report.pb.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {

// The run's folder as the container sees it.
inline constexpr char kContainerWork[] = "/twinpath";

// Runs an entry of kind OCI. `unit`: in twinpath-oci@.service; otherwise as
// root or, where that works, as the user this process has. `abandoned` is
// polled; true ends the run. NOT_STARTED with TP134 (no podman), TP135 (no CDI
// for the GPU) or TP136 (no such image) and what to do.
v1::Observation RunInContainer(const v1::RunRequest& request, bool unit,
                               const std::function<bool()>& abandoned);

// Variables of the program: those of the image without its JIT variables, then
// those CDI sets, then those of the path (`own`, from RunEnvironment) but for
// PATH and LANG, which are the image's where it has them and the entry does not
// set them.
std::vector<v1::EnvironmentVariable> ContainerEnvironment(
    const v1::OciImageFacts& image, absl::Span<const std::string> cdi,
    const v1::Entry& entry, const std::vector<v1::EnvironmentVariable>& own);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_OCI_RUN_H_
