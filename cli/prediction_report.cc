#include "cli/prediction_report.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "cli/group_view.h"
#include "cli/prediction_view.h"
#include "cli/reach_view.h"
#include "cli/reason_view.h"
#include "cli/report_view.h"
#include "cli/table.h"
#include "compat/reason.h"
#include "verdict/path_status.h"

namespace twinpath::cli {
namespace {

// GitHub drops a step summary above 1,024 KiB whole.
constexpr size_t kMaxMarkdown = 1000 * 1024;
constexpr size_t kMaxHostGroups = 4;

enum class Result { kPass, kFail, kUnknown, kNotRequired };

bool Required(const ReportInput& input, v1::Path path) {
  const std::string name(verdict::PathName(path));
  return std::find(input.require.begin(), input.require.end(), name) !=
         input.require.end();
}

Result ResultOf(const ReportInput& input, const v1::PathPrediction& path) {
  const bool good =
      path.outcome() == v1::OUTCOME_NATIVE || path.outcome() == v1::OUTCOME_JIT;
  if (good) return Result::kPass;
  if (!Required(input, path.path())) return Result::kNotRequired;
  return path.outcome() == v1::OUTCOME_FAILS ? Result::kFail : Result::kUnknown;
}

std::string Hosts(const v1::HostGroup& group) {
  std::string names = GroupHosts(
      {group.host_names().begin(), group.host_names().end()}, kMaxHostGroups);
  return group.hosts() == 1 ? names
                            : absl::StrCat(group.hosts(), " hosts: ", names);
}

std::string Driver(const v1::HostGroup& group) {
  return absl::StrCat(group.driver_version(), " (CUDA ",
                      VersionText(group.cuda_version()), ")");
}

// Reasons and fixes of a path, a line each.
std::string Why(const v1::PathPrediction& path) {
  std::vector<std::string> lines;
  for (const v1::Reason& reason : path.reasons()) {
    lines.push_back(compat::DescribeReason(reason));
    const std::string fix = compat::FixOf(reason);
    if (!fix.empty()) lines.push_back(absl::StrCat("fix: ", Printable(fix)));
  }
  if (!path.settled_by().empty()) {
    lines.push_back(
        absl::StrCat("to settle it: ", Printable(path.settled_by())));
  }
  return absl::StrJoin(lines, "\n");
}

std::string Code(const v1::PathPrediction& path) {
  return path.reasons().empty() ? "" : path.reasons(0).code();
}

struct Counts {
  size_t tests = 0;
  size_t failures = 0;
  size_t errors = 0;
  size_t skipped = 0;
};

std::string CountText(const Counts& counts) {
  return absl::StrCat(" tests=\"", counts.tests, "\" failures=\"",
                      counts.failures, "\" errors=\"", counts.errors,
                      "\" skipped=\"", counts.skipped, "\" time=\"0\"");
}

std::string Property(absl::string_view name, const std::string& value) {
  return absl::StrCat("      <property name=\"", name, "\" value=\"",
                      XmlText(value), "\"/>\n");
}

// The cases of a group; adds to `counts`.
std::string CasesOf(const ReportInput& input, const v1::HostGroup& group,
                    Counts* counts) {
  std::string out;
  const std::string gpu =
      group.has_compute_capability()
          ? absl::StrCat("sm_", group.compute_capability().major(),
                         group.compute_capability().minor())
          : "no-gpu";
  const auto start = [&](const std::string& path) {
    ++counts->tests;
    absl::StrAppend(&out, "    <testcase classname=\"", XmlText(input.subject),
                    "\" name=\"", gpu, "/", path, "\" time=\"0\"");
  };
  if (group.paths().empty()) {
    start("plain");
    ++counts->errors;
    std::vector<std::string> lines;
    for (const v1::Reason& reason : group.problems()) {
      lines.push_back(compat::DescribeReason(reason));
    }
    absl::StrAppend(
        &out, ">\n      <error type=\"",
        group.problems().empty() ? "TP106" : group.problems(0).code(),
        "\" message=\"no GPU to predict for\">",
        XmlText(absl::StrJoin(lines, "\n")), "</error>\n    </testcase>\n");
    return out;
  }
  for (const v1::PathPrediction& path : group.paths()) {
    start(std::string(verdict::PathName(path.path())));
    const std::string word = OutcomeText(path);
    switch (ResultOf(input, path)) {
      case Result::kPass:
        absl::StrAppend(&out, "/>\n");
        break;
      case Result::kFail:
      case Result::kUnknown: {
        const bool fail = ResultOf(input, path) == Result::kFail;
        ++(fail ? counts->failures : counts->errors);
        const absl::string_view tag = fail ? "failure" : "error";
        absl::StrAppend(&out, ">\n      <", tag, " type=\"", Code(path),
                        "\" message=\"", XmlText(word), "\">",
                        XmlText(Why(path)), "</", tag, ">\n    </testcase>\n");
        break;
      }
      case Result::kNotRequired:
        ++counts->skipped;
        absl::StrAppend(&out, ">\n      <skipped message=\"",
                        XmlText(absl::StrCat(word, ", not required")),
                        "\"/>\n    </testcase>\n");
        break;
    }
  }
  return out;
}

// A cell of a Markdown table.
std::string Cell(absl::string_view text) {
  return absl::StrReplaceAll(
      Printable(text), {{"|", "\\|"}, {"\n", " "}, {"<", "&lt;"}, {"`", "'"}});
}

// Text of a list item or a paragraph.
std::string Plain(absl::string_view text) {
  return absl::StrReplaceAll(Printable(text), {{"<", "&lt;"}, {"\n", " "}});
}

std::string Verdict(const ReportInput& input) {
  bool fails = false;
  bool unknown = false;
  uint32_t bad = 0;
  uint32_t all = 0;
  for (const v1::HostGroup& group : input.groups) {
    bool group_bad = group.paths().empty();
    unknown |= group.paths().empty();
    for (const v1::PathPrediction& path : group.paths()) {
      const Result result = ResultOf(input, path);
      fails |= result == Result::kFail;
      unknown |= result == Result::kUnknown;
      group_bad |= result == Result::kFail || result == Result::kUnknown;
    }
    all += group.gpus();
    if (group_bad) bad += group.gpus();
  }
  if (input.groups.empty()) return "reach";
  if (!fails && !unknown) {
    return absl::StrCat("runs on all ", all, " GPUs");
  }
  return absl::StrCat(fails ? "fails" : "not known", " on ", bad, " of ", all,
                      " GPUs");
}

}  // namespace

std::string XmlText(absl::string_view text) {
  std::string out;
  // Lines stay lines.
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    lines.push_back(Printable(line));
  }
  for (const char c : absl::StrJoin(lines, "\n")) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? '?' : c;
    }
  }
  return out;
}

std::string RenderJunit(const ReportInput& input) {
  Counts all;
  std::string suites;
  for (const v1::HostGroup& group : input.groups) {
    Counts counts;
    const std::string cases = CasesOf(input, group, &counts);
    absl::StrAppend(
        &suites, "  <testsuite name=\"",
        XmlText(absl::StrCat(GpuText(group), ", driver ", Driver(group))), "\"",
        CountText(counts), ">\n    <properties>\n",
        Property("hosts", Hosts(group)),
        Property("gpus", absl::StrCat(group.gpus())),
        Property("cpu", std::string(CpuText(group.cpu_architecture()))),
        Property("driver", Driver(group)), "    </properties>\n", cases,
        "  </testsuite>\n");
    all.tests += counts.tests;
    all.failures += counts.failures;
    all.errors += counts.errors;
    all.skipped += counts.skipped;
  }
  return absl::StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
                      "<testsuites name=\"twinpath predict\"", CountText(all),
                      ">\n", suites, "</testsuites>\n");
}

std::string RenderMarkdown(const ReportInput& input) {
  std::string out = absl::StrCat("### twinpath predict ", Plain(input.subject),
                                 ": ", Verdict(input), "\n\n");
  if (!input.groups.empty()) {
    absl::StrAppend(&out,
                    "| hosts | GPU | driver | native | ptx-jit | plain |\n"
                    "|---|---|---|---|---|---|\n");
  }
  std::string details;
  size_t left_out = 0;
  for (const v1::HostGroup& group : input.groups) {
    std::string row =
        absl::StrCat("| ", Cell(Hosts(group)), " | ", Cell(GpuText(group)),
                     " | ", Cell(Driver(group)), " |");
    for (int i = 0; i < 3; ++i) {
      const bool known = i < group.paths_size();
      const bool bad =
          known && (ResultOf(input, group.paths(i)) == Result::kFail);
      absl::StrAppend(&row, " ", bad ? "**" : "",
                      known ? OutcomeText(group.paths(i)) : "unknown",
                      bad ? "**" : "", " |");
    }
    row += '\n';
    if (out.size() + row.size() > kMaxMarkdown / 2) {
      ++left_out;
      continue;
    }
    out += row;
    for (const v1::PathPrediction& path : group.paths()) {
      const Result result = ResultOf(input, path);
      if (result == Result::kPass) continue;
      const std::string item = absl::StrCat(
          "- ", Plain(GpuText(group)), ", ", Plain(Driver(group)), ", ",
          std::string(verdict::PathName(path.path())), ": ",
          Plain(absl::StrReplaceAll(Why(path), {{"\n", "; "}})), "\n");
      if (details.size() + item.size() < kMaxMarkdown / 4) details += item;
    }
  }
  if (left_out > 0) {
    absl::StrAppend(&out, "\n", left_out, " more groups are left out here.\n");
  }
  if (!details.empty()) {
    absl::StrAppend(&out, "\n<details><summary>Reasons and fixes</summary>\n\n",
                    details, "\n</details>\n");
  }
  const ViewOptions view{100000, false, false};
  GroupViewOptions group_view;
  group_view.width = view.width;
  for (const v1::Advice& advice : input.advice) {
    absl::StrAppend(&out, "\n#### What would fix it\n\n```\n",
                    RenderAdvice(advice, v1::Floor(), view), "```\n");
  }
  if (input.reach != nullptr) {
    absl::StrAppend(&out, "\n#### Floor\n\n```\n",
                    RenderFloor(*input.reach, view), "```\n");
    for (const v1::Reason& finding : input.reach->findings()) {
      absl::StrAppend(&out, "- ", Plain(compat::DescribeReason(finding)), "\n");
    }
    absl::StrAppend(&out,
                    "\n| GPU | driver | native | ptx-jit | plain |\n"
                    "|---|---|---|---|---|\n");
    for (const v1::GpuReach& gpu : input.reach->gpus()) {
      for (const v1::ReachCell& cell : gpu.cells()) {
        absl::StrAppend(&out, "| ", VersionText(gpu.compute_capability()), " ",
                        Cell(gpu.products_size() > 0 ? gpu.products(0) : ""),
                        " | ", PointText(cell.first()), " to ",
                        PointText(cell.last()), " |");
        for (const v1::PathPrediction& path : cell.paths()) {
          absl::StrAppend(&out, " ", OutcomeText(path), " |");
        }
        out += '\n';
      }
    }
  }
  if (!input.changes.empty()) {
    uint32_t hosts = 0;
    for (const v1::HostGroup& group : input.groups) hosts += group.hosts();
    absl::StrAppend(
        &out, "\n#### What changes\n\n```\n",
        RenderChanges(input.changes, input.changed_hosts, hosts, group_view),
        "```\n");
  }
  if (out.size() > kMaxMarkdown) {
    out.resize(kMaxMarkdown);
    out += "\n(cut)\n";
  }
  return out;
}

}  // namespace twinpath::cli
