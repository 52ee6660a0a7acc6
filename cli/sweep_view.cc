#include "cli/sweep_view.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/reason.h"
#include "base/text.h"
#include "cli/difference_view.h"
#include "cli/matrix.h"
#include "cli/reason_view.h"
#include "cli/table.h"
#include "compat/reason.h"

namespace twinpath::cli {
namespace {

// Lines of the statement shown under a matrix.
constexpr int kMaxStatementLines = 8;

// That there is no complete result, or no proof, follows from a reason that
// says why, and is not repeated beside it.
void DropBookkeeping(std::vector<v1::Reason>* reasons) {
  const auto is_bookkeeping = [](const v1::Reason& reason) {
    return reason.code() == "TP411" || reason.code() == "TP418" ||
           reason.code() == "TP421";
  };
  if (std::all_of(reasons->begin(), reasons->end(), is_bookkeeping)) return;
  reasons->erase(
      std::remove_if(reasons->begin(), reasons->end(), is_bookkeeping),
      reasons->end());
}

// Codes and details that cells' own verdicts say. Views into the sweep.
using Said =
    absl::flat_hash_set<std::pair<absl::string_view, absl::string_view>>;
Said SaidByCells(const v1::Sweep& sweep) {
  Said said;
  for (const v1::Cell& cell : sweep.cells()) {
    for (const v1::Reason& reason : cell.verdict().reasons()) {
      said.emplace(reason.code(), reason.detail());
    }
  }
  return said;
}

std::string CodeAndName(const v1::Reason& reason) {
  const ReasonInfo* info = FindReason(reason.code());
  return info == nullptr ? reason.code()
                         : absl::StrCat(reason.code(), " ", info->name);
}

}  // namespace

absl::string_view VerdictWord(v1::VerdictKind kind) {
  switch (kind) {
    case v1::VERDICT_KIND_PASS:
      return "pass";
    case v1::VERDICT_KIND_FAIL:
      return "fail";
    case v1::VERDICT_KIND_INCONCLUSIVE:
      return "inconclusive";
    case v1::VERDICT_KIND_STALE:
      return "stale";
    default:
      return "not judged";
  }
}

Style VerdictStyle(v1::VerdictKind kind) {
  switch (kind) {
    case v1::VERDICT_KIND_PASS:
      return Style::kGood;
    case v1::VERDICT_KIND_FAIL:
      return Style::kBad;
    default:
      return Style::kWarn;
  }
}

absl::string_view StateWord(v1::SweepState state) {
  switch (state) {
    case v1::SWEEP_STATE_RUNNING:
      return "running";
    case v1::SWEEP_STATE_DONE:
      return "done";
    case v1::SWEEP_STATE_DEADLINE:
      return "deadline";
    case v1::SWEEP_STATE_CANCELLED:
      return "cancelled";
    default:
      return "unknown";
  }
}

std::string RenderReasons(const v1::Sweep& sweep, const ViewOptions& options) {
  struct Group {
    v1::VerdictKind kind = v1::VERDICT_KIND_UNSPECIFIED;
    std::vector<PathReason> reasons;
    std::vector<std::string> entries;
    std::set<std::string> hosts;
    bool simulated_only = true;
  };
  const auto key_of = [](const Group& group) {
    std::string key = absl::StrCat(static_cast<int>(group.kind));
    for (const PathReason& reason : group.reasons) {
      absl::StrAppend(&key, "\n", reason.code, " ",
                      absl::StrJoin(reason.paths, ","));
    }
    return key;
  };
  // First by entry and reasons, then entries that agree in hosts and reasons.
  // The particulars differ from GPU to GPU and are collected.
  std::vector<Group> groups;
  std::map<std::string, size_t> index;
  for (const v1::Cell& cell : sweep.cells()) {
    Group group;
    group.kind = cell.verdict().kind();
    if (group.kind == v1::VERDICT_KIND_PASS ||
        group.kind == v1::VERDICT_KIND_UNSPECIFIED) {
      continue;
    }
    std::vector<v1::Reason> reasons;
    for (const v1::Reason& reason : cell.verdict().reasons()) {
      // That a host is simulated stands in its row, once.
      if (reason.code() == "TP414" || reason.code() == "TP420") continue;
      if (compat::SeverityOf(reason) == v1::SEVERITY_NOTE) continue;
      reasons.push_back(reason);
    }
    DropBookkeeping(&reasons);
    if (reasons.empty()) continue;
    group.reasons = ByPath(reasons);
    const std::string key = absl::StrCat(cell.entry(), "\n", key_of(group));
    const auto [at, is_new] = index.emplace(key, groups.size());
    if (is_new) {
      group.entries = {cell.entry()};
      groups.push_back(std::move(group));
    } else {
      AddParticulars(group.reasons, &groups[at->second].reasons);
    }
    groups[at->second].hosts.insert(cell.host_name());
    groups[at->second].simulated_only &= cell.simulated();
  }
  std::vector<Group> merged;
  std::map<std::string, size_t> merged_index;
  for (Group& group : groups) {
    const std::string key =
        absl::StrCat(absl::StrJoin(group.hosts, "\n"), "\n", key_of(group));
    const auto [at, is_new] = merged_index.emplace(key, merged.size());
    if (is_new) {
      merged.push_back(std::move(group));
    } else {
      merged[at->second].entries.push_back(group.entries[0]);
      AddParticulars(group.reasons, &merged[at->second].reasons);
    }
  }
  std::stable_sort(merged.begin(), merged.end(),
                   [](const Group& a, const Group& b) {
                     return (a.kind == v1::VERDICT_KIND_FAIL) >
                            (b.kind == v1::VERDICT_KIND_FAIL);
                   });
  std::string out;
  for (const Group& group : merged) {
    const std::string head =
        absl::StrCat(absl::StrJoin(group.entries, ", "), " on ",
                     GroupHosts({group.hosts.begin(), group.hosts.end()}, 8),
                     group.simulated_only ? " (simulated)" : "");
    absl::StrAppend(
        &out,
        Paint(VerdictWord(group.kind), VerdictStyle(group.kind), options.color),
        ": ", Wrap(Printable(head), static_cast<size_t>(options.width), 6),
        "\n", RenderPathReasons(group.reasons, options));
  }
  return out;
}

std::string RenderFindings(const v1::Sweep& sweep, const ViewOptions& options) {
  std::string out;
  const Said said = SaidByCells(sweep);
  for (const v1::Finding& finding : sweep.findings()) {
    // A cell's own reasons stand under the matrix already.
    if ((finding.scope() == v1::FINDING_SCOPE_CELL && !finding.mismatch()) ||
        said.contains(
            std::make_pair(absl::string_view(finding.reason().code()),
                           absl::string_view(finding.reason().detail())))) {
      continue;
    }
    if (finding.reason().code() == "TP411") continue;
    const Style style = finding.severity() == v1::SEVERITY_ERROR ? Style::kBad
                        : finding.severity() == v1::SEVERITY_WARNING
                            ? Style::kWarn
                            : Style::kDim;
    std::string where;
    if (!finding.hosts().empty()) {
      where = absl::StrCat(
          " on ",
          GroupHosts({finding.hosts().begin(), finding.hosts().end()}, 8));
    }
    if (!finding.entries().empty()) {
      absl::StrAppend(&where, " in ", absl::StrJoin(finding.entries(), ", "));
    }
    if (!finding.file().empty()) {
      absl::StrAppend(&where, " in file ", finding.file());
    }
    std::string line =
        absl::StrCat(CodeAndName(finding.reason()), Printable(where), ": ",
                     Printable(finding.reason().detail()));
    absl::StrAppend(&out,
                    Paint(finding.mismatch() ? "mismatch" : "finding", style,
                          options.color),
                    " ", Wrap(line, static_cast<size_t>(options.width), 4),
                    "\n");
    const std::string fix = compat::FixOf(finding.reason());
    if (!fix.empty()) {
      absl::StrAppend(&out, "    ",
                      Paint(Wrap(absl::StrCat("fix: ", Printable(fix)),
                                 static_cast<size_t>(options.width) - 4, 9),
                            Style::kDim, options.color),
                      "\n");
    }
  }
  if (!sweep.missing_hosts().empty()) {
    absl::StrAppend(
        &out, Paint("missing", Style::kWarn, options.color), " ",
        sweep.missing_hosts_size(),
        sweep.missing_hosts_size() == 1 ? " host" : " hosts",
        " gave no complete answer: ",
        GroupHosts({sweep.missing_hosts().begin(), sweep.missing_hosts().end()},
                   16),
        "\n");
  }
  return out;
}

std::string RenderVerdict(const v1::Sweep& sweep, const ViewOptions& options) {
  const size_t width = static_cast<size_t>(std::max(options.width, 40)) - 2;
  std::string out =
      absl::StrCat("verdict: ",
                   Paint(VerdictWord(sweep.verdict().kind()),
                         VerdictStyle(sweep.verdict().kind()), options.color),
                   "\n");
  const std::vector<absl::string_view> lines =
      absl::StrSplit(sweep.verdict().statement(), '\n', absl::SkipEmpty());
  const auto of_class = [](absl::string_view line) {
    return absl::StartsWith(line, "entry ");
  };
  const auto classes = std::count_if(lines.begin(), lines.end(), of_class);
  bool hidden = false;
  for (absl::string_view line : lines) {
    // The word stands above already.
    if (absl::StartsWith(line, "verdict: ")) continue;
    if (of_class(line) && !options.whole_statement &&
        classes > kMaxStatementLines) {
      if (!hidden) {
        absl::StrAppend(&out, "  ", classes,
                        " lines, one an entry and host class: twinpath gate ",
                        Printable(sweep.id()), "\n");
      }
      hidden = true;
      continue;
    }
    absl::StrAppend(&out, "  ", Wrap(Printable(line), width, 6), "\n");
  }
  // One line a code: the particulars stand above.
  std::map<std::string, std::pair<size_t, std::string>> codes;
  std::vector<std::string> order;
  for (const v1::Reason& reason : sweep.verdict().reasons()) {
    const auto [at, is_new] =
        codes.emplace(reason.code(), std::make_pair(size_t{0}, ""));
    if (is_new) {
      order.push_back(reason.code());
      at->second.second = reason.detail();
    }
    ++at->second.first;
  }
  if (!order.empty()) out += "reasons:\n";
  for (const std::string& code : order) {
    v1::Reason reason;
    reason.set_code(code);
    const auto& [count, detail] = codes[code];
    std::string line =
        absl::StrCat(CodeAndName(reason), ": ", Printable(detail));
    if (count > 1) absl::StrAppend(&line, " (and ", count - 1, " more)");
    absl::StrAppend(&out, "  ", Wrap(line, width, 6), "\n");
  }
  return out;
}

std::string RenderSweep(const v1::Sweep& sweep, const ViewOptions& options) {
  std::string digest;
  if (sweep.spec().release().artifact().digest().sha256().size() == 32) {
    digest = HexPrefix(sweep.spec().release().artifact().digest());
  }
  std::string out =
      absl::StrCat(Paint(absl::StrCat("sweep ", Printable(sweep.id())),
                         Style::kBold, options.color),
                   "  ", Printable(sweep.spec().name()), "  artifact ",
                   Printable(sweep.spec().release().artifact().name()),
                   digest.empty() ? "" : absl::StrCat(" ", digest), "  ",
                   StateWord(sweep.state()), "\n\n");
  absl::StrAppend(&out, RenderMatrix(sweep, options));
  for (const std::string& part :
       {RenderReasons(sweep, options), RenderFindings(sweep, options),
        RenderDifferences(sweep, options), RenderVerdict(sweep, options)}) {
    if (!part.empty()) absl::StrAppend(&out, "\n", part);
  }
  return out;
}

std::string ProgressLine(const v1::Sweep& sweep) {
  int done = 0;
  int pass = 0;
  int fail = 0;
  for (const v1::Cell& cell : sweep.cells()) {
    if (cell.state() == v1::CELL_STATE_DONE ||
        cell.state() == v1::CELL_STATE_ENDED) {
      ++done;
    }
    if (cell.verdict().kind() == v1::VERDICT_KIND_PASS) ++pass;
    if (cell.verdict().kind() == v1::VERDICT_KIND_FAIL) ++fail;
  }
  return absl::StrCat("cells ", done, "/", sweep.cells_size(), "  pass ", pass,
                      "  fail ", fail, "  other ", done - pass - fail);
}

}  // namespace twinpath::cli
