// Environment leaks: switches that change how CUDA behaves, set where a daemon
// or a user inherits them. They make every result on that host mean something
// else, so a host that sets them globally is a finding.

#ifndef TWINPATH_RUNNER_LEAKS_H_
#define TWINPATH_RUNNER_LEAKS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::runner {

// Returns whether `name` with `value` changes how CUDA programs load code: the
// JIT and cache variables, injection libraries, LD_PRELOAD, LD_AUDIT, an
// LD_LIBRARY_PATH through a stubs or compat folder; or which GPUs they see:
// CUDA_VISIBLE_DEVICES, also empty, and CUDA_DEVICE_ORDER. A JIT switch of
// value "0" or "" is off.
bool IsLeak(absl::string_view name, absl::string_view value);

// Leaks in "NAME=value" variables; origin "process".
std::vector<v1::EnvironmentLeak> LeaksOfEnvironment(
    const std::vector<std::string>& environment);

// Leaks in one file's text. Understands NAME=value and export NAME=value of
// shell and /etc/environment, and Environment= / DefaultEnvironment= of systemd
// when `is_unit`. Comments are skipped; quotes are removed.
std::vector<v1::EnvironmentLeak> LeaksOfText(absl::string_view text,
                                             const std::string& origin,
                                             bool is_unit);

// Leaks in /etc/environment, /etc/environment.d, /etc/profile,
// /etc/profile.d/*.sh and the systemd unit files and drop-ins under `root`.
std::vector<v1::EnvironmentLeak> LeaksOfFiles(const std::string& root);

// LD_LIBRARY_PATH as programs inherit it: from `environment` ("NAME=value")
// where it is set there, else from the files that shells and sessions read.
// Absolute folders only.
std::vector<v1::LoaderFolder> LibraryPath(
    const std::string& root, const std::vector<std::string>& environment);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_LEAKS_H_
