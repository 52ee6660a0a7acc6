#include "cli/check_view.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "cli/difference_view.h"
#include "cli/images_view.h"
#include "cli/prediction_view.h"
#include "cli/sweep_view.h"
#include "cli/table.h"
#include "cli/trace_view.h"
#include "verdict/judge.h"
#include "verdict/path_status.h"

namespace twinpath::cli {
namespace {

std::string EndingText(const v1::Observation& seen) {
  switch (seen.ending()) {
    case v1::ENDING_EXITED:
      return absl::StrCat("exit ", seen.exit_code());
    case v1::ENDING_SIGNALED:
      return absl::StrCat("signal ", seen.signal());
    case v1::ENDING_TIMED_OUT:
      return "time limit";
    case v1::ENDING_NOT_STARTED:
      return "not started";
    case v1::ENDING_INTERRUPTED:
      return "interrupted";
    case v1::ENDING_SKIPPED:
      return "skipped";
    default:
      return "-";
  }
}

Style StatusStyle(verdict::PathStatus status) {
  switch (status) {
    case verdict::PathStatus::kProven:
      return Style::kGood;
    case verdict::PathStatus::kFailed:
      return Style::kBad;
    default:
      return Style::kWarn;
  }
}

// The end of everything a failed run left behind.
std::string Evidence(const v1::Observation& seen, const ViewOptions& options) {
  std::string out;
  const auto add = [&](absl::string_view name,
                       const v1::CapturedOutput& output) {
    if (output.total_bytes() == 0) return;
    absl::StrAppend(
        &out, "    ",
        Paint(absl::StrCat(verdict::PathName(seen.path()), ", ", name, ":"),
              Style::kDim, options.color),
        "\n", OutputTail(output, 10, "      "));
  };
  if (!seen.problem().empty()) {
    absl::StrAppend(&out, "    ", verdict::PathName(seen.path()), ": ",
                    Printable(seen.problem()), "\n");
  }
  add("standard output", seen.stdout());
  add("standard error", seen.stderr());
  add("driver log", seen.driver_log());
  return out;
}

}  // namespace

std::string OutputTail(const v1::CapturedOutput& output, size_t lines,
                       absl::string_view indent) {
  const std::string& text =
      output.tail().empty() ? output.head() : output.tail();
  std::vector<std::string> all =
      absl::StrSplit(Printable(text, /*keep_lines=*/true), '\n');
  while (!all.empty() && all.back().empty()) all.pop_back();
  std::string out;
  const size_t begin = all.size() > lines ? all.size() - lines : 0;
  if (begin > 0 || !output.tail().empty()) {
    absl::StrAppend(&out, indent, "…\n");
  }
  for (size_t i = begin; i < all.size(); ++i) {
    absl::StrAppend(&out, indent, Truncate(all[i], 400), "\n");
  }
  return out;
}

std::string RenderCheck(const v1::Sweep& sweep, const ViewOptions& options) {
  std::string out;
  for (const v1::Cell& cell : sweep.cells()) {
    const v1::Entry& entry = sweep.spec().release().entries(0);
    if (cell.result().observations().empty()) continue;
    absl::StrAppend(
        &out, Paint(Printable(cell.gpu_name()), Style::kBold, options.color),
        "\n");
    if (entry.kind() == v1::ENTRY_KIND_IMAGES) {
      absl::StrAppend(
          &out, RenderImageLoads(cell.result().image_loads(), options), "\n");
      continue;
    }
    Table table({"  PATH", "PREDICTED", "SEEN", "STATUS", "COMPILED", "TIME"});
    std::string evidence;
    for (const v1::Observation& seen : cell.result().observations()) {
      const v1::PathPrediction* prediction =
          verdict::PredictionFor(cell.predictions(), seen.path());
      const verdict::PathEvaluation evaluation =
          verdict::EvaluatePath(entry, seen.path(), cell.result(), prediction);
      const double seconds =
          static_cast<double>(seen.duration().seconds()) +
          static_cast<double>(seen.duration().nanos()) * 1e-9;
      table.AddRow({absl::StrCat("  ", verdict::PathName(seen.path()),
                                 seen.jit_proof() ? " (proof)" : "",
                                 seen.traced() ? " (traced)" : ""),
                    prediction == nullptr ? "-" : OutcomeText(*prediction),
                    EndingText(seen),
                    {std::string(verdict::StatusName(evaluation.status)),
                     StatusStyle(evaluation.status)},
                    seen.cache().observed()
                        ? absl::StrCat(seen.cache().files(), " files")
                        : "-",
                    absl::StrFormat("%.2f s", seconds)});
      if (evaluation.status != verdict::PathStatus::kProven &&
          !seen.jit_proof() && !seen.traced()) {
        absl::StrAppend(&evidence, Evidence(seen, options));
      }
      absl::StrAppend(&evidence, RenderTrace(seen, options));
    }
    absl::StrAppend(&out, table.Render(options.width, options.color), evidence,
                    "\n");
  }
  for (const std::string& part :
       {RenderReasons(sweep, options), RenderFindings(sweep, options),
        RenderDifferences(sweep, options)}) {
    if (!part.empty()) absl::StrAppend(&out, part, "\n");
  }
  absl::StrAppend(&out, RenderVerdict(sweep, options));
  return out;
}

}  // namespace twinpath::cli
