// The body of the probe child: asks libcuda and NVML in this process. Nothing
// but twinpath-probe calls it, since a driver may hang or crash its caller.

#ifndef TWINPATH_RUNNER_DRIVER_PROBE_H_
#define TWINPATH_RUNNER_DRIVER_PROBE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {

// Asks everything the request names.
v1::ProbeResponse ProbeDriver(const v1::ProbeRequest& request);

// The version in the text of /proc/driver/nvidia/version, "580.95.05"; "" if
// there is none.
std::string KernelModuleVersionOf(absl::string_view text);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_DRIVER_PROBE_H_
