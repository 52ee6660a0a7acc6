// State of GPUs and the faults the driver reports of them, asked of NVML and,
// where it may be read, of the kernel's log. Only the probe child uses this.
// What a driver does not report stays absent. Not thread-safe.

#ifndef TWINPATH_RUNNER_DEVICE_STATE_H_
#define TWINPATH_RUNNER_DEVICE_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {

// Watches the request's GPUs and talks on `socket` as ProbeRequest says:
// answers once when the watch stands and once more, with what was seen, after
// another request has come. OK also where the other end went away: nobody waits
// then.
absl::Status ServeDeviceWatch(int socket, const v1::ProbeRequest& request);

// The pieces, for tests.

// An Xid in a record of the kernel's log ("...NVRM: Xid (PCI:0000:0f:00): 79,
// pid=..., GPU has fallen off the bus."); nothing where it holds none.
std::optional<v1::XidEvent> XidOfRecord(absl::string_view record);

// "0:f:0" for "PCI:0000:0f:00", "0000:0F:00.0" and "00000000:0F:00.0": what is
// the same in every spelling of a PCI address. Empty: not one.
std::string PciKey(absl::string_view address);

// Names of the reasons in NVML's bits for lowered clocks. An idle GPU, clocks
// that somebody set, and a display's clock are none.
std::vector<std::string> ThrottleReasons(uint64_t bits);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_DEVICE_STATE_H_
