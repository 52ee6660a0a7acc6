#include "cli/group_view.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "cli/prediction_view.h"
#include "cli/reach_view.h"
#include "cli/reason_view.h"
#include "cli/report_view.h"
#include "cli/table.h"
#include "compat/host_answer.h"
#include "compat/host_groups.h"
#include "compat/reason.h"
#include "verdict/path_status.h"

namespace twinpath::cli {
namespace {

constexpr v1::Path kPaths[] = {v1::PATH_NATIVE, v1::PATH_PTX_JIT,
                               v1::PATH_PLAIN};
// Groups of host names shown in one place.
constexpr size_t kMaxHostGroups = 4;
// Columns of host names that are enough to know a group by.
constexpr size_t kMinHosts = 24;
// Columns in front of an answer in lines.
constexpr size_t kIndent = 11;

bool IsGreen(const v1::PathPrediction& path) {
  const Style style = OutcomeStyle(path);
  return style == Style::kGood || style == Style::kDim;
}

std::string Driver(const v1::HostGroup& group) {
  std::string out = Printable(group.driver_version());
  if (group.has_cuda_version() && group.cuda_version().major() > 0) {
    absl::StrAppend(&out, out.empty() ? "" : " ", "(CUDA ",
                    VersionText(group.cuda_version()), ")");
  }
  return out.empty() ? "none" : out;
}

std::string Names(const v1::HostGroup& group) {
  std::string names = GroupHosts(
      {group.host_names().begin(), group.host_names().end()}, kMaxHostGroups);
  if (group.hosts() > static_cast<uint32_t>(group.host_names_size())) {
    absl::StrAppend(
        &names, " and ",
        group.hosts() - static_cast<uint32_t>(group.host_names_size()),
        " more");
  }
  return Printable(names);
}

// "3 hosts, 24 GPUs: n[1-3]", "h200, 8 GPUs".
std::string Hosts(const v1::HostGroup& group) {
  std::string out =
      group.hosts() == 1 ? Names(group) : absl::StrCat(group.hosts(), " hosts");
  if (group.gpus() > group.hosts()) {
    absl::StrAppend(&out, ", ", group.gpus(), " GPUs");
  }
  if (group.hosts() != 1) absl::StrAppend(&out, ": ", Names(group));
  return out;
}

// What a green answer rests on without showing in the file's list of final
// images: relocatable code that the driver links at load.
bool SaysWhatItRestsOn(const v1::Reason& reason) {
  return reason.code() == "TP216" || reason.code() == "TP217";
}

// Reasons worth showing: those that explain what is not green.
std::vector<v1::Reason> Shown(const v1::PathPrediction& path, bool details) {
  std::vector<v1::Reason> out;
  for (const v1::Reason& reason : path.reasons()) {
    if (details || SaysWhatItRestsOn(reason) ||
        (!IsGreen(path) && compat::SeverityOf(reason) != v1::SEVERITY_NOTE)) {
      out.push_back(reason);
    }
  }
  return out;
}

// A word in its colour and a text behind it, wrapped below the word.
std::string WordAndText(const std::string& word, Style style,
                        const std::string& text, const ViewOptions& options) {
  std::string wrapped =
      Wrap(absl::StrCat(std::string(kIndent, '.'), word, "  ", text),
           static_cast<size_t>(options.width), kIndent);
  return absl::StrCat(Paint(word, style, options.color),
                      wrapped.substr(kIndent + word.size()));
}

std::string Indented(const std::string& text, const ViewOptions& options) {
  return absl::StrCat(std::string(kIndent, ' '),
                      Wrap(text, static_cast<size_t>(options.width), kIndent),
                      "\n");
}

// "  native   fails 223 TP205 jit-disabled: ...".
void AppendPath(const v1::HostGroup& group, int at,
                const GroupViewOptions& options,
                std::map<std::string, std::string>* seen, std::string* out) {
  const v1::PathPrediction& path = group.paths(at);
  const std::string name(verdict::PathName(path.path()));
  std::vector<v1::Reason> reasons = Shown(path, options.details);
  size_t hidden = 0;
  if (!options.details && reasons.size() > 1) {
    // The first decides.
    const auto others = std::remove_if(
        reasons.begin() + 1, reasons.end(),
        [](const v1::Reason& reason) { return !SaysWhatItRestsOn(reason); });
    hidden = static_cast<size_t>(reasons.end() - others);
    reasons.erase(others, reasons.end());
  }
  std::string first;
  if (!reasons.empty()) {
    const std::string text = compat::DescribeReason(reasons[0]);
    const auto [known, is_new] = seen->emplace(text, name);
    first = is_new ? text : absl::StrCat("as ", known->second);
    if (!is_new) hidden = 0;
  }
  absl::StrAppend(
      out, "  ", name, std::string(kIndent - 2 - name.size(), ' '),
      WordAndText(OutcomeText(path), OutcomeStyle(path), first, options), "\n");
  for (size_t i = 1; i < reasons.size(); ++i) {
    *out += Indented(compat::DescribeReason(reasons[i]), options);
  }
  std::vector<std::string> fixes;
  for (const v1::Reason& reason : reasons) {
    if (IsGreen(path)) break;
    const std::string fix = compat::FixOf(reason);
    if (fix.empty() ||
        std::find(fixes.begin(), fixes.end(), fix) != fixes.end()) {
      continue;
    }
    fixes.push_back(fix);
    if (!seen->emplace(absl::StrCat("fix: ", fix), name).second) continue;
    absl::StrAppend(
        out, Paint(Indented(absl::StrCat("fix: ", Printable(fix)), options),
                   Style::kDim, options.color));
  }
  if (!path.settled_by().empty() &&
      seen->emplace(absl::StrCat("settle: ", path.settled_by()), name).second) {
    *out += Indented(
        absl::StrCat("to settle it: ", Printable(path.settled_by())), options);
  }
  if (hidden > 0) {
    *out += Paint(
        Indented(absl::StrCat("and ", hidden, " more: --details"), options),
        Style::kDim, options.color);
  }
}

std::string Lines(const v1::HostGroup& group, const GroupViewOptions& options) {
  std::string head = absl::StrCat(Hosts(group), ": ", GpuText(group), ", ",
                                  CpuText(group.cpu_architecture()),
                                  ", driver ", Driver(group));
  std::string out =
      absl::StrCat(Wrap(head, static_cast<size_t>(options.width), 2), "\n");
  if (group.mixed() && !group.gpu_uuids().empty()) {
    const int shown = std::min(group.gpu_uuids_size(), 4);
    std::vector<std::string> uuids(group.gpu_uuids().begin(),
                                   group.gpu_uuids().begin() + shown);
    absl::StrAppend(&out, "  ", Printable(absl::StrJoin(uuids, ", ")),
                    group.gpu_uuids_size() > shown ? ", ..." : "", "\n");
  }
  if (group.paths().empty()) {
    absl::StrAppend(&out, "  ", Paint("unknown", Style::kWarn, options.color),
                    "\n");
    for (const v1::Reason& reason : group.problems()) {
      out += Indented(compat::DescribeReason(reason), options);
      const std::string fix = compat::FixOf(reason);
      if (!fix.empty()) out += Indented(absl::StrCat("fix: ", fix), options);
    }
    return out;
  }
  std::map<std::string, std::string> seen;
  for (int i = 0; i < group.paths_size(); ++i) {
    AppendPath(group, i, options, &seen, &out);
  }
  return out;
}

// One reason of one group and the paths that have it.
struct Note {
  std::string text;
  std::string fix;
  std::vector<std::string> paths;
  Style style = Style::kPlain;
};

void AddNote(std::string text, std::string fix, const std::string& path,
             Style style, std::vector<Note>* notes) {
  for (Note& note : *notes) {
    if (note.text == text) {
      note.paths.push_back(path);
      return;
    }
  }
  std::vector<std::string> paths;
  if (!path.empty()) paths.push_back(path);
  notes->push_back(
      Note{std::move(text), std::move(fix), std::move(paths), style});
}

std::vector<Note> NotesOf(const v1::HostGroup& group, bool details) {
  std::vector<Note> notes;
  for (const v1::Reason& reason : group.problems()) {
    AddNote(compat::DescribeReason(reason), compat::FixOf(reason), "",
            Style::kWarn, &notes);
  }
  for (const v1::PathPrediction& path : group.paths()) {
    const std::string name(verdict::PathName(path.path()));
    for (const v1::Reason& reason : Shown(path, details)) {
      AddNote(compat::DescribeReason(reason),
              IsGreen(path) ? "" : compat::FixOf(reason), name,
              OutcomeStyle(path), &notes);
    }
    if (!path.settled_by().empty()) {
      AddNote(absl::StrCat("to settle it: ", Printable(path.settled_by())), "",
              name, OutcomeStyle(path), &notes);
    }
  }
  return notes;
}

void AddNotes(const std::vector<Note>& notes, Table* table) {
  for (const Note& note : notes) {
    table->AddNote(absl::StrCat(absl::StrJoin(note.paths, ", "),
                                note.paths.empty() ? "" : ": ", note.text),
                   note.style);
  }
  std::vector<std::string> fixes;
  for (const Note& note : notes) {
    if (note.fix.empty() ||
        std::find(fixes.begin(), fixes.end(), note.fix) != fixes.end()) {
      continue;
    }
    fixes.push_back(note.fix);
    table->AddNote(absl::StrCat("fix: ", note.fix), Style::kDim);
  }
}

std::vector<TableCell> CellsOf(const v1::HostGroup& group) {
  std::vector<TableCell> cells = {
      Hosts(group), GpuText(group),
      std::string(CpuText(group.cpu_architecture())), Driver(group)};
  for (int i = 0; i < 3; ++i) {
    if (i < group.paths_size()) {
      cells.emplace_back(OutcomeText(group.paths(i)),
                         OutcomeStyle(group.paths(i)));
    } else {
      cells.emplace_back("unknown", Style::kWarn);
    }
  }
  return cells;
}

bool HasGaps(const std::vector<v1::HostGroup>& groups) {
  for (const v1::HostGroup& group : groups) {
    for (const v1::PathPrediction& path : group.paths()) {
      if (path.gaps() > 0) return true;
    }
  }
  return false;
}

std::string GapLegend(const ViewOptions& options) {
  return absl::StrCat(
      "\n",
      Paint(Wrap("gap: a fatbin with nothing for this GPU on this path; it "
                 "matters where the program launches its kernels",
                 static_cast<size_t>(options.width), 0),
            Style::kDim, options.color),
      "\n");
}

std::string Signed(uint32_t number, absl::string_view what) {
  return absl::StrCat("+", number, " ", what, number == 1 ? "" : "s");
}

}  // namespace

std::string GpuText(const v1::HostGroup& group) {
  if (!group.has_compute_capability()) return "none";
  return absl::StrCat(Printable(group.gpu_name()), " ",
                      VersionText(group.compute_capability()));
}

std::vector<v1::HostGroup> GroupsOf(const v1::PredictOutput& output) {
  std::vector<v1::HostGroup> groups;
  for (const v1::HostPrediction& host : output.hosts()) {
    const size_t first = groups.size();
    const auto start = [&] {
      v1::HostGroup& group = groups.emplace_back();
      group.set_hosts(1);
      group.add_host_names(compat::HostName(host.facts()));
      group.set_cpu_architecture(host.facts().cpu_architecture());
      const v1::Driver& driver = host.facts().driver();
      group.set_driver_version(driver.kernel_module_version().empty()
                                   ? driver.libcuda_version()
                                   : driver.kernel_module_version());
      if (driver.has_cuda_version()) {
        *group.mutable_cuda_version() = driver.cuda_version();
      }
      return &group;
    };
    if (host.predictions().empty()) {
      *start()->mutable_problems() = host.problems();
      continue;
    }
    for (const v1::Prediction& prediction : host.predictions()) {
      v1::HostGroup* same = nullptr;
      for (size_t i = first; i < groups.size() && same == nullptr; ++i) {
        bool equal = groups[i].gpu_name() == prediction.gpu_name() &&
                     groups[i].paths_size() == prediction.paths_size();
        for (int p = 0; equal && p < prediction.paths_size(); ++p) {
          equal = groups[i].paths(p).SerializeAsString() ==
                  prediction.paths(p).SerializeAsString();
        }
        if (equal) same = &groups[i];
      }
      if (same == nullptr) {
        same = start();
        same->set_gpu_name(prediction.gpu_name());
        *same->mutable_compute_capability() = prediction.compute_capability();
        *same->mutable_paths() = prediction.paths();
      }
      same->set_gpus(same->gpus() + 1);
      same->add_gpu_uuids(prediction.gpu_uuid());
    }
    for (size_t i = first; i < groups.size(); ++i) {
      groups[i].set_mixed(groups.size() > first + 1);
    }
  }
  return groups;
}

void SortForPeople(std::vector<v1::HostGroup>* groups) {
  const auto badness = [](const v1::HostGroup& group) {
    // Without a GPU nothing is known.
    return group.paths_size() < 3 ? compat::Badness(v1::OUTCOME_UNKNOWN)
                                  : compat::Badness(group.paths(2).outcome());
  };
  std::stable_sort(groups->begin(), groups->end(),
                   [&](const v1::HostGroup& a, const v1::HostGroup& b) {
                     return std::pair(badness(a), a.hosts()) >
                            std::pair(badness(b), b.hosts());
                   });
}

std::string RenderGroups(const std::vector<v1::HostGroup>& groups,
                         const GroupViewOptions& options) {
  const std::string legend = HasGaps(groups) ? GapLegend(options) : "";
  std::vector<std::string> headers = {"HOST",   "GPU",     "CPU",  "DRIVER",
                                      "native", "ptx-jit", "plain"};
  std::vector<size_t> widths;
  for (const std::string& header : headers) widths.push_back(header.size());
  std::vector<std::vector<TableCell>> rows;
  for (const v1::HostGroup& group : groups) {
    rows.push_back(CellsOf(group));
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(rows.back()[i].text));
    }
  }
  size_t others = 2 * (widths.size() - 1);
  for (size_t i = 1; i < widths.size(); ++i) others += widths[i];
  const size_t limit =
      options.width > 0 ? static_cast<size_t>(options.width) : SIZE_MAX;
  // Names of hosts may be cut; nothing else.
  if (groups.size() > 1 && others + std::min(widths[0], kMinHosts) <= limit) {
    Table table(std::move(headers));
    for (size_t i = 0; i < groups.size(); ++i) {
      rows[i][0].text = Truncate(rows[i][0].text, limit - others);
      table.AddRow(std::move(rows[i]));
      AddNotes(NotesOf(groups[i], options.details), &table);
    }
    return absl::StrCat(table.Render(options.width, options.color), legend);
  }
  std::string out;
  for (const v1::HostGroup& group : groups) {
    absl::StrAppend(&out, out.empty() ? "" : "\n", Lines(group, options));
  }
  return absl::StrCat(out, legend);
}

std::string RenderChanges(const std::vector<v1::AssumedChange>& changes,
                          uint32_t changed, uint32_t hosts,
                          const GroupViewOptions& options) {
  std::string out;
  for (const v1::AssumedChange& change : changes) {
    const v1::HostGroup& group = change.before();
    absl::StrAppend(&out,
                    Wrap(absl::StrCat(Hosts(group), ": ", GpuText(group),
                                      ", driver ", Driver(group)),
                         static_cast<size_t>(options.width), 2),
                    "\n");
    for (int i = 0; i < change.after_size(); ++i) {
      const v1::PathPrediction& after = change.after(i);
      const std::string name(verdict::PathName(kPaths[i]));
      const std::string was =
          i < group.paths_size() ? OutcomeText(group.paths(i)) : "unknown";
      const std::string is = OutcomeText(after);
      if (was == is) continue;
      std::string why;
      if (!IsGreen(after) && !after.reasons().empty()) {
        why = compat::DescribeReason(after.reasons(0));
      }
      absl::StrAppend(&out, "  ", name,
                      std::string(kIndent - 2 - name.size(), ' '),
                      WordAndText(absl::StrCat(was, " -> ", is),
                                  OutcomeStyle(after), why, options),
                      "\n");
    }
  }
  absl::StrAppend(&out,
                  changes.empty()
                      ? "nothing changes"
                      : absl::StrCat("changes on ", changed,
                                     changed == 1 ? " host" : " hosts"),
                  " of ", hosts, "\n");
  return out;
}

std::string RenderAdvice(const v1::Advice& advice, const v1::Floor& floor,
                         const ViewOptions& options) {
  const size_t width = static_cast<size_t>(options.width);
  std::string out;
  if (floor.paths_size() == 2 && floor.paths(0).has_oldest() &&
      floor.paths(1).has_oldest()) {
    absl::StrAppend(&out,
                    Wrap(absl::StrCat("native set: driver ",
                                      PointText(floor.paths(0).oldest()),
                                      " or later; by PTX: driver ",
                                      PointText(floor.paths(1).oldest()),
                                      " or later; hosts lost by PTX alone: ",
                                      advice.hosts_lost_by_jit()),
                         width, 2),
                    "\n");
  }
  absl::StrAppend(
      &out,
      Wrap(absl::StrCat("hosts: ", advice.hosts(), "; served ",
                        advice.hosts_served(), ", native ",
                        advice.hosts_native(), ", by PTX ", advice.hosts_jit()),
           width, 2),
      "\n");
  for (const v1::Fix& fix : advice.fixes()) {
    std::vector<std::string> gains;
    if (fix.hosts_gained() > 0) {
      gains.push_back(Signed(fix.hosts_gained(), "host"));
    }
    // A host with another GPU that still fails is not gained.
    if (fix.hosts_gained() == 0 && fix.gpus_gained() > 0) {
      gains.push_back(Signed(fix.gpus_gained(), "GPU"));
    }
    if (fix.gpus_improved() > 0) {
      gains.push_back(
          absl::StrCat(fix.gpus_improved(), fix.gpus_improved() == 1
                                                ? " GPU no longer compiles"
                                                : " GPUs no longer compile"));
    }
    std::string line =
        absl::StrCat(fix.in_smallest_set() ? "* " : "- ",
                     absl::StrJoin(gains, ", "), ": ", Printable(fix.text()));
    if (fix.build() > 1 && !absl::StartsWith(fix.text(), "another build")) {
      absl::StrAppend(&line, ", as a build of its own");
    }
    if (fix.hosts_gained() > 0 && fix.host_names_size() > 0) {
      absl::StrAppend(&line, " (",
                      Printable(GroupHosts(
                          {fix.host_names().begin(), fix.host_names().end()},
                          kMaxHostGroups)),
                      ")");
    }
    absl::StrAppend(&out, "  ", Wrap(line, width > 2 ? width - 2 : 0, 4), "\n");
  }
  if (!advice.beyond_help().empty()) {
    absl::StrAppend(
        &out, "  ",
        Wrap(absl::StrCat("no known change serves ",
                          Printable(GroupHosts({advice.beyond_help().begin(),
                                                advice.beyond_help().end()},
                                               kMaxHostGroups))),
             width > 2 ? width - 2 : 0, 4),
        "\n");
  }
  const bool any_smallest =
      std::any_of(advice.fixes().begin(), advice.fixes().end(),
                  [](const v1::Fix& fix) { return fix.in_smallest_set(); });
  if (any_smallest) {
    absl::StrAppend(&out,
                    Paint("  *: together the fewest changes for all that can "
                          "be served",
                          Style::kDim, options.color),
                    "\n");
  }
  return out;
}

}  // namespace twinpath::cli
