// Predictions for people: host GPUs that no rule can tell apart, a column or a
// line a path, reason and fix under what is not green; what an assumption
// changes; what would fix the rest. Pure functions; thread-safe.

#ifndef TWINPATH_CLI_GROUP_VIEW_H_
#define TWINPATH_CLI_GROUP_VIEW_H_

#include <string>
#include <vector>

#include "cli/view_options.h"
#include "twinpath/v1/cli.pb.h"
#include "twinpath/v1/reach.pb.h"

namespace twinpath::cli {

struct GroupViewOptions : ViewOptions {
  // Every reason, notes too.
  bool details = false;
};

// Groups of the hosts of an output, in its order; equal GPUs of a host are one.
std::vector<v1::HostGroup> GroupsOf(const v1::PredictOutput& output);

// One group: a line a path. Several: a table where it fits into the width
// whole, else the lines. Words that decide are never cut.
std::string RenderGroups(const std::vector<v1::HostGroup>& groups,
                         const GroupViewOptions& options);

// "native -> jit" for every path that changes; then that something changes on
// `changed` of `hosts` hosts.
std::string RenderChanges(const std::vector<v1::AssumedChange>& changes,
                          uint32_t changed, uint32_t hosts,
                          const GroupViewOptions& options);

// The trade-off between native and PTX, then what would fix what. `advice` is
// that of one path; `floor` may be empty.
std::string RenderAdvice(const v1::Advice& advice, const v1::Floor& floor,
                         const ViewOptions& options);

// Worst first, then the largest: for fleets, which have no order of their own.
void SortForPeople(std::vector<v1::HostGroup>* groups);

// "NVIDIA H200 9.0", "none".
std::string GpuText(const v1::HostGroup& group);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_GROUP_VIEW_H_
