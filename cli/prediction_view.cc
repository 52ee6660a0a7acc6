#include "cli/prediction_view.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "cli/group_view.h"
#include "cli/reason_view.h"
#include "verdict/path_status.h"

namespace twinpath::cli {

std::string OutcomeText(const v1::PathPrediction& prediction) {
  std::string out;
  switch (prediction.outcome()) {
    case v1::OUTCOME_NATIVE:
      out = "native";
      break;
    case v1::OUTCOME_JIT:
      out = "jit";
      break;
    case v1::OUTCOME_FAILS: {
      out = "fails";
      for (const v1::Reason& reason : prediction.reasons()) {
        if (reason.cuda_error() == 0) continue;
        absl::StrAppend(&out, " ", reason.cuda_error());
        break;
      }
      break;
    }
    case v1::OUTCOME_UNKNOWN:
      out = "unknown";
      break;
    case v1::OUTCOME_NO_DEVICE_CODE:
      out = "no code";
      break;
    default:
      out = "-";
  }
  if (prediction.gaps() > 0) {
    absl::StrAppend(&out, ", ", prediction.gaps(),
                    prediction.gaps() == 1 ? " gap" : " gaps");
  }
  return out;
}

Style OutcomeStyle(const v1::PathPrediction& prediction) {
  switch (prediction.outcome()) {
    case v1::OUTCOME_NATIVE:
      return Style::kGood;
    case v1::OUTCOME_JIT:
      return prediction.path() == v1::PATH_PLAIN ? Style::kWarn : Style::kGood;
    case v1::OUTCOME_FAILS:
      return Style::kBad;
    case v1::OUTCOME_NO_DEVICE_CODE:
      return Style::kDim;
    default:
      return Style::kWarn;
  }
}

std::string DriverText(const v1::HostFacts& facts) {
  const v1::Driver& driver = facts.driver();
  std::string out = driver.kernel_module_version().empty()
                        ? driver.libcuda_version()
                        : driver.kernel_module_version();
  if (driver.has_cuda_version() && driver.cuda_version().major() > 0) {
    absl::StrAppend(&out, out.empty() ? "" : " ", "(CUDA ",
                    VersionText(driver.cuda_version()), ")");
  }
  return out.empty() ? "none" : out;
}

std::string RenderPredictions(const v1::PredictOutput& output,
                              const ViewOptions& options) {
  return RenderGroups(GroupsOf(output), GroupViewOptions{options, false});
}

}  // namespace twinpath::cli
