#include "verdict/evaluated.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "verdict/run_compare.h"

namespace twinpath::verdict {

const PathEvaluation& EvaluatedCell::At(v1::Path path) const {
  static const PathEvaluation& nothing = *new PathEvaluation;
  for (size_t i = 0; i < kPaths.size(); ++i) {
    if (kPaths[i] == path) return paths[i];
  }
  return nothing;
}

EvaluatedCell EvaluateCell(const v1::Cell& cell, const v1::Entry* entry) {
  EvaluatedCell evaluated;
  evaluated.cell = &cell;
  evaluated.entry = entry;
  evaluated.simulated = cell.simulated() || cell.result().simulated();
  evaluated.answered = cell.state() == v1::CELL_STATE_DONE &&
                       cell.has_result() && cell.result().complete();
  for (const v1::Observation& observation : cell.result().observations()) {
    evaluated.simulated |= observation.simulated();
  }
  if (!evaluated.answered || entry == nullptr) return evaluated;
  // Loads and toolchains have no path; they are judged as a whole.
  if (entry->kind() == v1::ENTRY_KIND_IMAGES ||
      entry->kind() == v1::ENTRY_KIND_TOOLCHAIN) {
    return evaluated;
  }
  for (size_t i = 0; i < kPaths.size(); ++i) {
    evaluated.paths[i] =
        EvaluatePath(*entry, kPaths[i], cell.result(),
                     PredictionFor(cell.predictions(), kPaths[i]));
  }
  if (!StatesComparison(*entry)) {
    evaluated.repeats = RepeatsOf(*entry, cell.result());
  }
  return evaluated;
}

std::vector<EvaluatedCell> EvaluateCells(const v1::Sweep& sweep) {
  absl::flat_hash_map<absl::string_view, const v1::Entry*> entries;
  for (const v1::Entry& entry : sweep.spec().release().entries()) {
    entries.emplace(entry.name(), &entry);
  }
  std::vector<EvaluatedCell> cells;
  cells.reserve(static_cast<size_t>(sweep.cells_size()));
  for (const v1::Cell& cell : sweep.cells()) {
    const auto entry = entries.find(cell.entry());
    cells.push_back(
        EvaluateCell(cell, entry == entries.end() ? nullptr : entry->second));
  }
  return cells;
}

v1::Finding CellFinding(const v1::Cell& cell, v1::Reason reason,
                        v1::Severity severity, bool mismatch) {
  v1::Finding finding;
  *finding.mutable_reason() = std::move(reason);
  finding.set_severity(severity);
  finding.set_scope(v1::FINDING_SCOPE_CELL);
  finding.add_hosts(cell.host_name());
  finding.add_entries(cell.entry());
  finding.add_cell_ids(cell.id());
  finding.set_mismatch(mismatch);
  return finding;
}

}  // namespace twinpath::verdict
