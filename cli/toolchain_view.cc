#include "cli/toolchain_view.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/check_view.h"
#include "cli/reason_view.h"
#include "cli/sweep_view.h"
#include "cli/table.h"
#include "compat/reason.h"
#include "compat/target.h"
#include "verdict/path_status.h"
#include "verdict/toolchain.h"

namespace twinpath::cli {
namespace {

constexpr size_t kOutputLines = 12;

std::string SassName(const v1::ToolchainCheck& check) {
  return compat::TargetName(v1::IMAGE_KIND_SASS, check.target());
}

std::string SecondsText(const google::protobuf::Duration& duration) {
  const double seconds = static_cast<double>(duration.seconds()) +
                         static_cast<double>(duration.nanos()) * 1e-9;
  return duration.seconds() == 0 && duration.nanos() == 0
             ? "-"
             : absl::StrFormat("%.2f s", seconds);
}

// Kinds of the built file's images, each once: "sm_90, PTX 9.0 for compute_90".
std::string BuiltText(const v1::FileReport& built) {
  std::vector<std::string> names;
  for (const v1::Fatbin& fatbin : built.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      std::string name = compat::TargetName(image.kind(), image.target());
      if (image.kind() == v1::IMAGE_KIND_PTX) {
        name =
            absl::StrCat("PTX ", VersionText(image.ptx_isa()), " for ", name);
      }
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(std::move(name));
      }
    }
  }
  return names.empty() ? "no device code" : absl::StrJoin(names, ", ");
}

// What the two runs of a path left: "exit 0", "exit 0; compiled, 2 files".
std::string RunText(const v1::ToolchainCheck& check, absl::string_view name) {
  std::string text;
  for (const v1::Observation& run : check.runs()) {
    if (verdict::PathName(run.path()) != name) continue;
    if (run.jit_proof()) {
      absl::StrAppend(
          &text, "; repeated: ", run.cache().files(),
          run.cache().files() == 1 ? " compiled file" : " compiled files");
    } else if (run.ending() == v1::ENDING_EXITED) {
      absl::StrAppend(&text, "exit ", run.exit_code());
      const std::vector<absl::string_view> lines =
          absl::StrSplit(run.stdout().head(), '\n', absl::SkipEmpty());
      if (!lines.empty()) absl::StrAppend(&text, ", \"", lines[0], "\"");
    }
  }
  return text;
}

std::string StepText(const v1::ToolchainCheck& check,
                     const v1::ToolchainStep& step) {
  if (!step.reasons().empty()) {
    return absl::StrCat(step.reasons(0).code(), " ", step.reasons(0).detail());
  }
  const absl::string_view name = step.name();
  if (name == "gpu") {
    return absl::StrCat("compute capability ",
                        VersionText(check.compute_capability()));
  }
  if (name == "version") return check.toolkit().nvcc_version();
  if (name == "targets") {
    return absl::StrCat(SassName(check), " is one of ",
                        check.toolkit().targets_size());
  }
  if (name == "compile") {
    std::vector<std::string> words(step.argv().begin(), step.argv().end());
    if (!words.empty()) words[0] = std::string(BaseName(words[0]));
    return absl::StrJoin(words, " ");
  }
  if (name == "inspect") return BuiltText(check.built());
  if (name == "witness") {
    if (step.ending() == v1::ENDING_SKIPPED) {
      return "this toolkit has no cuobjdump";
    }
    std::vector<std::string> counts;
    for (const v1::WitnessCount& count : check.built().witness().counts()) {
      counts.push_back(absl::StrCat(count.ptx() ? "PTX " : "", count.target(),
                                    " ", count.images()));
    }
    return absl::StrCat("cuobjdump ", check.built().witness().version(), ": ",
                        absl::StrJoin(counts, ", "));
  }
  return RunText(check, name);
}

// What a step that did not hold said, the commands of --verbose left out.
std::string StepOutput(const v1::ToolchainStep& step) {
  std::string out;
  for (const v1::CapturedOutput* output : {&step.stdout(), &step.stderr()}) {
    v1::CapturedOutput shown = *output;
    std::vector<std::string> lines;
    for (const absl::string_view line : absl::StrSplit(
             output->tail().empty() ? output->head() : output->tail(), '\n')) {
      if (!absl::StartsWith(line, "#$ ")) lines.emplace_back(line);
    }
    shown.clear_tail();
    shown.set_head(absl::StrJoin(lines, "\n"));
    out += OutputTail(shown, kOutputLines, "      ");
  }
  return out;
}

}  // namespace

std::string RenderToolchainCheck(const v1::ToolchainCheck& check,
                                 const ViewOptions& options) {
  std::string title;
  if (!check.toolkit().path().empty()) {
    title = absl::StrCat(verdict::ToolkitText(check), ", ");
  }
  absl::StrAppend(&title,
                  check.gpu_uuid().empty()
                      ? (check.target().number() > 0
                             ? absl::StrCat("built for ", SassName(check))
                             : "no GPU")
                      : check.gpu_uuid());
  std::string out =
      absl::StrCat(Paint(Printable(title), Style::kBold, options.color), "\n");
  Table table({"  STEP", "RESULT", "TIME", "WHAT"});
  std::string said;
  for (const v1::ToolchainStep& step : check.steps()) {
    const bool failed = !step.reasons().empty();
    const bool skipped = !failed && step.ending() == v1::ENDING_SKIPPED;
    table.AddRow({absl::StrCat("  ", step.name()),
                  failed    ? TableCell("fails", Style::kBad)
                  : skipped ? TableCell("left out", Style::kDim)
                            : TableCell("holds", Style::kGood),
                  SecondsText(step.duration()), StepText(check, step)});
    if (!failed) continue;
    // The list of targets is in the reason.
    const std::string output = step.name() == "targets" && step.exit_code() == 0
                                   ? ""
                                   : StepOutput(step);
    if (!output.empty()) {
      absl::StrAppend(&said, "    ",
                      Paint(absl::StrCat(step.name(), " said:"), Style::kDim,
                            options.color),
                      "\n", output);
    }
    std::string of_run;
    for (const v1::Observation& run : check.runs()) {
      if (verdict::PathName(run.path()) != step.name() || run.jit_proof()) {
        continue;
      }
      for (const v1::CapturedOutput* text :
           {&run.stdout(), &run.stderr(), &run.driver_log()}) {
        of_run += OutputTail(*text, kOutputLines, "      ");
      }
    }
    if (!of_run.empty()) {
      absl::StrAppend(&said, "    ",
                      Paint(absl::StrCat(step.name(), " said:"), Style::kDim,
                            options.color),
                      "\n", of_run);
    }
  }
  absl::StrAppend(&out, table.Render(options.width, options.color), said);
  if (check.has_built()) {
    absl::StrAppend(&out, "  built file: SHA-256 ",
                    HexPrefix(check.built().digest()), "…, ",
                    HumanBytes(check.built().size_bytes()), "; tools:");
    for (const v1::StagedFile& tool : check.tools()) {
      absl::StrAppend(&out, " ", BaseName(tool.name()));
    }
    absl::StrAppend(&out, "\n");
  }
  return out;
}

std::string RenderToolchain(const v1::ToolchainOutput& output,
                            const ViewOptions& options) {
  std::string out;
  for (const v1::ToolchainCheck& check : output.checks()) {
    absl::StrAppend(&out, RenderToolchainCheck(check, options), "\n");
  }
  const v1::Verdict& verdict = output.verdict();
  absl::StrAppend(&out,
                  Paint(VerdictWord(verdict.kind()),
                        VerdictStyle(verdict.kind()), options.color),
                  "\n");
  // Notes say what was shown; they have no remedy.
  std::vector<v1::Reason> reasons;
  for (const v1::Reason& reason : verdict.reasons()) {
    if (compat::SeverityOf(reason) == v1::SEVERITY_NOTE) {
      absl::StrAppend(
          &out, "    ",
          Wrap(Printable(reason.detail()),
               static_cast<size_t>(std::max(options.width, 48)) - 4, 6),
          "\n");
    } else {
      reasons.push_back(reason);
    }
  }
  absl::StrAppend(&out, RenderReasonList(reasons, options));
  return out;
}

std::string ToolchainWord(const v1::Cell& cell) {
  if (cell.result().toolchain().empty()) return "unknown";
  std::string worst;
  for (const v1::ToolchainCheck& check : cell.result().toolchain()) {
    if (check.gpu_uuid() != cell.gpu_uuid()) continue;
    const verdict::PathEvaluation seen = verdict::EvaluateToolchain(check);
    const std::string nvcc =
        absl::StrCat("nvcc ", check.toolkit().nvcc_version());
    if (seen.status == verdict::PathStatus::kProven) {
      return absl::StrCat(nvcc, " ok");
    }
    const std::string code = seen.reasons.empty() ? "" : seen.reasons[0].code();
    std::string failed;
    for (const v1::ToolchainStep& step : check.steps()) {
      if (step.reasons().empty()) continue;
      failed = failed.empty() ? step.name() : "both paths";
    }
    worst = code == "TP131"   ? "no toolkit"
            : code == "TP110" ? absl::StrCat(nvcc, " lacks ", SassName(check))
            : failed == "both paths"
                ? "both paths fail"
                : absl::StrCat(failed.empty() ? "check" : failed, " fails");
  }
  return worst.empty() ? "unknown" : worst;
}

}  // namespace twinpath::cli
