// A stored sweep put together as people see it: rows and results into one
// message, and what is known beside the verdict library: cells whose results
// were unstable, hosts whose conditions have changed since.
// Pure functions; thread-safe.

#ifndef TWINPATH_COORDINATOR_SWEEP_VIEW_H_
#define TWINPATH_COORDINATOR_SWEEP_VIEW_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "coordinator/store.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::coordinator {

struct LoadedSweep {
  // As stored, with its cells: state, result, and the reasons of an ended or
  // refused cell as its result's problems. Cells are not judged.
  v1::Sweep sweep;
  v1::SweepState ending = v1::SWEEP_STATE_UNSPECIFIED;
  // Ids of cells whose later result differed.
  std::set<std::string> unstable;
};

// NOT_FOUND.
absl::StatusOr<LoadedSweep> LoadSweep(const StoreView& view,
                                      absl::string_view id);

// Adds the finding TP410 for unstable cells that have none yet; a pass that
// rests on one becomes inconclusive. To be called behind judging.
void ApplyUnstable(const std::set<std::string>& unstable, v1::Sweep& sweep);

// Adds the finding TP501 for hosts whose conditions are no longer those of
// their decided cells; a pass of an ended sweep becomes stale. `conditions`:
// those of today, by host id.
void ApplyStale(const absl::flat_hash_map<std::string, std::string>& conditions,
                v1::Sweep& sweep);

// Shortens captured output, then drops it, until the message takes at most
// `max_bytes`. Totals and digests stay, so that a cut is visible. Returns
// whether it fits.
bool TrimSweep(uint64_t max_bytes, v1::Sweep& sweep);

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_SWEEP_VIEW_H_
