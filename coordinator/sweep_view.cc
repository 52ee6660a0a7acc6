#include "coordinator/sweep_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/dispatch.h"

namespace twinpath::coordinator {
namespace {

bool HasEnded(const v1::Sweep& sweep) {
  return sweep.state() != v1::SWEEP_STATE_RUNNING &&
         sweep.state() != v1::SWEEP_STATE_UNSPECIFIED;
}

// A pass becomes `kind` with `reason` first; another verdict gets the reason
// behind its own.
void Weaken(v1::VerdictKind kind, const v1::Reason& reason,
            v1::Verdict& verdict) {
  *verdict.add_reasons() = reason;
  if (verdict.kind() != v1::VERDICT_KIND_PASS) return;
  verdict.set_kind(kind);
  for (int i = verdict.reasons_size() - 1; i > 0; --i) {
    verdict.mutable_reasons()->SwapElements(i, i - 1);
  }
}

void CutOutput(size_t max_bytes, v1::CapturedOutput& output) {
  if (output.head().size() > max_bytes) {
    output.mutable_head()->resize(max_bytes);
    output.clear_tail();
  }
  if (output.tail().size() > max_bytes) output.clear_tail();
}

}  // namespace

absl::StatusOr<LoadedSweep> LoadSweep(const StoreView& view,
                                      absl::string_view id) {
  LoadedSweep loaded;
  TWINPATH_ASSIGN_OR_RETURN(SweepRow row, view.GetSweep(id));
  loaded.sweep = std::move(row.sweep);
  loaded.ending = row.ending;
  absl::flat_hash_map<std::string, v1::CellResult> results;
  TWINPATH_ASSIGN_OR_RETURN(std::vector<ResultRow> result_rows,
                            view.ListSweepResults(id));
  for (ResultRow& result : result_rows) {
    std::string result_id = result.result.result_id();
    results.emplace(std::move(result_id), std::move(result.result));
  }
  TWINPATH_ASSIGN_OR_RETURN(std::vector<CellRow> cells,
                            view.ListSweepCells(id));
  for (CellRow& cell_row : cells) {
    v1::Cell& cell = *loaded.sweep.add_cells();
    cell = std::move(cell_row.cell);
    if (cell_row.unstable) loaded.unstable.insert(cell.id());
    if (const auto it = results.find(cell_row.result_id); it != results.end()) {
      *cell.mutable_result() = it->second;
    }
    if (cell.state() != v1::CELL_STATE_DONE && !cell_row.reasons.empty()) {
      v1::CellResult& result = *cell.mutable_result();
      result.set_cell_id(cell.id());
      result.set_complete(false);
      result.clear_problems();
      for (v1::Reason& reason : cell_row.reasons) {
        *result.add_problems() = std::move(reason);
      }
    }
  }
  return loaded;
}

void ApplyUnstable(const std::set<std::string>& unstable, v1::Sweep& sweep) {
  if (unstable.empty()) return;
  const v1::Reason reason =
      MakeCellReason("TP410", "two complete results of one cell differ");
  // An ended sweep may have been judged with some of them already.
  std::set<std::string> known;
  for (const v1::Finding& finding : sweep.findings()) {
    if (finding.reason().code() != reason.code()) continue;
    known.insert(finding.cell_ids().begin(), finding.cell_ids().end());
  }
  v1::Finding finding;
  *finding.mutable_reason() = reason;
  finding.set_severity(v1::SEVERITY_ERROR);
  finding.set_scope(v1::FINDING_SCOPE_CELL);
  finding.set_mismatch(true);
  std::set<std::string> hosts;
  std::set<std::string> entries;
  for (v1::Cell& cell : *sweep.mutable_cells()) {
    if (!unstable.contains(cell.id())) continue;
    Weaken(v1::VERDICT_KIND_INCONCLUSIVE, reason, *cell.mutable_verdict());
    if (known.contains(cell.id())) continue;
    finding.add_cell_ids(cell.id());
    hosts.insert(cell.host_name());
    entries.insert(cell.entry());
  }
  if (hosts.empty()) return;
  for (const std::string& host : hosts) finding.add_hosts(host);
  for (const std::string& entry : entries) finding.add_entries(entry);
  for (v1::HostVerdict& host : *sweep.mutable_hosts()) {
    if (hosts.contains(host.host_name())) {
      Weaken(v1::VERDICT_KIND_INCONCLUSIVE, reason, *host.mutable_verdict());
    }
  }
  Weaken(v1::VERDICT_KIND_INCONCLUSIVE, reason, *sweep.mutable_verdict());
  *sweep.add_findings() = std::move(finding);
}

void ApplyStale(const absl::flat_hash_map<std::string, std::string>& conditions,
                v1::Sweep& sweep) {
  if (!HasEnded(sweep)) return;
  std::set<std::string> hosts;
  for (const v1::Cell& cell : sweep.cells()) {
    const auto today = conditions.find(cell.host_id());
    if (cell.state() == v1::CELL_STATE_DONE && today != conditions.end() &&
        !today->second.empty() && !cell.conditions_digest().sha256().empty() &&
        today->second != cell.conditions_digest().sha256()) {
      hosts.insert(cell.host_name());
    }
  }
  if (hosts.empty()) return;
  const v1::Reason reason = MakeCellReason(
      "TP501", "the host's conditions have changed since the sweep");
  v1::Finding finding;
  *finding.mutable_reason() = reason;
  finding.set_severity(v1::SEVERITY_WARNING);
  finding.set_scope(v1::FINDING_SCOPE_HOST);
  for (const std::string& host : hosts) finding.add_hosts(host);
  for (v1::HostVerdict& host : *sweep.mutable_hosts()) {
    if (hosts.contains(host.host_name())) {
      Weaken(v1::VERDICT_KIND_STALE, reason, *host.mutable_verdict());
    }
  }
  Weaken(v1::VERDICT_KIND_STALE, reason, *sweep.mutable_verdict());
  *sweep.add_findings() = std::move(finding);
}

bool TrimSweep(uint64_t max_bytes, v1::Sweep& sweep) {
  for (const size_t keep : {16384, 2048, 256, 0}) {
    if (sweep.ByteSizeLong() <= max_bytes) return true;
    for (v1::Cell& cell : *sweep.mutable_cells()) {
      if (!cell.has_result()) continue;
      for (v1::Observation& observation :
           *cell.mutable_result()->mutable_observations()) {
        // What is not there stays so: an empty driver log would say that one
        // was looked at.
        if (observation.has_stdout()) {
          CutOutput(keep, *observation.mutable_stdout());
        }
        if (observation.has_stderr()) {
          CutOutput(keep, *observation.mutable_stderr());
        }
        if (observation.has_driver_log()) {
          CutOutput(keep, *observation.mutable_driver_log());
        }
      }
    }
  }
  return sweep.ByteSizeLong() <= max_bytes;
}

}  // namespace twinpath::coordinator
