// Toolchain checks as people read them: a line a step, what the failing one
// said, the runs. Pure functions; thread-safe.

#ifndef TWINPATH_CLI_TOOLCHAIN_VIEW_H_
#define TWINPATH_CLI_TOOLCHAIN_VIEW_H_

#include <string>

#include "cli/view_options.h"
#include "twinpath/v1/cli.pb.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

// All checks and the verdict.
std::string RenderToolchain(const v1::ToolchainOutput& output,
                            const ViewOptions& options);

// One check.
std::string RenderToolchainCheck(const v1::ToolchainCheck& check,
                                 const ViewOptions& options);

// A cell of kind TOOLCHAIN in a few words: "nvcc 13.0.88 ok", "no toolkit",
// "nvcc 12.4.131 lacks sm_121", "compile fails".
std::string ToolchainWord(const v1::Cell& cell);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_TOOLCHAIN_VIEW_H_
