// What a traced run showed: shared objects, modules, kernels, coverage by file.
// All of it is reported by the process itself, and the view says so. Pure;
// thread-safe.

#ifndef TWINPATH_CLI_TRACE_VIEW_H_
#define TWINPATH_CLI_TRACE_VIEW_H_

#include <string>

#include "cli/view_options.h"
#include "twinpath/v1/observation.pb.h"

namespace twinpath::cli {

// A few lines and a table; empty for a run that was not traced.
std::string RenderTrace(const v1::Observation& run, const ViewOptions& options);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_TRACE_VIEW_H_
