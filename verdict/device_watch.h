// What the watch on the GPUs around a run (Observation.devices) does to the
// path's evaluation. A fault of the device makes it inconclusive, whatever the
// program did: neither a failure nor a success on a faulty GPU says anything
// about the artifact. Pure functions; thread-safe.

#ifndef TWINPATH_VERDICT_DEVICE_WATCH_H_
#define TWINPATH_VERDICT_DEVICE_WATCH_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "twinpath/v1/observation.pb.h"
#include "verdict/path_status.h"

namespace twinpath::verdict {

// Applies the watch of one run that ended by itself, by a signal or at its time
// limit; others are left as they are. `label` begins each detail ("native").
//
// Inconclusive, TP322 first: an Xid that the tables count to hardware, links,
// driver or to either side, or that they do not know; uncorrected memory errors
// that rose, a remapping of memory that failed or waits for a reset since the
// run began, a GPU that answers no more. A run that failed on a GPU one of
// whose remappings had failed before is inconclusive too.
//
// Xids that are the application's as a rule (13, 31, 43) stand beside a run
// that failed; a run that reports success beside one is inconclusive with
// TP308. Those for information (45: the program was ended) are not looked at.
//
// Notes beside a proven path: TP327 where Xids could not be seen, TP328 where
// heat or a fault lowered clocks.
void ApplyDeviceWatch(const v1::Observation& observation,
                      absl::string_view label, PathEvaluation& evaluation);

// The faults of the device in all runs of a result, each once: for entries that
// have no paths. Xids of the application are among them, as TP308: what these
// entries run is no program of the artifact. Empty: none was seen.
std::vector<v1::Reason> DeviceFaults(const v1::CellResult& result);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_DEVICE_WATCH_H_
