#include "cli/matrix.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/text.h"
#include "cli/cell_view.h"
#include "cli/table.h"

namespace twinpath::cli {
namespace {

// Groups of host names shown in one place.
constexpr size_t kMaxHostGroups = 4;

const v1::Entry* FindEntry(const v1::Sweep& sweep, absl::string_view name) {
  for (const v1::Entry& entry : sweep.spec().release().entries()) {
    if (entry.name() == name) return &entry;
  }
  return nullptr;
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

}  // namespace

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

}  // namespace twinpath::cli
