#include "cli/matrix.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/reason.h"
#include "base/text.h"
#include "cli/reason_view.h"
#include "cli/table.h"
#include "compat/reason.h"
#include "verdict/judge.h"
#include "verdict/path_status.h"

namespace twinpath::cli {
namespace {

// Groups of host names shown in one place.
constexpr size_t kMaxHostGroups = 4;
// Lines of the statement shown under a matrix.
constexpr int kMaxStatementLines = 8;

const v1::Entry* FindEntry(const v1::Sweep& sweep, absl::string_view name) {
  for (const v1::Entry& entry : sweep.spec().release().entries()) {
    if (entry.name() == name) return &entry;
  }
  return nullptr;
}

const v1::Observation* Observed(const v1::Cell& cell, v1::Path path) {
  for (const v1::Observation& observation : cell.result().observations()) {
    if (observation.path() == path && !observation.jit_proof()) {
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

// What makes two rows of the matrix the same.
struct RowKey {
  std::string gpu;
  std::string driver;
  bool simulated = false;
  std::vector<std::string> cells;
  friend auto operator<=>(const RowKey&, const RowKey&) = default;
};

struct Row {
  std::vector<std::string> hosts;
  size_t gpus = 0;
  std::vector<CellView> cells;
};

std::string GpuText(const v1::Cell& cell) {
  if (HasNoGpu(cell)) return "none";
  std::string out = cell.gpu_name();
  if (cell.has_compute_capability()) {
    absl::StrAppend(&out, " ", cell.compute_capability().major(), ".",
                    cell.compute_capability().minor());
  }
  return out;
}

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

// Whether a cell's own verdict says the same.
bool SaidByCell(const v1::Sweep& sweep, const v1::Finding& finding) {
  for (const v1::Cell& cell : sweep.cells()) {
    for (const v1::Reason& reason : cell.verdict().reasons()) {
      if (reason.code() == finding.reason().code() &&
          reason.detail() == finding.reason().detail()) {
        return true;
      }
    }
  }
  return false;
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

std::string RenderMatrix(const v1::Sweep& sweep, const ViewOptions& options) {
  std::vector<std::string> entries;
  for (const v1::Entry& entry : sweep.spec().release().entries()) {
    entries.push_back(entry.name());
  }
  if (sweep.cells().empty()) return "no cells: no host was selected\n";

  // (host, GPU) -> entry -> view, in the order of the message.
  struct Line {
    const v1::Cell* first = nullptr;
    std::map<std::string, CellView> views;
  };
  std::vector<std::pair<std::pair<std::string, std::string>, Line>> lines;
  std::map<std::pair<std::string, std::string>, size_t> index;
  for (const v1::Cell& cell : sweep.cells()) {
    const std::pair<std::string, std::string> key{cell.host_name(),
                                                  cell.gpu_uuid()};
    const auto [at, is_new] = index.emplace(key, lines.size());
    if (is_new) lines.push_back({key, Line{&cell, {}}});
    const v1::Entry* entry = FindEntry(sweep, cell.entry());
    if (entry == nullptr) continue;
    lines[at->second].second.views[cell.entry()] =
        ViewCell(cell, *entry, sweep.spec().policy());
  }
  std::vector<std::pair<RowKey, Row>> rows;
  std::map<RowKey, size_t> row_of;
  for (const auto& [host_gpu, line] : lines) {
    RowKey key{GpuText(*line.first),
               line.first->driver(),
               line.first->simulated(),
               {}};
    std::vector<CellView> views;
    for (const std::string& name : entries) {
      const auto found = line.views.find(name);
      views.push_back(found == line.views.end() ? CellView{"-", Style::kDim}
                                                : found->second);
      key.cells.push_back(views.back().text);
    }
    const auto [at, is_new] = row_of.emplace(key, rows.size());
    if (is_new) rows.push_back({key, Row{{}, 0, std::move(views)}});
    rows[at->second].second.hosts.push_back(host_gpu.first);
    ++rows[at->second].second.gpus;
  }

  std::vector<std::string> host_texts;
  std::vector<std::string> gpu_texts;
  size_t host_width = 4;
  size_t gpu_width = 3;
  size_t driver_width = 6;
  for (const auto& [key, row] : rows) {
    std::set<std::string> distinct(row.hosts.begin(), row.hosts.end());
    std::string host = GroupHosts(row.hosts, kMaxHostGroups);
    if (key.simulated) absl::StrAppend(&host, " (simulated)");
    std::string gpu = key.gpu;
    if (row.gpus > distinct.size()) {
      gpu = absl::StrCat(row.gpus, " x ", gpu);
    }
    host_width = std::max(host_width, DisplayWidth(host));
    gpu_width = std::max(gpu_width, DisplayWidth(Printable(gpu)));
    driver_width = std::max(driver_width, DisplayWidth(Printable(key.driver)));
    host_texts.push_back(std::move(host));
    gpu_texts.push_back(std::move(gpu));
  }
  host_width = std::min<size_t>(host_width, 44);

  const auto entry_width = [&](size_t e) {
    size_t width = DisplayWidth(entries[e]);
    for (const auto& [key, row] : rows) {
      width = std::max(width, DisplayWidth(row.cells[e].text));
    }
    return width;
  };
  std::string out;
  const size_t limit =
      options.width > 0 ? static_cast<size_t>(options.width) : SIZE_MAX;
  size_t begin = 0;
  while (begin < entries.size()) {
    // GPU and driver stand in the first block only.
    const bool first = begin == 0;
    size_t used = host_width + (first ? 4 + gpu_width + driver_width : 0);
    size_t end = begin;
    while (end < entries.size() &&
           (end == begin || used + 2 + entry_width(end) <= limit)) {
      used += 2 + entry_width(end);
      ++end;
    }
    std::vector<std::string> headers = {"HOST"};
    if (first) {
      headers.push_back("GPU");
      headers.push_back("DRIVER");
    }
    for (size_t e = begin; e < end; ++e) headers.push_back(entries[e]);
    Table table(std::move(headers));
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<TableCell> cells = {
          TableCell(Truncate(host_texts[i], host_width))};
      if (first) {
        cells.push_back(TableCell(gpu_texts[i]));
        cells.push_back(TableCell(
            rows[i].first.driver.empty() ? "none" : rows[i].first.driver));
      }
      for (size_t e = begin; e < end; ++e) {
        const CellView& view = rows[i].second.cells[e];
        cells.emplace_back(view.text, view.style);
      }
      table.AddRow(std::move(cells));
    }
    if (!first) out += '\n';
    absl::StrAppend(&out, table.Render(options.width, options.color));
    begin = end;
  }
  absl::StrAppend(&out, "\n",
                  Paint(Wrap("+ pass; x fail; ? inconclusive; ~ simulated, "
                             "never a pass; a number is a CUDA error; plain "
                             "stands where it is not ok; all: every path",
                             static_cast<size_t>(options.width), 0),
                        Style::kDim, options.color),
                  "\n");
  return out;
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
  for (const v1::Finding& finding : sweep.findings()) {
    // A cell's own reasons stand under the matrix already.
    if ((finding.scope() == v1::FINDING_SCOPE_CELL && !finding.mismatch()) ||
        SaidByCell(sweep, finding)) {
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
        RenderVerdict(sweep, options)}) {
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
