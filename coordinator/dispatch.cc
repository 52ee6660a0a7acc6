#include "coordinator/dispatch.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/status.h"
#include "coordinator/proto_time.h"

namespace twinpath::coordinator {
namespace {

// Ids an agent chose; longer ones are no ids.
constexpr size_t kMaxIdBytes = 256;
// Agents take messages of up to 4 MiB. Manifest and entry have bounds below it.
constexpr size_t kMaxLeaseBytes = (4 << 20) - (64 << 10);
// Cells an agent is told to give up at a time.
constexpr size_t kMaxGiveUp = 64;

const v1::Entry* FindEntry(const v1::Release& release, absl::string_view name) {
  for (const v1::Entry& entry : release.entries()) {
    if (entry.name() == name) return &entry;
  }
  return nullptr;
}

void AddPaths(const v1::Policy& policy, v1::Lease& lease) {
  if (policy.native() != v1::PATH_RULE_SKIPPED) {
    lease.add_paths(v1::PATH_NATIVE);
  }
  if (policy.ptx_jit() != v1::PATH_RULE_SKIPPED) {
    lease.add_paths(v1::PATH_PTX_JIT);
  }
  if (policy.plain() != v1::PATH_RULE_SKIPPED) {
    lease.add_paths(v1::PATH_PLAIN);
  }
}

// What a host needs to check the signature: the release without its artifact's
// files, which the lease holds already.
void AddSignature(const v1::SweepSpec& spec, v1::Lease& lease) {
  if (!spec.has_envelope()) return;
  const v1::Release& release = spec.release();
  *lease.mutable_envelope() = spec.envelope();
  v1::Release& signed_release = *lease.mutable_release();
  *signed_release.mutable_entries() = release.entries();
  if (release.has_expect()) {
    *signed_release.mutable_expect() = release.expect();
  }
  signed_release.set_source_revision(release.source_revision());
  if (release.has_not_after()) {
    *signed_release.mutable_not_after() = release.not_after();
  }
  *signed_release.mutable_host_labels() = release.host_labels();
}

absl::Status Changed(StoreTransaction& transaction, const CellRow& row,
                     ChangedSweeps& changed) {
  changed.insert(row.cell.sweep_id());
  return transaction.RaiseSweep(row.cell.sweep_id()).status();
}

// Back to WAITING, for the same host: the cell keeps its host id for good.
absl::Status PutBack(StoreTransaction& transaction, CellRow& row,
                     ChangedSweeps& changed) {
  row.cell.set_state(v1::CELL_STATE_WAITING);
  row.lease_started = false;
  TWINPATH_RETURN_IF_ERROR(transaction.PutCell(row));
  return Changed(transaction, row, changed);
}

bool IsOpen(const CellRow& row) {
  return row.cell.state() == v1::CELL_STATE_WAITING ||
         row.cell.state() == v1::CELL_STATE_LEASED;
}

}  // namespace

v1::Reason MakeCellReason(absl::string_view code, absl::string_view detail) {
  v1::Reason reason;
  reason.set_code(code.data(), code.size());
  reason.set_detail(detail.data(), detail.size());
  return reason;
}

absl::Status Dispatcher::CheckFence(const StoreView& view,
                                    absl::string_view host_id,
                                    uint64_t session) {
  TWINPATH_ASSIGN_OR_RETURN(const HostRow host, view.GetHost(host_id));
  if (host.session == session) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("session ", session, " of host ", host.name,
                   " was taken over by session ", host.session));
}

absl::StatusOr<Granted> Dispatcher::Grant(StoreTransaction& transaction,
                                          absl::string_view host_id,
                                          uint64_t session, bool fresh_only,
                                          absl::Time now,
                                          ChangedSweeps& changed) const {
  Granted granted;
  TWINPATH_ASSIGN_OR_RETURN(std::vector<CellRow> cells,
                            transaction.ListOpenHostCells(host_id));
  if (cells.empty()) return granted;
  TWINPATH_ASSIGN_OR_RETURN(const HostRow host, transaction.GetHost(host_id));
  int leased = 0;
  bool exclusive = false;
  absl::flat_hash_set<std::string> busy;
  for (const CellRow& row : cells) {
    if (row.cell.state() != v1::CELL_STATE_LEASED) continue;
    ++leased;
    exclusive |= row.exclusive;
    busy.insert(row.cell.gpu_uuid());
  }
  absl::flat_hash_map<std::string, SweepRow> sweeps;
  for (CellRow& row : cells) {
    if (exclusive || leased >= options_.max_leases_per_host) break;
    if (row.cell.state() != v1::CELL_STATE_WAITING) continue;
    if (row.needs_facts ||
        row.cell.conditions_digest().sha256() != host.conditions) {
      granted.needs_refresh |= host.has_facts;
      continue;
    }
    if (row.not_before > now || (fresh_only && row.cell.leases() > 0) ||
        busy.contains(row.cell.gpu_uuid()) || (row.exclusive && leased > 0)) {
      continue;
    }
    auto it = sweeps.find(row.cell.sweep_id());
    if (it == sweeps.end()) {
      TWINPATH_ASSIGN_OR_RETURN(SweepRow sweep,
                                transaction.GetSweep(row.cell.sweep_id()));
      it = sweeps.emplace(row.cell.sweep_id(), std::move(sweep)).first;
    }
    const v1::Sweep& sweep = it->second.sweep;
    const v1::Release& release = sweep.spec().release();
    // A sweep that is ending grants nothing more.
    if (it->second.ending != v1::SWEEP_STATE_UNSPECIFIED ||
        FromProto(sweep.deadline_time()) <= now) {
      continue;
    }
    absl::Duration start_within = options_.lease_time;
    if (release.has_not_after()) {
      start_within =
          std::min(start_within, FromProto(release.not_after()) - now);
    }
    const v1::Entry* entry = FindEntry(release, row.cell.entry());
    if (start_within <= absl::ZeroDuration() || entry == nullptr) {
      row.cell.set_state(v1::CELL_STATE_ENDED);
      row.reasons = {
          entry == nullptr
              ? MakeCellReason("TP306", "the release has no such entry")
              : MakeCellReason("TP502",
                               "the release may not be started any "
                               "more: its not-after has passed")};
      TWINPATH_RETURN_IF_ERROR(transaction.PutCell(row));
      TWINPATH_RETURN_IF_ERROR(Changed(transaction, row, changed));
      continue;
    }
    v1::Lease lease;
    lease.set_id(RandomHex(16));
    TWINPATH_ASSIGN_OR_RETURN(
        const bool set, transaction.LeaseCell(row.cell.id(), host_id, session,
                                              lease.id(), now + start_within));
    // Fenced: a newer session leases from now on.
    if (!set) break;
    TWINPATH_RETURN_IF_ERROR(Changed(transaction, row, changed));
    ++leased;
    exclusive |= row.exclusive;
    busy.insert(row.cell.gpu_uuid());
    lease.set_cell_id(row.cell.id());
    lease.set_sweep_id(row.cell.sweep_id());
    lease.set_gpu_uuid(row.cell.gpu_uuid());
    *lease.mutable_artifact() = release.artifact();
    *lease.mutable_entry() = *entry;
    AddSignature(sweep.spec(), lease);
    AddPaths(sweep.spec().policy(), lease);
    *lease.mutable_start_within() = ToProto(start_within);
    *lease.mutable_predictions() = row.cell.predictions();
    // Only a simulated host answers from them; a lease that no agent can read
    // would end its session again and again.
    if (lease.ByteSizeLong() > kMaxLeaseBytes) lease.clear_predictions();
    granted.leases.push_back(std::move(lease));
  }
  return granted;
}

absl::StatusOr<std::vector<std::string>> Dispatcher::Held(
    StoreTransaction& transaction, absl::string_view host_id, uint64_t session,
    const std::vector<std::string>& held, bool hello, absl::Time now,
    ChangedSweeps& changed) const {
  const absl::flat_hash_set<std::string> listed(held.begin(), held.end());
  absl::flat_hash_set<std::string> open;
  TWINPATH_ASSIGN_OR_RETURN(std::vector<CellRow> cells,
                            transaction.ListOpenHostCells(host_id));
  for (CellRow& row : cells) {
    const bool leased = row.cell.state() == v1::CELL_STATE_LEASED;
    if (listed.contains(row.cell.id())) {
      open.insert(row.cell.id());
      // Held although its lease had run out here: it is still on the host, and
      // leasing it again would start it twice.
      const bool revived = !leased && !row.needs_facts;
      // Near its end only, so that a heartbeat seldom costs a write.
      const bool renew = row.lease_session != session ||
                         row.lease_expire - now < options_.lease_time / 2;
      if (!revived && !(leased && renew)) continue;
      row.cell.set_state(v1::CELL_STATE_LEASED);
      row.lease_session = session;
      row.lease_expire = LeaseEnd(now);
      TWINPATH_RETURN_IF_ERROR(transaction.PutCell(row));
      if (revived) {
        TWINPATH_RETURN_IF_ERROR(Changed(transaction, row, changed));
      }
    } else if (leased && hello) {
      // The only process that could start it does not have it: it was lost on
      // the way, or interrupted, or its result waits in the spool.
      TWINPATH_RETURN_IF_ERROR(PutBack(transaction, row, changed));
    } else if (leased && row.lease_started && row.lease_expire <= now) {
      // Started, and missing from the agent's lists for a full lease time.
      TWINPATH_RETURN_IF_ERROR(PutBack(transaction, row, changed));
    }
  }
  std::vector<std::string> give_up;
  for (const std::string& id : held) {
    // The rest is told with the next list: messages to an agent are bounded.
    if (give_up.size() == kMaxGiveUp) break;
    if (!open.contains(id)) give_up.push_back(id);
  }
  return give_up;
}

absl::Status Dispatcher::Progressed(StoreTransaction& transaction,
                                    absl::string_view host_id,
                                    const v1::Progress& progress,
                                    absl::Time now,
                                    ChangedSweeps& changed) const {
  absl::StatusOr<CellRow> row = transaction.GetCell(progress.cell_id());
  if (absl::IsNotFound(row.status())) return absl::OkStatus();
  TWINPATH_RETURN_IF_ERROR(row.status());
  // Of another host, or of a lease that is no longer the cell's: nothing.
  if (row->cell.host_id() != host_id || !IsOpen(*row) ||
      row->lease_id != progress.lease_id()) {
    return absl::OkStatus();
  }
  row->cell.set_state(v1::CELL_STATE_LEASED);
  row->lease_expire = LeaseEnd(now);
  if (progress.path() != v1::PATH_UNSPECIFIED) row->lease_started = true;
  TWINPATH_RETURN_IF_ERROR(transaction.PutCell(*row));
  return Changed(transaction, *row, changed);
}

absl::Status Dispatcher::Refused(StoreTransaction& transaction,
                                 absl::string_view host_id,
                                 const v1::LeaseRefusal& refusal,
                                 absl::Time now, ChangedSweeps& changed) const {
  absl::StatusOr<CellRow> row = transaction.GetCell(refusal.cell_id());
  if (absl::IsNotFound(row.status())) return absl::OkStatus();
  TWINPATH_RETURN_IF_ERROR(row.status());
  if (row->cell.host_id() != host_id ||
      row->cell.state() != v1::CELL_STATE_LEASED ||
      row->lease_id != refusal.lease_id()) {
    return absl::OkStatus();
  }
  // Nothing was started, so it does not count as a start.
  row->cell.set_leases(row->cell.leases() - std::min(1u, row->cell.leases()));
  row->not_before = now + options_.refusal_pause;
  row->reasons.clear();
  if (refusal.has_reason()) row->reasons.push_back(refusal.reason());
  return PutBack(transaction, *row, changed);
}

absl::StatusOr<ResultFate> Dispatcher::Accept(StoreTransaction& transaction,
                                              const HostRow& host,
                                              const v1::CellResult& result,
                                              absl::Time now,
                                              ChangedSweeps& changed) const {
  if (result.result_id().empty() || result.result_id().size() > kMaxIdBytes ||
      result.cell_id().empty() || result.cell_id().size() > kMaxIdBytes) {
    return absl::InvalidArgumentError(
        "a result needs a result id and a cell id");
  }
  ResultRow kept;
  kept.host_id = host.id;
  kept.received = now;
  kept.result = result;
  // What a simulated host says is simulated, whatever it says.
  if (host.simulated) kept.result.set_simulated(true);
  TWINPATH_ASSIGN_OR_RETURN(const bool inserted,
                            transaction.InsertResult(kept));
  if (!inserted) return ResultFate::kDuplicate;

  absl::StatusOr<CellRow> row = transaction.GetCell(result.cell_id());
  if (absl::IsNotFound(row.status()) ||
      (row.ok() && row->cell.host_id() != host.id)) {
    return ResultFate::kForeign;
  }
  TWINPATH_RETURN_IF_ERROR(row.status());
  TWINPATH_ASSIGN_OR_RETURN(const SweepRow sweep,
                            transaction.GetSweep(row->cell.sweep_id()));
  const bool running = sweep.sweep.state() == v1::SWEEP_STATE_RUNNING &&
                       sweep.ending == v1::SWEEP_STATE_UNSPECIFIED;

  if (result.complete()) {
    if (row->cell.state() == v1::CELL_STATE_DONE) {
      TWINPATH_ASSIGN_OR_RETURN(const ResultRow first,
                                transaction.GetResult(row->result_id));
      const v1::Entry* entry =
          FindEntry(sweep.sweep.spec().release(), row->cell.entry());
      if (!row->unstable &&
          !model_.results_equal(first.result, kept.result,
                                entry == nullptr ? v1::Entry() : *entry)) {
        row->unstable = true;
        TWINPATH_RETURN_IF_ERROR(transaction.PutCell(*row));
        TWINPATH_RETURN_IF_ERROR(Changed(transaction, *row, changed));
      }
      return ResultFate::kLater;
    }
    // What a sweep's verdict rests on is fixed when it ends.
    if (!running) return ResultFate::kLater;
    row->cell.set_state(v1::CELL_STATE_DONE);
    row->result_id = result.result_id();
    row->reasons.clear();
    TWINPATH_RETURN_IF_ERROR(transaction.PutCell(*row));
    TWINPATH_RETURN_IF_ERROR(Changed(transaction, *row, changed));
    return ResultFate::kDecided;
  }

  // A newer lease than the one this result is of goes its own way.
  const bool current = row->cell.state() == v1::CELL_STATE_WAITING ||
                       (row->cell.state() == v1::CELL_STATE_LEASED &&
                        row->lease_id == result.lease_id());
  if (!running || !current) return ResultFate::kIncomplete;
  row->result_id = result.result_id();
  row->reasons.assign(result.problems().begin(), result.problems().end());
  if (row->cell.leases() >= options_.max_starts) {
    row->cell.set_state(v1::CELL_STATE_ENDED);
    row->reasons.insert(
        row->reasons.begin(),
        MakeCellReason("TP417", absl::StrCat("started ", row->cell.leases(),
                                             " times without a complete "
                                             "result")));
    TWINPATH_RETURN_IF_ERROR(transaction.PutCell(*row));
    TWINPATH_RETURN_IF_ERROR(Changed(transaction, *row, changed));
  } else {
    TWINPATH_RETURN_IF_ERROR(PutBack(transaction, *row, changed));
  }
  return ResultFate::kIncomplete;
}

absl::Status Dispatcher::Expire(StoreTransaction& transaction, absl::Time now,
                                ChangedSweeps& changed) const {
  // Agents that were cut off by our own restart get the time to say what they
  // hold.
  if (now < started_ + options_.lease_time) return absl::OkStatus();
  TWINPATH_ASSIGN_OR_RETURN(std::vector<CellRow> cells,
                            transaction.ListExpiredLeases(now));
  for (CellRow& row : cells) {
    TWINPATH_RETURN_IF_ERROR(PutBack(transaction, row, changed));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>>
Dispatcher::EndOpenCells(StoreTransaction& transaction,
                         absl::string_view sweep_id, const v1::Reason& reason,
                         ChangedSweeps& changed) const {
  std::vector<std::pair<std::string, std::string>> leased;
  TWINPATH_ASSIGN_OR_RETURN(std::vector<CellRow> cells,
                            transaction.ListSweepCells(sweep_id));
  // Paused hosts, each looked up once.
  absl::flat_hash_map<std::string, bool> paused;
  for (CellRow& row : cells) {
    if (!IsOpen(row)) continue;
    if (const auto [at, first] = paused.try_emplace(row.cell.host_id(), false);
        first) {
      const absl::StatusOr<HostRow> host =
          transaction.GetHost(row.cell.host_id());
      at->second = host.ok() && host->facts.paused();
    }
    const bool said = std::any_of(
        row.reasons.begin(), row.reasons.end(),
        [](const v1::Reason& known) { return known.code() == "TP138"; });
    if (paused[row.cell.host_id()] && !said) {
      row.reasons.push_back(
          MakeCellReason("TP138", "the host's owner has paused it"));
    }
    if (row.cell.state() == v1::CELL_STATE_LEASED) {
      leased.emplace_back(row.cell.host_id(), row.cell.id());
    }
    row.cell.set_state(v1::CELL_STATE_ENDED);
    // What kept it waiting, behind what ended it.
    row.reasons.insert(row.reasons.begin(), reason);
    TWINPATH_RETURN_IF_ERROR(transaction.PutCell(row));
  }
  changed.insert(std::string(sweep_id));
  TWINPATH_RETURN_IF_ERROR(transaction.RaiseSweep(sweep_id).status());
  return leased;
}

}  // namespace twinpath::coordinator
