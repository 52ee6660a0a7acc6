// twinpath inspect: what device code a file holds.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/exit_code.h"
#include "base/status.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/report_view.h"
#include "compat/reason.h"
#include "inspect/child.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::cli {
namespace {

// Files of these kinds cannot hold device code as they are.
bool IsForeign(const v1::FileReport& report) {
  return report.kind() == v1::FILE_KIND_TEXT ||
         report.kind() == v1::FILE_KIND_OTHER ||
         report.kind() == v1::FILE_KIND_ARCHIVE;
}

}  // namespace

int RunInspect(const InspectOptionsCli& options, Console& console) {
  inspect::InspectOptions how;
  how.kernels = !options.no_kernels;
  if (options.kernels && options.no_kernels) {
    console.Error("--kernels and --no-kernels exclude each other");
    return kExitUsage;
  }
  const ViewOptions view{console.width(), console.color()};
  v1::ArtifactReport all;
  all.set_inspector_version(std::string(kVersion));
  int worst = kExitPass;
  bool any_code = false;
  const auto raise = [&worst](int code) {
    // Input errors before damage before incompleteness.
    const auto rank = [](int c) {
      return c == kExitPass           ? 0
             : c == kExitInconclusive ? 1
             : c == kExitFail         ? 2
                                      : 3;
    };
    if (rank(code) > rank(worst)) worst = code;
  };
  for (const std::string& path : options.files) {
    Progress progress(console);
    progress.Show(absl::StrCat("reading ", path));
    absl::StatusOr<v1::FileReport> report =
        inspect::InspectInChild(path, path, how);
    if (!report.ok()) {
      raise(console.Fail(
          report.status(),
          absl::StrContains(report.status().message(), "is a folder")
              ? "give the files in it one by one"
              : ""));
      continue;
    }
    for (const v1::Fatbin& fatbin : report->fatbins()) {
      any_code |= !fatbin.images().empty();
      for (const v1::Image& image : fatbin.images()) {
        // A payload that could not be read may hold anything or nothing.
        if (!image.problem().empty()) raise(kExitInconclusive);
      }
    }
    for (const v1::Reason& problem : report->problems()) {
      const v1::Severity severity = compat::SeverityOf(problem);
      if (severity == v1::SEVERITY_ERROR) raise(kExitFail);
      if (severity == v1::SEVERITY_WARNING) raise(kExitInconclusive);
    }
    if (report->fatbins().empty() && IsForeign(*report)) {
      console.Error(absl::StrCat(
          Printable(path),
          ": not an ELF, fatbin, cubin or PTX file: it "
          "is ",
          report->size_bytes() == 0                 ? "empty"
          : report->kind() == v1::FILE_KIND_ARCHIVE ? "an "
                                                    : "",
          report->size_bytes() == 0 ? "" : FileKindText(report->kind())));
      raise(kExitUsage);
    }
    if (!console.json()) {
      if (all.files_size() > 0) console.Print("\n");
      console.Print(RenderFileSummary(*report, view));
      if (options.kernels) console.Print(RenderKernels(*report, view));
      if (options.images) console.Print(RenderImages(*report, view));
    }
    *all.add_files() = *std::move(report);
  }
  if (console.json()) console.PrintJson(all);
  if (worst == kExitPass && !any_code) {
    // An empty listing is no success: whoever inspects wants device code.
    console.Warn("no device code in any of the files");
    return kExitFail;
  }
  return worst;
}

}  // namespace twinpath::cli
