// What one run of an entry has shown by itself: its ending, its output, the
// driver's log, and whether the evidence is whole. Internal to verdict/. Pure
// functions; thread-safe.

#ifndef TWINPATH_VERDICT_RUN_STATUS_H_
#define TWINPATH_VERDICT_RUN_STATUS_H_

#include <string>

#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/release.pb.h"
#include "verdict/path_status.h"

namespace twinpath::verdict {

// One run to be evaluated, with the words its reasons begin with.
struct Run {
  const v1::Entry& entry;
  const v1::Observation& observation;
  const v1::PathPrediction* prediction;
  // "native", "ptx-jit", "ptx-jit proof", "plain".
  std::string label;
};

// An evaluation by one reason, with its CUDA error.
PathEvaluation Evaluation(PathStatus status, v1::Reason reason);

// Evaluates the run; `simulated`: its whole result is.
PathEvaluation EvaluateRun(const Run& run, bool simulated);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_RUN_STATUS_H_
