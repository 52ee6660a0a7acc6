// The steps of a toolchain check (toolchain.h) with one toolkit on one GPU, or
// for one target: version, targets, compile, inspect, witness, native, ptx-jit.
// A step that does not hold is the last, but native. Thread-safe.

#ifndef TWINPATH_RUNNER_TOOLCHAIN_CHECK_H_
#define TWINPATH_RUNNER_TOOLCHAIN_CHECK_H_

#include <string>

#include "absl/time/time.h"
#include "runner/toolchain.h"
#include "runner/toolchain_parts.h"
#include "twinpath/v1/observation.pb.h"

namespace twinpath::runner {

// The check program's source in its folder.
inline constexpr char kCheckSource[] = "check.cu";

// Every step behind the query of the device. `source_folder` holds kCheckSource
// and nothing else; `folder` is this check's own and has an empty folder
// "tools". `jit_cache_built`: what the driver's cache says of who built it.
v1::ToolchainCheck CheckToolkit(const ToolchainOptions& options,
                                const std::string& source_folder,
                                const std::string& folder,
                                const std::string& toolkit,
                                const ToolchainGpu& gpu,
                                const std::string& jit_cache_built,
                                absl::Time deadline);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_TOOLCHAIN_CHECK_H_
