#include "verdict/judge_cell.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "compat/reason.h"
#include "verdict/compiled.h"
#include "verdict/device_watch.h"
#include "verdict/image_loads.h"
#include "verdict/judge.h"
#include "verdict/path_status.h"
#include "verdict/toolchain.h"
#include "verdict/trace.h"

namespace twinpath::verdict {
namespace {

bool IsKnownRule(v1::PathRule rule) {
  return rule == v1::PATH_RULE_REQUIRED || rule == v1::PATH_RULE_OPTIONAL ||
         rule == v1::PATH_RULE_SKIPPED;
}

// A prediction's reason, with its path in front.
v1::Reason Labelled(v1::Path path, const v1::Reason& reason) {
  v1::Reason copy = reason;
  copy.set_detail(absl::StrCat(PathName(path), ": ", reason.detail()));
  return copy;
}

// TP421 and the prediction's own reasons for a path that the model says fails.
std::vector<v1::Reason> PredictedFailure(const v1::PathPrediction& prediction) {
  std::string detail =
      absl::StrCat(PathName(prediction.path()), ": predicted to fail");
  uint32_t error = 0;
  for (const v1::Reason& reason : prediction.reasons()) {
    if (error == 0) error = reason.cuda_error();
  }
  if (error != 0) absl::StrAppend(&detail, " with CUDA error ", error);
  std::vector<v1::Reason> reasons = {
      compat::MakeReason("TP421", detail, "", error)};
  for (const v1::Reason& reason : prediction.reasons()) {
    if (compat::SeverityOf(reason) == v1::SEVERITY_NOTE) continue;
    reasons.push_back(Labelled(prediction.path(), reason));
  }
  return reasons;
}

// Adds what the model says of required paths; for cells nobody has seen run.
void AddPredictions(const v1::Cell& cell, const v1::Entry& entry,
                    const v1::Policy& policy, bool failure_decides,
                    VerdictBuilder& builder) {
  // Images have no path, and so none of the paths' predictions.
  if (entry.kind() == v1::ENTRY_KIND_IMAGES) return;
  for (const v1::PathPrediction& prediction : cell.predictions()) {
    const v1::PathRule rule = RuleFor(policy, prediction.path());
    if (rule == v1::PATH_RULE_SKIPPED) continue;
    const bool required = rule != v1::PATH_RULE_OPTIONAL;
    if (prediction.outcome() == v1::OUTCOME_FAILS) {
      for (v1::Reason& reason : PredictedFailure(prediction)) {
        if (!required) {
          builder.Warn(std::move(reason));
        } else if (failure_decides) {
          builder.Fail(std::move(reason));
        } else {
          builder.Inconclusive(std::move(reason));
        }
      }
    } else if (prediction.outcome() == v1::OUTCOME_UNKNOWN && required) {
      for (const v1::Reason& reason : prediction.reasons()) {
        builder.Inconclusive(Labelled(prediction.path(), reason));
      }
    }
  }
}

void JudgeUnanswered(const v1::Cell& cell, bool ended,
                     VerdictBuilder& builder) {
  for (const v1::Reason& problem : cell.result().problems()) {
    builder.Inconclusive(problem);
  }
  if (ended || cell.state() == v1::CELL_STATE_ENDED ||
      cell.state() == v1::CELL_STATE_DONE) {
    builder.Inconclusive(
        compat::MakeReason("TP411", "gave no complete result"));
  } else {
    builder.Inconclusive(compat::MakeReason("TP418", "no result yet"));
  }
}

// Whether every run of the result was pointed at the cell's GPU.
bool IsOnGpu(const v1::Cell& cell) {
  for (const v1::Observation& observation : cell.result().observations()) {
    if (observation.ending() != v1::ENDING_EXITED &&
        observation.ending() != v1::ENDING_SIGNALED &&
        observation.ending() != v1::ENDING_TIMED_OUT) {
      continue;
    }
    bool found = false;
    for (const absl::string_view uuid :
         absl::StrSplit(observation.gpu_uuid(), ',')) {
      found |= uuid == cell.gpu_uuid();
    }
    if (!found) return false;
  }
  return true;
}

// What keeps a whole result from being evidence for its cell.
void CheckResult(const v1::Cell& cell, const v1::Entry& entry,
                 VerdictBuilder& builder) {
  if (!IsOnGpu(cell)) {
    builder.Inconclusive(compat::MakeReason(
        "TP418", "a run was not pointed at the GPU of its cell"));
  }
  const std::string& at_start = cell.conditions_digest().sha256();
  if (!at_start.empty()) {
    for (const v1::Observation& observation : cell.result().observations()) {
      const std::string& before =
          observation.conditions_before().digest().sha256();
      if (!before.empty() && before != at_start) {
        builder.Inconclusive(compat::MakeReason(
            "TP315", "conditions changed since the sweep started"));
        break;
      }
    }
  }
  for (TraceClaim& claim : JudgeNeededTrace(entry, cell.result())) {
    if (claim.failure) {
      builder.Fail(std::move(claim.reason));
    } else {
      builder.Inconclusive(std::move(claim.reason));
    }
  }
}

// Whether a run that ended well shows nothing about the GPU: the files bring no
// device code and nothing was compiled, so any host would have done as well.
bool ShowsNoDeviceCode(const EvaluatedCell& cell, v1::Path path) {
  const v1::PathPrediction* prediction =
      PredictionFor(cell.cell->predictions(), path);
  if (prediction == nullptr ||
      prediction->outcome() != v1::OUTCOME_NO_DEVICE_CODE) {
    return false;
  }
  // Forced compilation is proven by what it left.
  if (path == v1::PATH_PTX_JIT) return false;
  const v1::Observation* run = MainRun(cell.cell->result(), path);
  return run == nullptr || !DriverCompiled(run->cache());
}

// Every run of an entry without paths was made under one and the same set of
// conditions, which were recorded.
void CheckConditions(const v1::CellResult& result, VerdictBuilder& builder) {
  for (const v1::Observation& run : result.observations()) {
    const std::string& before = run.conditions_before().digest().sha256();
    const std::string& after = run.conditions_after().digest().sha256();
    if (before.empty() || after.empty()) {
      builder.Inconclusive(compat::MakeReason(
          "TP418",
          "the host's conditions before and after the run were not recorded"));
    } else if (before != after) {
      builder.Inconclusive(
          compat::MakeReason("TP315", "conditions changed during the run"));
    }
  }
}

void JudgePath(const EvaluatedCell& cell, v1::Path path, v1::PathRule rule,
               VerdictBuilder& builder, bool& optional_proven) {
  const PathEvaluation& seen = cell.At(path);
  const bool required = rule == v1::PATH_RULE_REQUIRED;
  switch (seen.status) {
    case PathStatus::kProven:
      if (ShowsNoDeviceCode(cell, path)) {
        const std::string detail =
            absl::StrCat(PathName(path),
                         ": ran, and the files bring no device code (TP223); "
                         "whether anything ran on the GPU was not seen");
        // A checked result is evidence of what the release asked for.
        if (cell.entry->has_expected_output()) {
          builder.Warn(compat::MakeReason("TP223", detail));
        } else {
          v1::Reason reason = compat::MakeReason(
              "TP418", detail,
              "State the output that is expected, or make the entry run "
              "device code of these files.");
          if (required) {
            builder.Inconclusive(std::move(reason));
          } else {
            builder.Note(std::move(reason));
          }
          return;
        }
      }
      if (required) {
        builder.Proven();
      } else {
        optional_proven = true;
      }
      for (const v1::Reason& reason : seen.reasons) {
        if (compat::SeverityOf(reason) == v1::SEVERITY_NOTE) {
          builder.Note(reason);
        } else {
          builder.Warn(reason);
        }
      }
      return;
    case PathStatus::kFailed:
      for (const v1::Reason& reason : seen.reasons) {
        if (required) {
          builder.Fail(reason);
        } else {
          builder.Warn(reason);
        }
      }
      return;
    case PathStatus::kInconclusive:
    case PathStatus::kNotRun:
      break;
  }
  for (const v1::Reason& reason : seen.reasons) {
    if (required) {
      builder.Inconclusive(reason);
    } else {
      builder.Warn(reason);
    }
  }
  const v1::Reason unproven = compat::MakeReason(
      "TP418", absl::StrCat(PathName(path), ": no positive evidence"));
  if (required) {
    builder.Inconclusive(unproven);
    const v1::PathPrediction* prediction =
        PredictionFor(cell.cell->predictions(), path);
    if (prediction != nullptr && prediction->outcome() == v1::OUTCOME_FAILS) {
      for (v1::Reason& reason : PredictedFailure(*prediction)) {
        builder.Inconclusive(std::move(reason));
      }
    }
  }
}

}  // namespace

VerdictBuilder JudgeEvaluated(const EvaluatedCell& cell,
                              const v1::Policy& policy, bool ended) {
  VerdictBuilder builder;
  if (cell.entry == nullptr) {
    builder.Inconclusive(compat::MakeReason(
        "TP418", "the release has no entry of the cell's name"));
    return builder;
  }
  if (cell.entry->kind() == v1::ENTRY_KIND_TOOLCHAIN &&
      (cell.simulated || !cell.answered || cell.cell->gpu_uuid().empty())) {
    // The predictions are the artifact's, of which it says nothing.
    return JudgeAbsentToolchain(cell, ended);
  }
  if (cell.simulated) {
    // A simulated answer is the prediction over again: useful where it says
    // no, and never proof where it says yes.
    AddPredictions(*cell.cell, *cell.entry, policy, cell.answered, builder);
    builder.Inconclusive(compat::MakeReason("TP414", "the host is simulated"));
    if (!cell.answered) JudgeUnanswered(*cell.cell, ended, builder);
    return builder;
  }
  if (cell.cell->gpu_uuid().empty()) {
    // Which of the host's faults it is comes first.
    for (const v1::Reason& problem : cell.cell->result().problems()) {
      builder.Inconclusive(problem);
    }
    builder.Inconclusive(
        compat::MakeReason("TP318", "the host has no usable GPU"));
    return builder;
  }
  if (!cell.answered) {
    JudgeUnanswered(*cell.cell, ended, builder);
    AddPredictions(*cell.cell, *cell.entry, policy, false, builder);
    return builder;
  }

  CheckResult(*cell.cell, *cell.entry, builder);
  if (cell.entry->kind() == v1::ENTRY_KIND_TOOLCHAIN ||
      cell.entry->kind() == v1::ENTRY_KIND_IMAGES) {
    // Neither what loads nor what fails on a faulty GPU says anything.
    std::vector<v1::Reason> faults = DeviceFaults(cell.cell->result());
    for (v1::Reason& fault : faults) builder.Inconclusive(std::move(fault));
    if (!faults.empty()) return builder;
  }
  if (cell.entry->kind() == v1::ENTRY_KIND_TOOLCHAIN) {
    JudgeToolchains(cell.cell->result().toolchain(), cell.cell->gpu_uuid(),
                    builder);
    return builder;
  }
  if (cell.entry->kind() == v1::ENTRY_KIND_IMAGES) {
    CheckConditions(cell.cell->result(), builder);
    JudgeImageLoads(cell.cell->result().image_loads(), cell.cell->gpu_uuid(),
                    builder);
    return builder;
  }
  bool has_required = false;
  bool optional_proven = false;
  for (const v1::Path path : kPaths) {
    const v1::PathRule rule = RuleFor(policy, path);
    if (rule == v1::PATH_RULE_SKIPPED) continue;
    has_required |= rule == v1::PATH_RULE_REQUIRED;
    JudgePath(cell, path, rule, builder, optional_proven);
  }
  if (!has_required && optional_proven) builder.Proven();
  for (v1::Reason& reason : ContradictionsOf(cell)) {
    builder.Inconclusive(std::move(reason));
  }
  return builder;
}

v1::PathRule RuleFor(const v1::Policy& policy, v1::Path path) {
  v1::PathRule rule = v1::PATH_RULE_REQUIRED;
  switch (path) {
    case v1::PATH_NATIVE:
      rule = policy.native();
      break;
    case v1::PATH_PTX_JIT:
      rule = policy.ptx_jit();
      break;
    case v1::PATH_PLAIN:
      rule = policy.plain();
      break;
    default:
      break;
  }
  // Not stated, or a rule of a later version: the stricter reading.
  return IsKnownRule(rule) ? rule : v1::PATH_RULE_REQUIRED;
}

v1::Verdict JudgeCell(const v1::Cell& cell, const v1::Entry& entry,
                      const v1::Policy& policy) {
  VerdictBuilder builder =
      JudgeEvaluated(EvaluateCell(cell, &entry), policy, false);
  return builder.Build(policy.strict(), kCellPassDetail);
}

}  // namespace twinpath::verdict
