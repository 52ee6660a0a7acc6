// The sandbox of a run where systemd does not provide one: bubblewrap with all
// namespaces unshared, no network, the root file system read-only, private /tmp
// /run /var/tmp, the run's own folder writable, and of the devices only the
// GPU's nodes. Where it cannot be had the answer is a refusal, never a run
// without it.

#ifndef TWINPATH_RUNNER_SANDBOX_H_
#define TWINPATH_RUNNER_SANDBOX_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace twinpath::runner {

struct SandboxSpec {
  // bwrap program.
  std::string bwrap = "bwrap";
  // Writable inside, at the same path.
  std::string work_directory;
  // Read-only inside, at the same path. Empty: none.
  std::string artifact_directory;
  // Working folder of the program, inside work_directory.
  std::string current_directory;
  // Program that becomes process 1 inside (twinpath-inside); shown read-only
  // at kInsidePath.
  std::string inside_program;
  // Device nodes shown.
  std::vector<std::string> devices;
  // Files or folders shown read-only at their own path although they lie in a
  // private folder (/tmp, /run).
  std::vector<std::string> read_only;
  // User and group number inside.
  int uid = 65534;
};

inline constexpr char kInsidePath[] = "/run/twinpath-inside";

// bwrap's argv up to and including "--", then kInsidePath. The caller appends
// InsideArguments, then the program's.
std::vector<std::string> SandboxArguments(const SandboxSpec& spec);

// GPU device nodes of this host: /dev/nvidia*, /dev/nvidia-caps/*, the Tegra
// nodes and /dev/dxg. Empty on a host without GPU.
std::vector<std::string> GpuDevices();

// The inside program's own arguments, up to and including "--": below which
// folders the program may write (confine.h): the work folder and /tmp, in
// bubblewrap also the other folders that are private there. In the unit
// /var/tmp holds the artifact's files, which stay as they were verified.
std::vector<std::string> InsideArguments(const std::string& work_directory,
                                         bool unit);

// Path of bwrap: TWINPATH_BWRAP if set, beside this program (bundles), then
// PATH. NOT_FOUND with the package to install.
absl::StatusOr<std::string> FindBubblewrap();

// Tries the sandbox once with a program that does nothing. FAILED_PRECONDITION
// whose message begins with "TP114" and says what bwrap said and what to do.
absl::Status CheckSandbox();

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_SANDBOX_H_
