// Fault points: names at the places where a crash would hurt most. Tests and
// the daemon's TWINPATH_CRASH_AT end the process there, as a power cut would:
// no destructor runs, nothing is flushed. Without either a point costs one
// relaxed load. Thread-safe.

#ifndef TWINPATH_AGENT_FAULT_POINT_H_
#define TWINPATH_AGENT_FAULT_POINT_H_

#include "absl/strings/string_view.h"

namespace twinpath::agent {

// Arms the point `name`: the `occurrence`-th time (from 1) that it is reached,
// the process ends at once by SIGKILL. An empty name disarms.
void ArmFaultPoint(absl::string_view name, int occurrence = 1);

// Reads "name" or "name:occurrence" from the environment variable
// TWINPATH_CRASH_AT, for tests of the whole daemon. Nothing if it is not set.
void ArmFaultPointFromEnvironment();

// Marks a place. Names are "folder.place", listed where they stand.
void FaultPoint(absl::string_view name);

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_FAULT_POINT_H_
