#include "cli/reach_view.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/prediction_view.h"
#include "cli/reason_view.h"
#include "cli/table.h"
#include "compat/reason.h"

namespace twinpath::cli {
namespace {

using compat::TwoPart;

// Positions in the lists of paths.
constexpr int kJit = 1;
constexpr int kPlain = 2;
constexpr size_t kGap = 2;

bool Served(const v1::GpuReach& gpu) {
  return gpu.best() == v1::OUTCOME_NATIVE || gpu.best() == v1::OUTCOME_JIT ||
         gpu.best() == v1::OUTCOME_UNKNOWN;
}

TwoPart Cuda(const v1::DriverPoint& point) {
  return TwoPart::From(point.cuda_version());
}

// "native+jit", "native*", "jit", "fails 209", "wrong CPU".
std::string Word(const v1::ReachCell& cell) {
  const v1::PathPrediction& plain = cell.paths(kPlain);
  std::string word;
  switch (plain.outcome()) {
    case v1::OUTCOME_NATIVE:
      word = cell.paths(kJit).outcome() == v1::OUTCOME_JIT ? "native+jit"
                                                           : "native";
      break;
    case v1::OUTCOME_FAILS:
      if (!plain.reasons().empty() && plain.reasons(0).code() == "TP208") {
        return "wrong CPU";
      }
      [[fallthrough]];
    default: {
      v1::PathPrediction bare = plain;
      bare.clear_gaps();
      word = OutcomeText(bare);
    }
  }
  return plain.gaps() > 0 ? absl::StrCat(word, "*") : word;
}

// A run of driver rows that is one column.
struct Column {
  const compat::DriverRow* first = nullptr;
  const compat::DriverRow* last = nullptr;
};

// Cut where any served GPU changes its answer.
std::vector<Column> ColumnsOf(const v1::Reach& reach,
                              const compat::Tables& tables) {
  std::set<TwoPart> cuts;
  for (const v1::GpuReach& gpu : reach.gpus()) {
    if (!Served(gpu)) continue;
    for (int i = 1; i < gpu.cells_size(); ++i) {
      if (Word(gpu.cells(i)) != Word(gpu.cells(i - 1))) {
        cuts.insert(Cuda(gpu.cells(i).first()));
      }
    }
  }
  std::vector<Column> columns;
  for (const compat::DriverRow& row : tables.drivers()) {
    if (columns.empty() || cuts.count(row.cuda) > 0) {
      columns.push_back({&row, &row});
    } else {
      columns.back().last = &row;
    }
  }
  return columns;
}

// The last of the GPU's cells inside the column; nullptr: no such driver.
const v1::ReachCell* CellIn(const v1::GpuReach& gpu, const Column& column) {
  const v1::ReachCell* found = nullptr;
  for (const v1::ReachCell& cell : gpu.cells()) {
    if (Cuda(cell.first()) <= column.last->cuda &&
        Cuda(cell.last()) >= column.first->cuda) {
      found = &cell;
    }
  }
  return found;
}

// "9.0 H100", "7.0 V100 (to R580)".
std::string Label(const v1::GpuReach& gpu) {
  std::string label = VersionText(gpu.compute_capability());
  if (gpu.products_size() > 0) {
    absl::StrAppend(&label, " ",
                    gpu.products(0).substr(0, gpu.products(0).find(" (")));
  }
  if (gpu.has_last_driver()) {
    absl::StrAppend(&label, " (to R", gpu.last_driver().branch(), ")");
  }
  return label;
}

std::string Range(const std::string& first, const std::string& last) {
  return first == last ? first : absl::StrCat(first, "-", last);
}

std::string Matrix(const v1::Reach& reach, const compat::Tables& tables,
                   const ViewOptions& options) {
  std::vector<Column> columns = ColumnsOf(reach, tables);
  // Columns in which no served GPU has a driver say nothing.
  std::vector<const v1::GpuReach*> rows;
  for (const v1::GpuReach& gpu : reach.gpus()) {
    if (Served(gpu)) rows.push_back(&gpu);
  }
  if (rows.empty()) return "";
  columns.erase(std::remove_if(columns.begin(), columns.end(),
                               [&](const Column& column) {
                                 return std::none_of(
                                     rows.begin(), rows.end(),
                                     [&](const v1::GpuReach* gpu) {
                                       return CellIn(*gpu, column) != nullptr;
                                     });
                               }),
                columns.end());
  std::vector<std::string> heads;
  std::vector<std::string> cudas;
  std::vector<size_t> widths;
  size_t label_width = 14;
  for (const v1::GpuReach* gpu : rows) {
    label_width = std::max(label_width, DisplayWidth(Label(*gpu)));
  }
  for (const Column& column : columns) {
    heads.push_back(Range(absl::StrCat("R", column.first->branch),
                          absl::StrCat("R", column.last->branch)));
    cudas.push_back(
        Range(column.first->cuda.ToString(), column.last->cuda.ToString()));
    size_t width = std::max(heads.back().size(), cudas.back().size());
    for (const v1::GpuReach* gpu : rows) {
      if (const v1::ReachCell* cell = CellIn(*gpu, column)) {
        width = std::max(width, Word(*cell).size());
      }
    }
    widths.push_back(width);
  }
  const size_t limit =
      options.width > 0 ? static_cast<size_t>(options.width) : SIZE_MAX;
  label_width = std::min(label_width, std::max<size_t>(14, limit / 2));
  std::string out;
  for (size_t begin = 0; begin < columns.size();) {
    size_t used = label_width;
    size_t end = begin;
    while (end < columns.size() &&
           (end == begin || used + kGap + widths[end] <= limit)) {
      used += kGap + widths[end++];
    }
    std::vector<std::string> headers = {"GPU"};
    headers.insert(headers.end(), heads.begin() + static_cast<long>(begin),
                   heads.begin() + static_cast<long>(end));
    Table table(std::move(headers));
    std::vector<TableCell> cuda_row = {{"CUDA of driver", Style::kDim}};
    for (size_t i = begin; i < end; ++i) {
      cuda_row.emplace_back(cudas[i], Style::kDim);
    }
    table.AddRow(std::move(cuda_row));
    for (const v1::GpuReach* gpu : rows) {
      std::vector<TableCell> cells = {Truncate(Label(*gpu), label_width)};
      for (size_t i = begin; i < end; ++i) {
        const v1::ReachCell* cell = CellIn(*gpu, columns[i]);
        if (cell == nullptr) {
          cells.emplace_back("-", Style::kDim);
        } else {
          cells.emplace_back(Word(*cell), OutcomeStyle(cell->paths(kPlain)));
        }
      }
      table.AddRow(std::move(cells));
    }
    absl::StrAppend(&out, out.empty() ? "" : "\n",
                    table.Render(options.width, options.color));
    begin = end;
  }
  return out;
}

// GPUs that nothing serves, by what happens on their newest driver.
std::string NotServed(const v1::Reach& reach) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const v1::GpuReach& gpu : reach.gpus()) {
    if (Served(gpu) || gpu.cells().empty()) continue;
    const std::string word = Word(gpu.cells(gpu.cells_size() - 1));
    if (word == "no code") continue;
    auto at =
        std::find_if(groups.begin(), groups.end(),
                     [&](const auto& group) { return group.first == word; });
    if (at == groups.end()) at = groups.insert(at, {word, {}});
    at->second.push_back(VersionText(gpu.compute_capability()));
  }
  std::vector<std::string> texts;
  for (const auto& [word, names] : groups) {
    texts.push_back(absl::StrCat(word, " on ", absl::StrJoin(names, " ")));
  }
  return absl::StrJoin(texts, "; ");
}

std::string Capabilities(const v1::Reach& reach, bool native) {
  std::vector<std::string> names;
  for (const v1::GpuReach& gpu : reach.gpus()) {
    if (native ? gpu.has_oldest_native() : gpu.has_oldest_jit()) {
      names.push_back(VersionText(gpu.compute_capability()));
    }
  }
  return absl::StrJoin(names, " ");
}

std::string FloorText(const v1::DriverFloor& floor) {
  if (!floor.has_oldest()) return "nothing";
  std::string out =
      absl::StrCat("driver ", PointText(floor.oldest()), " or later");
  if (floor.oldest().branch() == 0) {
    out = absl::StrCat("JetPack with CUDA ",
                       VersionText(floor.oldest().cuda_version()), " or later");
  }
  if (floor.oldest_any().branch() != floor.oldest().branch()) {
    absl::StrAppend(&out, "; for some GPUs ", PointText(floor.oldest_any()));
  }
  return out;
}

}  // namespace

std::string PointText(const v1::DriverPoint& point) {
  std::string out;
  if (point.branch() != 0) out = absl::StrCat("R", point.branch(), " ");
  if (!point.version().empty()) absl::StrAppend(&out, point.version(), " ");
  return absl::StrCat(out, "(CUDA ", VersionText(point.cuda_version()), ")");
}

std::string RenderFloor(const v1::Reach& reach, const ViewOptions& options) {
  const size_t width = static_cast<size_t>(options.width);
  const v1::Floor& floor = reach.floor();
  std::string out;
  const auto line = [&](absl::string_view head, const std::string& text) {
    absl::StrAppend(&out, Wrap(absl::StrCat(head, ": ", text), width, 2), "\n");
  };
  if (floor.paths_size() == 2) {
    const std::string native = Capabilities(reach, true);
    const std::string jit = Capabilities(reach, false);
    line("native",
         floor.paths(0).has_oldest()
             ? absl::StrCat(FloorText(floor.paths(0)), ", on ", native)
             : "on no known GPU");
    line("ptx-jit", floor.paths(1).has_oldest()
                        ? absl::StrCat(FloorText(floor.paths(1)), ", on ", jit)
                        : "on no known GPU");
  }
  std::vector<std::string> parts;
  if (floor.has_runtime()) {
    parts.push_back(absl::StrCat("runtime of CUDA ", floor.runtime_major(), " ",
                                 PointText(floor.runtime())));
  }
  if (floor.has_ptx_isa()) {
    parts.push_back(absl::StrCat(
        "PTX ", VersionText(floor.ptx_isa()), " ",
        floor.has_ptx() ? PointText(floor.ptx()) : "no known driver"));
  }
  if (floor.has_compression()) {
    parts.push_back(
        absl::StrCat("zstd images ", PointText(floor.compression())));
  }
  if (!parts.empty()) line("floors", absl::StrJoin(parts, "; "));
  if (floor.has_promised() && floor.paths_size() == 2 &&
      floor.paths(0).oldest().branch() != 0 &&
      floor.paths(0).oldest().branch() < floor.promised().branch()) {
    line("promise",
         absl::StrCat("code of CUDA ", VersionText(floor.toolkit()),
                      " is promised to run from ", PointText(floor.promised()),
                      "; older drivers may take it"));
  }
  if (floor.paths_size() == 2 && floor.paths(0).has_oldest() &&
      floor.paths(1).has_oldest() &&
      floor.paths(0).oldest().branch() != floor.paths(1).oldest().branch()) {
    line("trade-off",
         absl::StrCat("the native set needs driver R",
                      floor.paths(0).oldest().branch(), ", the PTX R",
                      floor.paths(1).oldest().branch(), " or later"));
  }
  return out;
}

std::string RenderReach(const v1::Reach& reach, const compat::Tables& tables,
                        const ViewOptions& options) {
  const size_t width = static_cast<size_t>(options.width);
  std::string out = Matrix(reach, tables, options);
  const bool any = !out.empty();
  if (const std::string not_served = NotServed(reach); !not_served.empty()) {
    absl::StrAppend(
        &out, Wrap(absl::StrCat("not served: ", not_served), width, 2), "\n");
  }
  absl::StrAppend(&out, out.empty() ? "" : "\n", RenderFloor(reach, options));
  for (const v1::Reason& finding : reach.findings()) {
    absl::StrAppend(&out, Wrap(compat::DescribeReason(finding), width, 2),
                    "\n");
    const std::string fix = compat::FixOf(finding);
    if (fix.empty()) continue;
    absl::StrAppend(
        &out, "  ",
        Paint(Wrap(absl::StrCat("fix: ", fix), width > 2 ? width - 2 : 0, 4),
              Style::kDim, options.color),
        "\n");
  }
  if (any) {
    absl::StrAppend(
        &out, "\n",
        Paint(Wrap("native+jit: machine code, and PTX that compiles; native: "
                   "machine code only; jit: compiled at start; *: some "
                   "fatbins have nothing for this GPU; -: no such driver for "
                   "it; Jetsons go by the CUDA version",
                   width, 0),
              Style::kDim, options.color),
        "\n");
  }
  return out;
}

}  // namespace twinpath::cli
