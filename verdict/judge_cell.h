// Judging one evaluated cell into a builder, so that a sweep can add what only
// it knows. Internal to verdict/.

#ifndef TWINPATH_VERDICT_JUDGE_CELL_H_
#define TWINPATH_VERDICT_JUDGE_CELL_H_

#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/sweep.pb.h"
#include "verdict/builder.h"
#include "verdict/evaluated.h"

namespace twinpath::verdict {

// Detail of a passing cell's TP420.
inline constexpr char kCellPassDetail[] =
    "every required path has positive evidence";

// Judges `cell` by its own result and predictions (see JudgeCell). `ended`: the
// sweep takes no more results, so a cell without one is missing rather than
// open.
VerdictBuilder JudgeEvaluated(const EvaluatedCell& cell,
                              const v1::Policy& policy, bool ended);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_JUDGE_CELL_H_
