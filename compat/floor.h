// Floor: the oldest driver an artifact needs, native and by compiling PTX, and
// the conditions that set it. Read off the predictor's answers (reach.h). Pure
// functions; thread-safe.

#ifndef TWINPATH_COMPAT_FLOOR_H_
#define TWINPATH_COMPAT_FLOOR_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "compat/reach.h"
#include "compat/tables.h"
#include "twinpath/v1/reach.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

// The floor from all answers. A GPU that is itself newer than a driver raises
// nothing: what counts is where a driver drives a GPU and the artifact still
// does not run. Tegra parts count only where no other GPU is served.
v1::Floor FloorOf(const std::vector<GpuPoints>& gpus,
                  const v1::ArtifactReport& report, const Tables& tables);

// A row as a point; Tegra points have no branch.
v1::DriverPoint PointOf(const DriverRow& row, bool tegra);

// Whether the path loads: native or jit.
bool Loads(const v1::PathPrediction& path);

// Whether the reasons hold this code.
bool HasCode(const v1::PathPrediction& path, absl::string_view code);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_FLOOR_H_
