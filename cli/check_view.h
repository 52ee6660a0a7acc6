// What `twinpath check` shows of the runs: a row a path with what was predicted
// and what was seen, the end of the output of what failed, reasons, verdict.
// Pure functions; thread-safe.

#ifndef TWINPATH_CLI_CHECK_VIEW_H_
#define TWINPATH_CLI_CHECK_VIEW_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cli/view_options.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

std::string RenderCheck(const v1::Sweep& sweep, const ViewOptions& options);

// The last `lines` lines of what was kept of a stream, printable, indented.
std::string OutputTail(const v1::CapturedOutput& output, size_t lines,
                       absl::string_view indent);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_CHECK_VIEW_H_
