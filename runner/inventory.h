// What of a host concerns containers and tracing: programs that run
// oci_containers, GPUs as the Container Device Interface names them, CUPTI.
// Files are read here, strictly bounded; each program is asked for its version
// in a child with a deadline. Thread-safe.

#ifndef TWINPATH_RUNNER_INVENTORY_H_
#define TWINPATH_RUNNER_INVENTORY_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::runner {

// podman, docker, runc, crun and nvidia-ctk: the first of each in the folders
// `path` ("/usr/bin:/bin"), with the version it states.
std::vector<v1::OciRuntime> FindOciRuntimes(absl::string_view path,
                                            absl::Duration deadline);

// "4.9.4" of "podman version 4.9.4", "1.7.27" of "NVIDIA Container Toolkit CLI
// version 1.7.27": the first word of the text that begins with a digit and has
// a dot; a comma behind it is left out. "": there is none.
std::string VersionInText(absl::string_view text);

// NVIDIA's devices in the specifications under `root`: /var/run/cdi goes before
// /etc/cdi (Container Device Interface specification, SPEC.md). Each once,
// sorted. What is too large, not readable or no specification is left out.
std::vector<std::string> CdiDevices(const std::string& root);

// Names in one specification, JSON or YAML.
std::vector<std::string> CdiDevicesOf(absl::string_view text,
                                      absl::string_view file);

// libcupti.so.N under `root`: of the newest toolkit that is not newer than the
// driver, in extras/CUPTI/lib64, lib64 or targets/*/lib; else where the loader
// finds it; else of any toolkit. "": nowhere.
std::string FindCupti(const std::string& root, const v1::HostFacts& facts,
                      const std::vector<std::string>& loader_paths);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_INVENTORY_H_
