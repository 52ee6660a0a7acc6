// What one path of one cell has shown. Positive evidence only: whatever is
// missing, skipped, simulated, unspecified or contradictory is not proven.
//
// Pure functions without I/O; safe to call from any thread.

#ifndef TWINPATH_VERDICT_PATH_STATUS_H_
#define TWINPATH_VERDICT_PATH_STATUS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "twinpath/v1/common.pb.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/release.pb.h"

namespace twinpath::verdict {

enum class PathStatus {
  // Ran as the path demands, ended as the entry expects, nothing against it.
  kProven,
  // Seen not to work.
  kFailed,
  // Ran, and says nothing about compatibility: memory, time limit of a
  // compilation, changed conditions, evidence that is missing a piece.
  kInconclusive,
  // No run: none delivered, skipped, interrupted, never started.
  kNotRun,
};

struct PathEvaluation {
  PathStatus status = PathStatus::kNotRun;
  // Why, the decisive one first. Each detail begins with the path's name and
  // holds nothing of the host, so that equal causes on many hosts are equal
  // text. Empty only for a path that cannot be evaluated: PATH_UNSPECIFIED.
  std::vector<v1::Reason> reasons;
  // The decisive CUDA error of a failed run. 0: none seen.
  uint32_t cuda_error = 0;
};

// Evaluates `path` of a cell of `entry` from the observations in `result`.
//
// Native and plain are proven by a run that had exactly the variables of its
// path, exited with the expected code, printed what is expected, and whose
// driver log holds no failed launch, with equal conditions before and after.
// ptx-jit also needs its repeat (jit_proof) that left compiled files: forcing
// alone proves nothing, since cubins given to the driver directly ignore the
// switch.
//
// Traced repeats can take a proof away and name whose kernel failed
// (verdict/trace.h).
//
// Several runs of one path must all hold; the worst decides. Interrupted ones
// count for nothing. `prediction`, if given, is what the model said for this
// path; it decides only whether a time limit can have cut a compilation short
// and whether a compilation was a surprise (TP314).
PathEvaluation EvaluatePath(const v1::Entry& entry, v1::Path path,
                            const v1::CellResult& result,
                            const v1::PathPrediction* prediction = nullptr);

// "native", "ptx-jit", "plain"; "unspecified" for anything else.
absl::string_view PathName(v1::Path path);

// "proven", "failed", "inconclusive", "not run".
absl::string_view StatusName(PathStatus status);

// The prediction for `path`, or nullptr if there is none.
const v1::PathPrediction* PredictionFor(
    const google::protobuf::RepeatedPtrField<v1::PathPrediction>& predictions,
    v1::Path path);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_PATH_STATUS_H_
