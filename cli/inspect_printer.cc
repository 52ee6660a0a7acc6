#include "cli/inspect_printer.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "cli/code_view.h"
#include "cli/coverage_view.h"
#include "cli/reason_view.h"
#include "cli/report_view.h"
#include "cli/table.h"
#include "cli/witness_view.h"
#include "compat/reason.h"
#include "inspect/child.h"

namespace twinpath::cli {
namespace {

// Rows of a folder's or carrier's table; a screenful.
constexpr size_t kMaxRows = 40;
// Files named of those that lack an expected target each of them should have.
constexpr size_t kMaxLacking = 10;

}  // namespace

std::vector<v1::Reason> Unexpected(const InspectGroup& group) {
  std::vector<v1::Reason> reasons;
  const std::string text = group.expected.Describe(group.input.path);
  if (!text.empty()) reasons.push_back(compat::MakeReason("TP238", text));
  const size_t named = std::min(group.lacking.size(), kMaxLacking);
  reasons.insert(reasons.end(), group.lacking.begin(),
                 group.lacking.begin() + static_cast<std::ptrdiff_t>(named));
  // Without any code there is no file that could lack it.
  if (group.lacking.empty() && !group.each.empty()) {
    const std::string each = group.each.Describe(group.input.path);
    if (!each.empty()) reasons.push_back(compat::MakeReason("TP238", each));
  }
  return reasons;
}

void InspectPrinter::Separate() {
  if (printed_) console_.Print("\n");
  printed_ = true;
}

void InspectPrinter::PrintExpected(const InspectGroup& group) {
  const std::vector<v1::Reason> reasons = Unexpected(group);
  const size_t more =
      group.lacking.size() - std::min(group.lacking.size(), kMaxLacking);
  if (console_.json()) {
    for (const v1::Reason& reason : reasons) {
      console_.Error(compat::DescribeReason(reason));
    }
    return;
  }
  const auto counts = [this](absl::string_view label,
                             const ExpectedTargets& targets) {
    if (targets.empty()) return;
    console_.Print(absl::StrCat("  ", Paint(label, Style::kDim, view_.color),
                                targets.Counts(), "\n"));
  };
  counts("expected  ", group.expected);
  counts("in each   ", group.each);
  console_.Print(RenderReasonList(reasons, view_));
  if (more > 0) console_.Print(absl::StrCat("    and ", more, " more files\n"));
}

std::string InspectPrinter::Lists(const v1::FileReport& report) {
  std::string text;
  if (plan_.list_images) text = RenderImages(report, plan_.filter, view_);
  if (plan_.list_kernels) {
    absl::StrAppend(&text, RenderKernels(report, plan_.filter, view_));
    if (!plan_.filter.targets.empty()) {
      absl::StrAppend(&text,
                      RenderKernelGaps(inspect::CoverKernels({&report}),
                                       plan_.filter.targets, plan_.tables,
                                       plan_.match.get(), view_));
    }
  }
  any_listed_ |= !text.empty();
  return text;
}

void InspectPrinter::PrintMember(const v1::FileReport& report) {
  if (options_.members) {
    Separate();
    console_.Print(RenderFileSummary(report, view_, plan_.filter.targets));
    console_.Print(RenderWitness(report, view_));
    console_.Print(Lists(report));
    return;
  }
  const std::string lists = RenderWitnessTrouble(report, view_) + Lists(report);
  if (lists.empty()) return;
  Separate();
  console_.Print(
      absl::StrCat(Paint(Printable(report.name()), Style::kBold, view_.color),
                   ":\n", lists));
}

void InspectPrinter::PrintFile(const InspectGroup& group,
                               const std::vector<v1::FileReport>& reports) {
  const v1::FileReport& own = reports.front();
  Separate();
  console_.Print(RenderFileSummary(own, view_, plan_.filter.targets));
  console_.Print(RenderWitness(own, view_));
  if (own.has_carrier()) {
    console_.Print(absl::StrCat(
        "  ", Paint("code      ", Style::kDim, view_.color),
        group.files.Counts(), "\n", group.files.Render(view_, kMaxRows)));
    console_.Print(group.coverage.Render(view_));
    // A program with an archive behind it has code of its own.
    if (!own.fatbins().empty()) console_.Print(Lists(own));
  } else {
    console_.Print(
        RenderCoverage(own, plan_.filter.targets, plan_.tables, view_));
    console_.Print(Lists(own));
  }
  PrintExpected(group);
  for (size_t i = 1; i < reports.size(); ++i) PrintMember(reports[i]);
}

void InspectPrinter::PrintFolder(const InspectGroup& group) {
  Separate();
  console_.Print(absl::StrCat(
      Paint(Printable(group.input.path), Style::kBold, view_.color),
      ": folder, ", group.input.count,
      group.input.count == 1 ? " file\n" : " files\n", "  ",
      Paint("code      ", Style::kDim, view_.color), group.files.Counts(),
      "\n"));
  console_.Print(group.files.Render(view_, kMaxRows));
  console_.Print(group.coverage.Render(view_));
  console_.Print(RenderReasonList(group.input.problems, view_));
  PrintExpected(group);
}

void InspectPrinter::PrintConfinement(const v1::Confinement& confinement) {
  if (options_.details && !console_.json()) {
    Separate();
    console_.Print(
        absl::StrCat(Paint("read by a process with ", Style::kDim, view_.color),
                     inspect::DescribeConfinement(confinement), "\n"));
  }
  if (confinement.missing_size() > 0) {
    console_.Warn(compat::DescribeReason(compat::MakeReason(
        "TP244", absl::StrJoin(confinement.missing(), "; "))));
  }
}

}  // namespace twinpath::cli
