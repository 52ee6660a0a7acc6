// The driver probe: what only the driver can tell (versions, GPUs, the newest
// PTX it compiles), asked in the child twinpath-probe so that a driver that
// hangs or crashes never takes the caller along. A probe that fails yields an
// error, never a number.
//
// The caller never loads a driver library itself. Thread-safe.

#ifndef TWINPATH_RUNNER_PROBE_H_
#define TWINPATH_RUNNER_PROBE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/subprocess.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {

struct ProbeOptions {
  // Folder put first on the child's LD_LIBRARY_PATH. Only for tests, which keep
  // a fake driver there. Empty: the driver as this host's loader finds it.
  std::string library_directory;
  // Further "NAME=value" variables of the child. Only for tests.
  std::vector<std::string> environment;
  // Socket of the probe unit: where it is there, the unit is asked instead of a
  // child. Empty: a child.
  std::string socket;
  // Polled while a child is waited for; true ends it. May be empty.
  std::function<bool()> cancelled;
};

// Runs the probe and returns what it found. A child that does not answer
// before `deadline` gives a response whose driver and GPU probes are
// PROBE_STATE_HUNG; one that dies gives PROBE_STATE_FAILED with how it died.
// An error status only where no child could be started (program missing).
absl::StatusOr<v1::ProbeResponse> ProbeInChild(
    const v1::ProbeRequest& request, absl::Duration deadline,
    const ProbeOptions& options = {});

// A child twinpath-probe as every question to the driver starts one: program
// and environment, nothing else. NOT_FOUND: the program is missing.
absl::StatusOr<ProcessOptions> ProbeChild(const ProbeOptions& options);

// The probe unit's side of the connection on `socket`: one request, one answer,
// from a child as above, so that a driver that hangs is still an answer, and
// the end when the caller goes away; or a watch on devices, two answers.
// `peer_user` may ask, and root.
absl::Status ServeProbe(int socket, const std::string& peer_user,
                        const ProbeOptions& options = {});

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_PROBE_H_
