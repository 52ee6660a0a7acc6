// The matrix of a sweep: hosts x entries with the paths in each cell. Pure
// functions; thread-safe.

#ifndef TWINPATH_CLI_MATRIX_H_
#define TWINPATH_CLI_MATRIX_H_

#include <string>

#include "cli/view_options.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

// Hosts that show the same are one row. Entries that do not fit into the width
// follow below in a further block.
std::string RenderMatrix(const v1::Sweep& sweep, const ViewOptions& options);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_MATRIX_H_
