// The newest PTX ISA a driver compiles, measured: offered a PTX that is too
// new, the driver's compiler answers with error 222 and
//   Unsupported .version 99.0; current version is '9.0'
// Only the probe child includes this.

#ifndef TWINPATH_RUNNER_PTX_CEILING_H_
#define TWINPATH_RUNNER_PTX_CEILING_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "runner/driver_library.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::runner {

// The version in "current version is '9.0'"; nothing if the log has none.
std::optional<v1::Version> CurrentVersionOf(absl::string_view log);

// Measures on `device`, whose compute capability is given as major * 10 +
// minor. On success `ceiling` is set and the result's state is OK.
v1::ProbeResult MeasurePtxCeiling(const CudaDriver& driver, CudaDevice device,
                                  uint32_t capability, v1::Version& ceiling);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_PTX_CEILING_H_
