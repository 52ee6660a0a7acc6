#include "cli/prediction_view.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "cli/reason_view.h"
#include "cli/report_view.h"
#include "cli/table.h"
#include "compat/reason.h"
#include "verdict/path_status.h"

namespace twinpath::cli {
namespace {

constexpr v1::Path kPaths[] = {v1::PATH_NATIVE, v1::PATH_PTX_JIT,
                               v1::PATH_PLAIN};

// One reason of one GPU and the paths that have it.
struct Note {
  v1::Reason reason;
  std::vector<std::string> paths;
  Style style = Style::kPlain;
};

// Equal reasons of several paths are one note.
void AddNote(const v1::Reason& reason, v1::Path path, Style style,
             std::vector<Note>& notes) {
  const std::string name(verdict::PathName(path));
  for (Note& note : notes) {
    if (note.reason.code() == reason.code() &&
        note.reason.detail() == reason.detail()) {
      note.paths.push_back(name);
      return;
    }
  }
  notes.push_back(Note{reason, {name}, style});
}

std::vector<Note> NotesOf(const v1::Prediction& prediction) {
  std::vector<Note> notes;
  for (const v1::PathPrediction& path : prediction.paths()) {
    const Style style = OutcomeStyle(path);
    if (style != Style::kBad && style != Style::kWarn) continue;
    for (const v1::Reason& reason : path.reasons()) {
      if (compat::SeverityOf(reason) == v1::SEVERITY_NOTE) continue;
      AddNote(reason, path.path(), style, notes);
    }
    if (!path.settled_by().empty()) {
      v1::Reason settle;
      settle.set_detail(absl::StrCat("to settle it: ", path.settled_by()));
      AddNote(settle, path.path(), style, notes);
    }
  }
  return notes;
}

void AddNotes(const std::vector<Note>& notes, Table* table) {
  for (const Note& note : notes) {
    const std::string text = note.reason.code().empty()
                                 ? std::string(note.reason.detail())
                                 : compat::DescribeReason(note.reason);
    table->AddNote(absl::StrCat(absl::StrJoin(note.paths, ", "),
                                note.paths.empty() ? "" : ": ", text),
                   note.style);
  }
  std::vector<std::string> fixes;
  for (const Note& note : notes) {
    if (note.reason.code().empty()) continue;
    std::string fix = compat::FixOf(note.reason);
    if (fix.empty()) continue;
    bool known = false;
    for (const std::string& other : fixes) known |= other == fix;
    if (!known) fixes.push_back(std::move(fix));
  }
  for (const std::string& fix : fixes) {
    table->AddNote(absl::StrCat("fix: ", fix), Style::kDim);
  }
}

}  // namespace

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
  Table table({"HOST", "GPU", "CPU", "DRIVER", "native", "ptx-jit", "plain"});
  bool gaps = false;
  for (const v1::HostPrediction& host : output.hosts()) {
    std::string name = host.facts().profile().empty() ? host.facts().host_name()
                                                      : host.facts().profile();
    const std::string cpu(CpuText(host.facts().cpu_architecture()));
    const std::string driver = DriverText(host.facts());
    if (host.predictions().empty()) {
      table.AddRow({name,
                    "none",
                    cpu,
                    driver,
                    {"unknown", Style::kWarn},
                    {"unknown", Style::kWarn},
                    {"unknown", Style::kWarn}});
      std::vector<Note> notes;
      for (const v1::Reason& reason : host.problems()) {
        notes.push_back(Note{reason, {}, Style::kWarn});
      }
      AddNotes(notes, &table);
      continue;
    }
    // Equal GPUs of one host are one row.
    std::vector<std::pair<const v1::Prediction*, int>> rows;
    for (const v1::Prediction& prediction : host.predictions()) {
      bool known = false;
      for (auto& [other, count] : rows) {
        bool same = other->gpu_name() == prediction.gpu_name() &&
                    other->paths_size() == prediction.paths_size();
        for (int i = 0; same && i < prediction.paths_size(); ++i) {
          same = other->paths(i).SerializeAsString() ==
                 prediction.paths(i).SerializeAsString();
        }
        if (same) {
          ++count;
          known = true;
          break;
        }
      }
      if (!known) rows.emplace_back(&prediction, 1);
    }
    for (const auto& [prediction, count] : rows) {
      std::vector<TableCell> cells = {
          name,
          absl::StrCat(count > 1 ? absl::StrCat(count, " x ") : "",
                       prediction->gpu_name(), " ",
                       VersionText(prediction->compute_capability())),
          cpu, driver};
      for (const v1::Path path : kPaths) {
        const v1::PathPrediction* found =
            verdict::PredictionFor(prediction->paths(), path);
        if (found == nullptr) {
          cells.emplace_back("-");
        } else {
          gaps |= found->gaps() > 0;
          cells.emplace_back(OutcomeText(*found), OutcomeStyle(*found));
        }
      }
      table.AddRow(std::move(cells));
      AddNotes(NotesOf(*prediction), &table);
    }
  }
  std::string out = table.Render(options.width, options.color);
  if (gaps) {
    absl::StrAppend(
        &out, "\n",
        Paint(Wrap("gap: a fatbin with nothing for this GPU on this path; it "
                   "matters where the program launches its kernels",
                   static_cast<size_t>(options.width), 0),
              Style::kDim, options.color),
        "\n");
  }
  return out;
}

}  // namespace twinpath::cli
