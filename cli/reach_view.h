// Reach for people: known GPUs in rows, runs of driver branches in columns,
// floor and findings below. Pure functions; thread-safe.

#ifndef TWINPATH_CLI_REACH_VIEW_H_
#define TWINPATH_CLI_REACH_VIEW_H_

#include <string>

#include "cli/view_options.h"
#include "compat/tables.h"
#include "twinpath/v1/reach.pb.h"

namespace twinpath::cli {

// The matrix of the GPUs served, those that are not in a line, the floor, the
// findings. Columns that do not fit into the width follow below.
std::string RenderReach(const v1::Reach& reach, const compat::Tables& tables,
                        const ViewOptions& options);

// Floor alone: "native: driver R525 (CUDA 12.0) or later", what it comes from,
// and the trade-off line.
std::string RenderFloor(const v1::Reach& reach, const ViewOptions& options);

// "R550 550.54.14 (CUDA 12.4)".
std::string PointText(const v1::DriverPoint& point);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_REACH_VIEW_H_
