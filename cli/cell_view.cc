#include "cli/cell_view.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/reason.h"
#include "cli/images_view.h"
#include "cli/toolchain_view.h"
#include "verdict/judge.h"
#include "verdict/path_status.h"

namespace twinpath::cli {
namespace {

const v1::Observation* Observed(const v1::Cell& cell, v1::Path path) {
  for (const v1::Observation& observation : cell.result().observations()) {
    if (observation.path() == path && !observation.jit_proof() &&
        !observation.traced()) {
      return &observation;
    }
  }
  return nullptr;
}

// A failed or inconclusive path in a word.
std::string WordFor(const verdict::PathEvaluation& evaluation,
                    const v1::Observation* seen) {
  if (evaluation.cuda_error != 0) return absl::StrCat(evaluation.cuda_error);
  const std::string code =
      evaluation.reasons.empty() ? "" : evaluation.reasons[0].code();
  static const std::map<absl::string_view, absl::string_view> kWords = {
      {"TP208", "wrong CPU"},   {"TP209", "wrong platform"},
      {"TP231", "library"},     {"TP303", "wrong output"},
      {"TP304", "timeout"},     {"TP306", "not started"},
      {"TP307", "interrupted"}, {"TP308", "false success"},
      {"TP309", "not jit"},     {"TP310", "compiling"},
      {"TP312", "loader"},      {"TP313", "no memory"},
      {"TP315", "changed"},     {"TP317", "hung"},
      {"TP338", "no file"},
  };
  if (const auto found = kWords.find(code); found != kWords.end()) {
    return std::string(found->second);
  }
  if (seen != nullptr && seen->ending() == v1::ENDING_EXITED &&
      (code == "TP302" || code.empty())) {
    return absl::StrCat("exit ", seen->exit_code());
  }
  if (seen != nullptr && seen->ending() == v1::ENDING_SIGNALED) {
    return absl::StrCat("signal ", seen->signal());
  }
  if (const ReasonInfo* info = FindReason(code); info != nullptr) {
    return std::string(info->name);
  }
  return "unknown";
}

std::string PredictedWord(const v1::Cell& cell, v1::Path path) {
  const v1::PathPrediction* prediction =
      verdict::PredictionFor(cell.predictions(), path);
  if (prediction == nullptr) return "unknown";
  switch (prediction->outcome()) {
    case v1::OUTCOME_NATIVE:
    case v1::OUTCOME_JIT:
      return "ok";
    case v1::OUTCOME_FAILS:
      for (const v1::Reason& reason : prediction->reasons()) {
        if (reason.cuda_error() != 0) return absl::StrCat(reason.cuda_error());
        if (reason.code() == "TP208") return "wrong CPU";
        if (reason.code() == "TP209") return "wrong platform";
        if (reason.code() == "TP231") return "library";
      }
      return "fails";
    case v1::OUTCOME_NO_DEVICE_CODE:
      return "no code";
    default:
      return "unknown";
  }
}

bool IsNumber(absl::string_view text) {
  return !text.empty() &&
         text.find_first_not_of("0123456789") == absl::string_view::npos;
}

bool HasNoGpu(const v1::Cell& cell) { return cell.gpu_uuid().empty(); }

}  // namespace

std::string PathWord(const v1::Cell& cell, const v1::Entry& entry,
                     v1::Path path, const v1::Policy& policy) {
  if (verdict::RuleFor(policy, path) == v1::PATH_RULE_SKIPPED) return "skipped";
  if (cell.simulated()) return PredictedWord(cell, path);
  const verdict::PathEvaluation evaluation =
      verdict::EvaluatePath(entry, path, cell.result(),
                            verdict::PredictionFor(cell.predictions(), path));
  switch (evaluation.status) {
    case verdict::PathStatus::kProven:
      return "ok";
    case verdict::PathStatus::kNotRun: {
      const std::string code =
          evaluation.reasons.empty() ? "" : evaluation.reasons[0].code();
      if (code == "TP306") return "not started";
      if (code == "TP307") return "interrupted";
      if (code == "TP114") return "no sandbox";
      if (code == "TP111") return "busy";
      return "unknown";
    }
    case verdict::PathStatus::kFailed:
    case verdict::PathStatus::kInconclusive:
      return WordFor(evaluation, Observed(cell, path));
  }
  return "unknown";
}

CellView ViewCell(const v1::Cell& cell, const v1::Entry& entry,
                  const v1::Policy& policy) {
  switch (cell.state()) {
    case v1::CELL_STATE_WAITING:
      return {"waiting", Style::kDim};
    case v1::CELL_STATE_LEASED:
      return {"running", Style::kDim};
    default:
      break;
  }
  // One sign in front, so that the word is there without colour too.
  std::string sign = "? ";
  Style style = Style::kWarn;
  if (cell.verdict().kind() == v1::VERDICT_KIND_PASS) {
    sign = "+ ";
    style = Style::kGood;
  } else if (cell.verdict().kind() == v1::VERDICT_KIND_FAIL) {
    sign = "x ";
    style = Style::kBad;
  } else if (cell.simulated() && cell.state() == v1::CELL_STATE_DONE) {
    sign = "~ ";
    style = Style::kDim;
  }
  if (HasNoGpu(cell)) return {sign + "no GPU", style};
  if (cell.state() == v1::CELL_STATE_ENDED) return {sign + "no answer", style};
  if (entry.kind() == v1::ENTRY_KIND_TOOLCHAIN) {
    return {absl::StrCat(sign,
                         cell.simulated() ? "simulated" : ToolchainWord(cell)),
            style};
  }
  if (entry.kind() == v1::ENTRY_KIND_IMAGES) {
    if (cell.simulated()) return {"~ simulated", Style::kDim};
    return ViewImagesCell(cell);
  }
  const std::string native = PathWord(cell, entry, v1::PATH_NATIVE, policy);
  const std::string jit = PathWord(cell, entry, v1::PATH_PTX_JIT, policy);
  const std::string plain = PathWord(cell, entry, v1::PATH_PLAIN, policy);
  if (native == jit && jit == plain && native != "ok") {
    return {absl::StrCat(sign, IsNumber(native) ? "all " : "", native), style};
  }
  std::string text = absl::StrCat(sign, "native ", native, " / jit ", jit);
  if (plain != "ok" && plain != "skipped") {
    absl::StrAppend(&text, " / plain ", plain);
  }
  return {std::move(text), style};
}

}  // namespace twinpath::cli
