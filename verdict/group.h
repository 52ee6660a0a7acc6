// Groups findings: one code with one cause is one finding, however many hosts
// show it. Internal to verdict/.

#ifndef TWINPATH_VERDICT_GROUP_H_
#define TWINPATH_VERDICT_GROUP_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::verdict {

// `detail` with the parts that differ from run to run replaced: hexadecimal
// words of eight and more digits (addresses, digests, UUIDs), decimal numbers
// of six and more digits, and the random end of temporary names.
std::string DetailShape(absl::string_view detail);

// Merges findings of equal code, shape of the detail, CUDA error, severity,
// scope, file and mismatch. Hosts, entries and cells are united, each sorted
// and once. Where details of one group differ the group shows their shape.
// Errors come first, then warnings, then notes; within each, mismatches first,
// then by code and detail.
std::vector<v1::Finding> GroupFindings(std::vector<v1::Finding> findings);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_GROUP_H_
