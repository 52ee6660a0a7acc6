#include "verdict/toolchain.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/text.h"
#include "compat/reason.h"
#include "compat/target.h"
#include "verdict/builder.h"

namespace twinpath::verdict {
namespace {

using compat::MakeReason;

// Steps that must be there, whatever else is.
constexpr absl::string_view kSteps[] = {"version", "targets", "compile",
                                        "inspect"};

PathEvaluation One(PathStatus status, v1::Reason reason) {
  PathEvaluation evaluation;
  evaluation.status = status;
  evaluation.reasons.push_back(std::move(reason));
  return evaluation;
}

const v1::ToolchainStep* FindStep(const v1::ToolchainCheck& check,
                                  absl::string_view name) {
  for (const v1::ToolchainStep& step : check.steps()) {
    if (step.name() == name) return &step;
  }
  return nullptr;
}

bool IsRun(const v1::ToolchainStep& step) {
  return step.name() == "native" || step.name() == "ptx-jit";
}

// What a step before the runs shows that did not hold.
PathEvaluation NotHeld(const v1::ToolchainStep& step) {
  PathEvaluation evaluation;
  const std::string& code = step.reasons(0).code();
  const bool decided = step.ending() != v1::ENDING_TIMED_OUT &&
                       step.ending() != v1::ENDING_INTERRUPTED &&
                       step.name() != "gpu" &&
                       (code == "TP110" || code == "TP132" || code == "TP133");
  evaluation.status = decided ? PathStatus::kFailed : PathStatus::kInconclusive;
  for (const v1::Reason& reason : step.reasons()) {
    evaluation.reasons.push_back(reason);
    if (code != "TP110") {
      evaluation.reasons.back().set_detail(
          absl::StrCat(step.name(), ": ", reason.detail()));
    }
  }
  return evaluation;
}

bool Holds(const v1::FileReport& built, v1::ImageKind kind,
           const v1::Target& target) {
  for (const v1::Fatbin& fatbin : built.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      if (image.kind() == kind && image.target().number() == target.number() &&
          image.target().suffix() == target.suffix() &&
          image.kernels_size() > 0) {
        return true;
      }
    }
  }
  return false;
}

PathEvaluation EvaluateRun(const v1::ToolchainCheck& check, v1::Path path) {
  v1::Entry entry;
  entry.set_name("toolchain");
  entry.mutable_expected_output()->set_contains(kToolchainPasses);
  v1::CellResult result;
  for (const v1::Observation& run : check.runs()) {
    // A run that was not pointed at this GPU shows nothing of it.
    if (run.gpu_uuid() == check.gpu_uuid() ||
        run.ending() == v1::ENDING_NOT_STARTED) {
      *result.add_observations() = run;
    }
  }
  result.set_complete(true);
  return EvaluatePath(entry, path, result);
}

// Where to look, by which of the two runs failed.
absl::string_view Advice(PathStatus native, PathStatus jit) {
  const bool native_failed = native == PathStatus::kFailed;
  const bool jit_failed = jit == PathStatus::kFailed;
  if (native_failed && jit_failed) {
    return "Look at the concrete error, then at driver, run-time libraries and "
           "the device's state; do not change compile options back and forth.";
  }
  if (native_failed) {
    return "Look first at the native targets and at the final link: the PTX "
           "works.";
  }
  return "Look whether the PTX is there and whether the driver supports its "
         "version: the machine code works.";
}

std::string BuildText(const v1::ToolchainCheck& check) {
  return absl::StrCat(ToolkitText(check), " builds for ",
                      compat::TargetName(v1::IMAGE_KIND_SASS, check.target()),
                      " and ",
                      compat::TargetName(v1::IMAGE_KIND_PTX, check.target()));
}

// Whether one of the checks is proven; the reasons of the others are then
// warnings, or with `every` what they are.
bool Weigh(const std::vector<const v1::ToolchainCheck*>& checks, bool every,
           VerdictBuilder& builder) {
  std::vector<PathEvaluation> seen;
  for (const v1::ToolchainCheck* check : checks) {
    seen.push_back(EvaluateToolchain(*check));
  }
  const bool proven = std::any_of(
      seen.begin(), seen.end(), [](const PathEvaluation& evaluation) {
        return evaluation.status == PathStatus::kProven;
      });
  for (size_t i = 0; i < checks.size(); ++i) {
    const v1::ToolchainCheck& check = *checks[i];
    for (v1::Reason reason : seen[i].reasons) {
      // Before a toolkit is asked there is none to name; TP110 names its own.
      if (!check.toolkit().path().empty() && reason.code() != "TP110") {
        reason.set_detail(
            absl::StrCat(ToolkitText(check), ": ", reason.detail()));
      }
      if (proven && !every) {
        builder.Warn(std::move(reason));
      } else if (seen[i].status == PathStatus::kFailed) {
        builder.Fail(std::move(reason));
      } else {
        builder.Inconclusive(std::move(reason));
      }
    }
    if (seen[i].status == PathStatus::kProven) {
      builder.Note(MakeReason(
          "TP420",
          absl::StrCat(BuildText(check),
                       check.gpu_uuid().empty()
                           ? "; nothing was run"
                           : "; the check program ran on both paths")));
    }
  }
  return proven;
}

}  // namespace

std::string ToolkitText(const v1::ToolchainCheck& check) {
  const v1::Toolkit& toolkit = check.toolkit();
  if (toolkit.path().empty()) return "no toolkit";
  if (toolkit.nvcc_version().empty()) return Printable(toolkit.path());
  return absl::StrCat("nvcc ", toolkit.nvcc_version(), " in ",
                      Printable(toolkit.path()));
}

PathEvaluation EvaluateToolchain(const v1::ToolchainCheck& check) {
  for (const v1::ToolchainStep& step : check.steps()) {
    if (!step.reasons().empty() && !IsRun(step)) return NotHeld(step);
  }
  for (const absl::string_view name : kSteps) {
    const v1::ToolchainStep* step = FindStep(check, name);
    if (step == nullptr || step->ending() != v1::ENDING_EXITED ||
        step->exit_code() != 0) {
      return One(
          PathStatus::kInconclusive,
          MakeReason("TP418", absl::StrCat("no evidence of the step ", name)));
    }
  }
  for (const v1::ImageKind kind : {v1::IMAGE_KIND_SASS, v1::IMAGE_KIND_PTX}) {
    if (!Holds(check.built(), kind, check.target())) {
      return One(
          PathStatus::kFailed,
          MakeReason("TP133",
                     absl::StrCat("inspect: no ",
                                  compat::TargetName(kind, check.target()),
                                  " with a kernel in the built file")));
    }
  }
  PathEvaluation evaluation;
  evaluation.status = PathStatus::kProven;
  if (check.gpu_uuid().empty()) return evaluation;

  const v1::Version& capability = check.compute_capability();
  if (capability.major() == 0 ||
      check.target().number() != compat::CapabilityNumber(capability) ||
      check.target().suffix() != v1::TARGET_SUFFIX_NONE) {
    return One(PathStatus::kInconclusive,
               MakeReason("TP418",
                          "the target that was built for is not the compute "
                          "capability that was queried"));
  }
  const PathEvaluation native = EvaluateRun(check, v1::PATH_NATIVE);
  const PathEvaluation jit = EvaluateRun(check, v1::PATH_PTX_JIT);
  const auto worse = [](PathStatus a, PathStatus b) {
    const auto rank = [](PathStatus status) {
      return status == PathStatus::kFailed         ? 3
             : status == PathStatus::kInconclusive ? 2
             : status == PathStatus::kNotRun       ? 1
                                                   : 0;
    };
    return rank(a) >= rank(b) ? a : b;
  };
  evaluation.status = worse(native.status, jit.status);
  for (const PathEvaluation* path : {&native, &jit}) {
    if (path->status == PathStatus::kProven) continue;
    evaluation.reasons.insert(evaluation.reasons.end(), path->reasons.begin(),
                              path->reasons.end());
    if (evaluation.cuda_error == 0) evaluation.cuda_error = path->cuda_error;
  }
  if (evaluation.status == PathStatus::kFailed) {
    evaluation.reasons[0].set_fix(
        std::string(Advice(native.status, jit.status)));
  }
  return evaluation;
}

void JudgeToolchains(
    const google::protobuf::RepeatedPtrField<v1::ToolchainCheck>& checks,
    const std::string& gpu_uuid, VerdictBuilder& builder) {
  std::vector<const v1::ToolchainCheck*> of_gpu;
  for (const v1::ToolchainCheck& check : checks) {
    if (check.gpu_uuid() == gpu_uuid) of_gpu.push_back(&check);
  }
  if (of_gpu.empty()) {
    builder.Inconclusive(
        MakeReason("TP418", "no toolchain check of this GPU was delivered"));
  } else if (Weigh(of_gpu, /*every=*/false, builder)) {
    builder.Proven();
  }
}

v1::Verdict JudgeToolchainChecks(
    const google::protobuf::RepeatedPtrField<v1::ToolchainCheck>& checks,
    bool every, bool strict) {
  // GPUs, or where none was asked the targets that were named.
  using Key = std::tuple<std::string, uint32_t, int>;
  std::map<Key, std::vector<const v1::ToolchainCheck*>> groups;
  bool run = true;
  for (const v1::ToolchainCheck& check : checks) {
    const bool built_only =
        check.gpu_uuid().empty() && check.target().number() > 0;
    run &= !built_only;
    groups[built_only ? Key("", check.target().number(),
                            static_cast<int>(check.target().suffix()))
                      : Key(check.gpu_uuid(), 0, 0)]
        .push_back(&check);
  }
  VerdictBuilder builder;
  bool proven = !groups.empty();
  for (const auto& [key, group] : groups) {
    proven &= Weigh(group, every, builder);
  }
  if (proven) builder.Proven();
  return builder.Build(
      strict, run ? "every GPU has a toolkit that builds for it, and the check "
                    "program ran on both paths"
                  : "what was built holds what was asked for; nothing was run, "
                    "so no path is proven");
}

VerdictBuilder JudgeAbsentToolchain(const EvaluatedCell& cell, bool ended) {
  VerdictBuilder builder;
  if (cell.simulated) {
    builder.Inconclusive(MakeReason(
        "TP414", "the host is simulated; it has no toolchain to check"));
    return builder;
  }
  for (const v1::Reason& problem : cell.cell->result().problems()) {
    builder.Inconclusive(problem);
  }
  if (cell.cell->gpu_uuid().empty()) {
    builder.Inconclusive(MakeReason("TP318", "the host has no usable GPU"));
    return builder;
  }
  const bool over = ended || cell.cell->state() == v1::CELL_STATE_ENDED ||
                    cell.cell->state() == v1::CELL_STATE_DONE;
  builder.Inconclusive(over ? MakeReason("TP411", "gave no complete result")
                            : MakeReason("TP418", "no result yet"));
  return builder;
}

std::string ToolchainStatement(
    const google::protobuf::RepeatedPtrField<v1::ToolchainCheck>& checks,
    const std::string& gpu_uuid) {
  std::string text;
  for (const v1::ToolchainCheck& check : checks) {
    if (check.gpu_uuid() != gpu_uuid) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", ToolkitText(check));
    if (check.target().number() > 0) {
      absl::StrAppend(&text, " for ",
                      compat::TargetName(v1::IMAGE_KIND_SASS, check.target()));
    }
    absl::StrAppend(&text, " ", StatusName(EvaluateToolchain(check).status));
  }
  return text.empty() ? "no toolchain check" : text;
}

}  // namespace twinpath::verdict
