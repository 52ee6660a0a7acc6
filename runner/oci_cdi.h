// GPUs as the Container Device Interface describes them: which devices the
// specifications of this host name, and which variables they set. Podman gives
// them to a container by these names; what it needs beside (device nodes,
// driver libraries, hooks) it reads from the same files itself. Format: CDI
// SPEC.md (cncf-tags/container-device-interface). Thread-safe.

#ifndef TWINPATH_RUNNER_OCI_CDI_H_
#define TWINPATH_RUNNER_OCI_CDI_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace twinpath::runner {

// The kind of NVIDIA's GPUs.
inline constexpr char kCdiGpuKind[] = "nvidia.com/gpu";

struct CdiDevice {
  // "GPU-4f2a...", "0", "all".
  std::string name;
  // "NAME=value" that a container gets with it.
  std::vector<std::string> environment;
};

struct CdiDevices {
  // Of kind nvidia.com/gpu, in file order, later folders first: what
  // /var/run/cdi says goes before what /etc/cdi says.
  std::vector<CdiDevice> devices;
  // Files read.
  std::vector<std::string> files;
  // Files that are no specification, and why.
  std::vector<std::string> problems;

  // Null where there is none.
  const CdiDevice* Find(absl::string_view name) const;
};

// Folders in which podman looks.
std::vector<std::string> CdiFolders();

// Reads every specification in `folders`; folders that are not there are left
// out.
CdiDevices ReadCdi(absl::Span<const std::string> folders);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_OCI_CDI_H_
