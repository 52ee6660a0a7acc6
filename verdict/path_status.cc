#include "verdict/path_status.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compat/reason.h"
#include "verdict/compiled.h"
#include "verdict/device_watch.h"
#include "verdict/run_status.h"
#include "verdict/trace.h"

namespace twinpath::verdict {
namespace {

// The worst of several runs decides.
int Rank(PathStatus status) {
  switch (status) {
    case PathStatus::kFailed:
      return 3;
    case PathStatus::kInconclusive:
      return 2;
    case PathStatus::kNotRun:
      return 1;
    case PathStatus::kProven:
      return 0;
  }
  return 2;
}

bool HasUntracedProof(const v1::CellResult& result) {
  for (const v1::Observation& observation : result.observations()) {
    if (observation.jit_proof() && !observation.traced()) return true;
  }
  return false;
}

// Evaluates all runs of a path that are proof runs or not; interrupted ones
// count only where there is no other. Nothing: no run at all.
std::optional<PathEvaluation> EvaluateRuns(
    const v1::Entry& entry, v1::Path path, bool proof,
    const v1::CellResult& result, const v1::PathPrediction* prediction) {
  std::optional<PathEvaluation> worst;
  std::optional<PathEvaluation> interrupted;
  for (const v1::Observation& observation : result.observations()) {
    if (observation.path() != path || observation.jit_proof() != proof) {
      continue;
    }
    // A traced repeat decides nothing but what ApplyTrace says; the proof may
    // be traced, and is repeated without where tracing changed it.
    if (observation.traced() && (!proof || HasUntracedProof(result))) continue;
    const Run run{entry, observation, prediction,
                  absl::StrCat(PathName(path), proof ? " proof" : "")};
    PathEvaluation evaluation = EvaluateRun(run, result.simulated());
    ApplyDeviceWatch(observation, run.label, evaluation);
    if (observation.ending() == v1::ENDING_INTERRUPTED) {
      interrupted = std::move(evaluation);
    } else if (!worst || Rank(evaluation.status) > Rank(worst->status)) {
      worst = std::move(evaluation);
    }
  }
  return worst ? worst : interrupted;
}

// Whether a proof that counts (see EvaluateRuns) left compiled files.
bool HasCompiled(const v1::CellResult& result) {
  const bool untraced = HasUntracedProof(result);
  for (const v1::Observation& observation : result.observations()) {
    if (observation.path() != v1::PATH_PTX_JIT || !observation.jit_proof() ||
        (untraced && observation.traced())) {
      continue;
    }
    if (observation.cache().observed() && DriverCompiled(observation.cache())) {
      return true;
    }
  }
  return false;
}

// What the path's own runs show.
PathEvaluation EvaluateOwnRuns(const v1::Entry& entry, v1::Path path,
                               const v1::CellResult& result,
                               const v1::PathPrediction* prediction) {
  if (path != v1::PATH_NATIVE && path != v1::PATH_PTX_JIT &&
      path != v1::PATH_PLAIN) {
    return {};
  }
  const std::string label(PathName(path));
  std::optional<PathEvaluation> run =
      EvaluateRuns(entry, path, false, result, prediction);
  if (!run) {
    return Evaluation(
        PathStatus::kNotRun,
        compat::MakeReason("TP418", absl::StrCat(label, ": no run delivered")));
  }
  if (path != v1::PATH_PTX_JIT || run->status != PathStatus::kProven) {
    return *std::move(run);
  }
  std::optional<PathEvaluation> proof =
      EvaluateRuns(entry, path, true, result, prediction);
  if (!proof || proof->status == PathStatus::kNotRun) {
    PathEvaluation missing = Evaluation(
        PathStatus::kInconclusive,
        compat::MakeReason(
            "TP309",
            "ptx-jit: the repeat that would show a compilation is missing"));
    if (proof) {
      missing.reasons.insert(missing.reasons.end(), proof->reasons.begin(),
                             proof->reasons.end());
    }
    return missing;
  }
  if (proof->status != PathStatus::kProven) return *std::move(proof);
  if (!HasCompiled(result)) {
    return Evaluation(
        PathStatus::kInconclusive,
        compat::MakeReason("TP309",
                           "ptx-jit: exited well, and nothing was compiled"));
  }
  return *std::move(run);
}

}  // namespace

PathEvaluation EvaluatePath(const v1::Entry& entry, v1::Path path,
                            const v1::CellResult& result,
                            const v1::PathPrediction* prediction) {
  PathEvaluation evaluation = EvaluateOwnRuns(entry, path, result, prediction);
  ApplyTrace(entry, path, result, prediction, evaluation);
  return evaluation;
}

absl::string_view PathName(v1::Path path) {
  switch (path) {
    case v1::PATH_NATIVE:
      return "native";
    case v1::PATH_PTX_JIT:
      return "ptx-jit";
    case v1::PATH_PLAIN:
      return "plain";
    default:
      return "unspecified";
  }
}

absl::string_view StatusName(PathStatus status) {
  switch (status) {
    case PathStatus::kProven:
      return "proven";
    case PathStatus::kFailed:
      return "failed";
    case PathStatus::kInconclusive:
      return "inconclusive";
    case PathStatus::kNotRun:
      return "not run";
  }
  return "inconclusive";
}

const v1::PathPrediction* PredictionFor(
    const google::protobuf::RepeatedPtrField<v1::PathPrediction>& predictions,
    v1::Path path) {
  for (const v1::PathPrediction& prediction : predictions) {
    if (prediction.path() == path) return &prediction;
  }
  return nullptr;
}

}  // namespace twinpath::verdict
