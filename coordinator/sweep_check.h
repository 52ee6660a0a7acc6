// What a sweep's spec must be like. Pure functions; thread-safe.

#ifndef TWINPATH_COORDINATOR_SWEEP_CHECK_H_
#define TWINPATH_COORDINATOR_SWEEP_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/store.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::coordinator {

inline constexpr absl::Duration kDefaultSweepDeadline = absl::Hours(1);
inline constexpr absl::Duration kMaxSweepDeadline = absl::Hours(24 * 30);

// Checks names, commands, environment, limits, patterns, policy, selector and
// times against `artifact`, the registered manifest. INVALID_ARGUMENT names
// every mistake, one a line.
absl::Status CheckSweepSpec(const v1::SweepSpec& spec,
                            const v1::Artifact& artifact, absl::Time now);

// The hosts a selector means, by name. NOT_FOUND for a name or id that is not
// known, with the nearest known name.
absl::StatusOr<std::vector<HostRow>> SelectHosts(
    const StoreView& view, const v1::HostSelector& selector);

// Whether the host has all labels.
bool HasLabels(const HostRow& host,
               const google::protobuf::RepeatedPtrField<std::string>& labels);

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_SWEEP_CHECK_H_
