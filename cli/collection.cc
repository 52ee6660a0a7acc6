#include "cli/collection.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/reason_view.h"
#include "cli/report_view.h"
#include "cli/table.h"
#include "cli/view_options.h"
#include "compat/reason.h"
#include "inspect/summary.h"

namespace twinpath::cli {
namespace {

// Columns that a name gets on any terminal, and those that a list of targets
// takes before names are shortened for it.
constexpr size_t kLeastName = 16;
constexpr size_t kMaxList = 20;
// Most problems listed below the table, and those they are chosen from.
constexpr size_t kMaxProblems = 10;
constexpr size_t kMaxKept = 1000;

bool IsWorse(const v1::Reason& a, const v1::Reason& b) {
  return compat::SeverityOf(a) > compat::SeverityOf(b);
}

// The problems of a report that are more than notes, the worst first.
std::vector<v1::Reason> ProblemsOf(const v1::FileReport& report) {
  std::vector<v1::Reason> problems;
  for (const v1::Reason& problem : report.problems()) {
    if (compat::SeverityOf(problem) != v1::SEVERITY_NOTE) {
      problems.push_back(problem);
    }
  }
  std::stable_sort(problems.begin(), problems.end(), IsWorse);
  return problems;
}

// The first image or fatbin that could not be read, as a problem.
bool UnreadImage(const v1::FileReport& report, v1::Reason* problem) {
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    if (!fatbin.problem().empty()) {
      *problem = compat::MakeReason(
          "TP229", absl::StrCat("fatbin ", fatbin.index(), ": ",
                                Printable(fatbin.problem())));
      return true;
    }
    for (const v1::Image& image : fatbin.images()) {
      if (image.problem().empty()) continue;
      *problem = compat::MakeReason(
          "TP232", absl::StrCat("image ", image.index(), " (",
                                inspect::TargetName(image),
                                "): ", Printable(image.problem())));
      return true;
    }
  }
  return false;
}

bool IsFinal(const inspect::ImageTarget& target) {
  return target.kind == v1::IMAGE_KIND_SASS ||
         target.kind == v1::IMAGE_KIND_PTX;
}

std::string Joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    absl::string_view text = name;
    absl::ConsumePrefix(&text, "sm_");
    absl::ConsumePrefix(&text, "compute_");
    absl::StrAppend(&out, out.empty() ? "" : " ", text);
  }
  return out.empty() ? "-" : out;
}

// Keeps the end of a path, which tells more than its beginning.
std::string ShortenPath(std::string path, size_t width) {
  path = Printable(path);
  if (width < 8 || DisplayWidth(path) <= width) return path;
  // Whole code points only.
  size_t byte = 0;
  while (byte < path.size() &&
         DisplayWidth(absl::string_view(path).substr(byte)) > width - 1) {
    ++byte;
    while (byte < path.size() &&
           (static_cast<unsigned char>(path[byte]) & 0xC0) == 0x80) {
      ++byte;
    }
  }
  return absl::StrCat("…", path.substr(byte));
}

Style StyleOf(Health health) {
  return health == Health::kBroken  ? Style::kBad
         : health == Health::kWhole ? Style::kPlain
                                    : Style::kWarn;
}

}  // namespace

Health HealthOf(const v1::FileReport& report) {
  Health worst = Health::kWhole;
  const auto raise = [&worst](Health health) {
    worst = std::max(worst, health);
  };
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      // A payload that could not be read may hold anything or nothing.
      if (!image.problem().empty()) raise(Health::kUnread);
    }
  }
  for (const v1::Reason& problem : report.problems()) {
    const v1::Severity severity = compat::SeverityOf(problem);
    if (severity == v1::SEVERITY_ERROR) raise(Health::kBroken);
    if (severity == v1::SEVERITY_WARNING) {
      raise(problem.code() == "TP232" ? Health::kUnread : Health::kRemarks);
    }
  }
  return worst;
}

void Collection::Add(const v1::FileReport& report, absl::string_view name,
                     const std::vector<std::string>& lacking) {
  kernels_read_ |= report.kernels_read();
  FileRow row;
  row.name = std::string(name);
  row.health = HealthOf(report);
  std::vector<std::string> notes;
  std::vector<v1::Reason> problems = ProblemsOf(report);
  v1::Reason unread;
  if (problems.empty() && UnreadImage(report, &unread)) {
    problems.push_back(unread);
  }
  const bool troubled = !problems.empty();
  if (troubled) row.health = std::max(row.health, Health::kRemarks);
  for (v1::Reason& problem : problems) {
    if (std::find(notes.begin(), notes.end(), problem.code()) == notes.end()) {
      notes.push_back(problem.code());
    }
    ++problem_count_;
    problem.set_detail(absl::StrCat(Printable(name), ": ", problem.detail()));
    // Of very many the first stand for the rest, as the table's rows do.
    if (problems_.size() < kMaxKept) problems_.push_back(std::move(problem));
  }
  if (!lacking.empty()) {
    row.health = std::max(row.health, Health::kRemarks);
    notes.push_back(absl::StrCat("lacks ", absl::StrJoin(lacking, " ")));
  }
  if (!report.fatbins().empty()) {
    ++with_code_;
  } else if (report.has_elf()) {
    ++elf_without_code_;
  } else if (report.has_carrier()) {
    ++carriers_;
  } else {
    ++others_;
  }
  const std::vector<inspect::TargetCount> counts =
      inspect::CountTargets(report);
  // What is loaded as it is tells what the file serves; files before their
  // link have only the other.
  const bool any_final = std::any_of(
      counts.begin(), counts.end(),
      [](const inspect::TargetCount& count) { return IsFinal(count.target); });
  const std::vector<inspect::ImageTarget> at_load =
      inspect::LinkedAtLoad(report);
  std::vector<std::string> sass;
  std::vector<std::string> ptx;
  for (const inspect::TargetCount& count : counts) {
    if (!Selects(targets_, count.target)) continue;
    row.images += count.images;
    row.stored_bytes += count.stored_bytes;
    const bool linked_at_load = std::find(at_load.begin(), at_load.end(),
                                          count.target) != at_load.end();
    if (any_final && !IsFinal(count.target) && !linked_at_load) continue;
    std::vector<std::string>& to =
        count.target.kind == v1::IMAGE_KIND_PTX ||
                count.target.kind == v1::IMAGE_KIND_RELOCATABLE_PTX
            ? ptx
            : sass;
    const std::string text = absl::StrCat(inspect::TargetName(count.target),
                                          linked_at_load ? "*" : "");
    row.linked_at_load |= linked_at_load;
    if (std::find(to.begin(), to.end(), text) == to.end()) to.push_back(text);
  }
  if (row.images == 0 && !troubled && lacking.empty()) return;
  totals_.Add(report, targets_);
  if (report.kernels_read()) {
    for (const inspect::KernelCoverage& kernel :
         inspect::CoverKernels({&report})) {
      row.kernels += std::any_of(kernel.targets.begin(), kernel.targets.end(),
                                 [this](const inspect::ImageTarget& target) {
                                   return Selects(targets_, target);
                                 })
                         ? 1
                         : 0;
    }
  }
  row.cpu = report.has_elf()
                ? std::string(CpuText(report.elf().cpu_architecture()))
                : "-";
  row.sass = Joined(sass);
  row.ptx = Joined(ptx);
  row.note = absl::StrJoin(notes, ", ");
  rows_.push_back(std::move(row));
}

std::vector<FileRow> Collection::SortedRows() const {
  std::vector<FileRow> rows = rows_;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const FileRow& a, const FileRow& b) {
                     return std::tie(b.health, b.stored_bytes, a.name) <
                            std::tie(a.health, a.stored_bytes, b.name);
                   });
  return rows;
}

std::string Collection::Counts() const {
  std::vector<std::string> parts = {
      absl::StrCat(with_code_, " with device code")};
  const auto add = [&parts](uint64_t count, absl::string_view one,
                            absl::string_view many) {
    if (count > 0) {
      parts.push_back(absl::StrCat(count, " ", count == 1 ? one : many));
    }
  };
  add(elf_without_code_, "ELF file without", "ELF files without");
  add(carriers_, "archive or package", "archives or packages");
  add(others_, "other file", "other files");
  return absl::StrJoin(parts, ", ");
}

std::string Collection::Render(const ViewOptions& options,
                               size_t max_rows) const {
  std::string out;
  std::vector<FileRow> rows = SortedRows();
  size_t more = 0;
  if (max_rows > 0 && rows.size() > max_rows) {
    more = rows.size() - max_rows;
    rows.resize(max_rows);
  }
  if (!rows.empty()) {
    const bool notes =
        std::any_of(rows.begin(), rows.end(),
                    [](const FileRow& row) { return !row.note.empty(); });
    std::vector<std::string> headers = {"    FILE", "CPU", "SASS (sm_)",
                                        "PTX (compute_)", "IMAGES"};
    if (kernels_read_) headers.push_back("KERNELS");
    headers.push_back("STORED");
    if (notes) headers.push_back("NOTE");
    std::vector<std::vector<std::string>> cells;
    for (const FileRow& row : rows) {
      std::vector<std::string> line = {row.name, row.cpu, row.sass, row.ptx,
                                       absl::StrCat(row.images)};
      if (kernels_read_) line.push_back(absl::StrCat(row.kernels));
      line.push_back(HumanBytes(row.stored_bytes));
      if (notes) line.push_back(row.note);
      cells.push_back(std::move(line));
    }
    // No target may get lost: lists of them, and notes that name them, go over
    // several lines.
    constexpr size_t kSass = 2;
    constexpr size_t kPtx = 3;
    const auto wraps = [&](size_t column) {
      return column == kSass || column == kPtx ||
             (notes && column + 1 == headers.size());
    };
    // What the other columns leave is the name's.
    size_t taken = 4;
    for (size_t i = 1; i < headers.size(); ++i) {
      size_t widest = DisplayWidth(headers[i]);
      for (const std::vector<std::string>& line : cells) {
        widest = std::max(widest, DisplayWidth(line[i]));
      }
      taken += (wraps(i) ? std::min(widest, kMaxList) : widest) + 2;
    }
    const size_t width = static_cast<size_t>(std::max(options.width, 0));
    const size_t left = width == 0                   ? SIZE_MAX
                        : width > taken + kLeastName ? width - taken
                                                     : kLeastName;
    Table table(headers);
    // Shortened below, at its beginning.
    table.KeepColumn(0);
    for (size_t i = 1; i < headers.size(); ++i) {
      if (wraps(i)) table.WrapColumn(i);
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<TableCell> line;
      line.emplace_back(absl::StrCat("    ", ShortenPath(cells[i][0], left)));
      for (size_t c = 1; c < cells[i].size(); ++c) {
        line.emplace_back(cells[i][c], notes && c + 1 == cells[i].size()
                                           ? StyleOf(rows[i].health)
                                           : Style::kPlain);
      }
      table.AddRow(std::move(line));
    }
    absl::StrAppend(&out, table.Render(options.width, options.color));
    if (std::any_of(rows.begin(), rows.end(),
                    [](const FileRow& row) { return row.linked_at_load; })) {
      absl::StrAppend(&out, "    ",
                      Paint("* relocatable code, which the driver links at "
                            "load (TP216, TP217)",
                            Style::kDim, options.color),
                      "\n");
    }
    if (more > 0) {
      absl::StrAppend(&out, "    and ", more,
                      more == 1 ? " more file" : " more files",
                      "; --members shows every one\n");
    }
  }
  if (rows.size() + more > 1 && !totals_.empty()) {
    absl::StrAppend(&out, "  ", Paint("together", Style::kDim, options.color),
                    "\n", totals_.Render(true, options));
  }
  if (!problems_.empty()) {
    std::vector<v1::Reason> first = problems_;
    std::stable_sort(first.begin(), first.end(), IsWorse);
    if (first.size() > kMaxProblems) first.resize(kMaxProblems);
    absl::StrAppend(&out, "  ", Paint("problems", Style::kBad, options.color),
                    "\n", RenderReasonList(first, options));
    if (const uint64_t more = problem_count_ - first.size(); more > 0) {
      absl::StrAppend(&out, "    and ", more,
                      more == 1 ? " more problem" : " more problems",
                      "; --members shows every one\n");
    }
  }
  return out;
}

}  // namespace twinpath::cli
