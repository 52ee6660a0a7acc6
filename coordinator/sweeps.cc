#include "coordinator/sweeps.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "coordinator/proto_time.h"
#include "coordinator/sweep_check.h"

namespace twinpath::coordinator {
namespace {

constexpr size_t kJudgedInMemory = 8;
constexpr size_t kMaxRequestId = 128;
// Above this the writer is behind: nothing is declared late or lost.
constexpr int64_t kBehind = 2000;
constexpr int kConcludeTries = 10;

absl::StatusOr<Sha256> ArtifactOf(const v1::Release& release) {
  absl::StatusOr<Sha256> digest =
      Sha256::FromRaw(release.artifact().digest().sha256());
  if (digest.ok()) return digest;
  return absl::InvalidArgumentError(
      "release: the artifact's digest is missing or has not 32 bytes");
}

bool IsOpen(const v1::Cell& cell) {
  return cell.state() == v1::CELL_STATE_WAITING ||
         cell.state() == v1::CELL_STATE_LEASED;
}

bool HasOpenCells(const v1::Sweep& sweep) {
  return std::any_of(sweep.cells().begin(), sweep.cells().end(), IsOpen);
}

// NOT_FOUND for a sweep, with the nearest id.
absl::Status UnknownSweep(const StoreView& view, absl::string_view id) {
  std::vector<std::string> ids;
  if (const auto sweeps = view.ListSweeps(0, 1000); sweeps.ok()) {
    for (const SweepRow& row : *sweeps) ids.push_back(row.sweep.id());
  }
  const std::string nearest = NearestWord(id, ids);
  return absl::NotFoundError(absl::StrCat(
      "sweep '", Printable(id), "' is not known",
      nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

}  // namespace

absl::StatusOr<v1::Sweep> Sweeps::Start(const v1::StartSweepRequest& request) {
  if (request.request_id().size() > kMaxRequestId) {
    return absl::InvalidArgumentError(
        absl::StrCat("request id: at most ", kMaxRequestId, " bytes"));
  }
  // Known already: the first answer may have been lost on its way.
  std::string existing;
  const auto find_existing = [&](const StoreView& view) -> absl::Status {
    existing.clear();
    const absl::StatusOr<SweepRow> row =
        view.FindSweepByRequest(request.request_id());
    if (row.ok()) existing = row->sweep.id();
    return absl::IsNotFound(row.status()) ? absl::OkStatus() : row.status();
  };
  TWINPATH_RETURN_IF_ERROR(store_.Read(find_existing));
  if (!existing.empty()) return Get(existing);

  const absl::Time now = store_.Now();
  SweepRow row;
  row.request_id = request.request_id();
  v1::Sweep& sweep = row.sweep;
  *sweep.mutable_spec() = request.spec();
  v1::Release& release = *sweep.mutable_spec()->mutable_release();
  TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest, ArtifactOf(release));
  std::vector<HostRow> hosts;
  TWINPATH_RETURN_IF_ERROR(
      store_.Read([&](const StoreView& view) -> absl::Status {
        absl::StatusOr<ArtifactRow> artifact = view.GetArtifact(digest);
        if (absl::IsNotFound(artifact.status())) {
          return absl::FailedPreconditionError(absl::StrCat(
              "artifact ", digest.Hex(), " is not registered; push it first"));
        }
        TWINPATH_RETURN_IF_ERROR(artifact.status());
        *release.mutable_artifact() =
            std::move(*artifact->stored.mutable_artifact());
        TWINPATH_RETURN_IF_ERROR(
            CheckSweepSpec(sweep.spec(), release.artifact(), now));
        TWINPATH_ASSIGN_OR_RETURN(hosts,
                                  SelectHosts(view, sweep.spec().selector()));
        return absl::OkStatus();
      }));
  std::erase_if(hosts, [&](const HostRow& host) {
    return !HasLabels(host, release.host_labels());
  });

  sweep.set_id(RandomHex(4));
  sweep.set_state(v1::SWEEP_STATE_RUNNING);
  sweep.set_version(1);
  *sweep.mutable_start_time() = ToProto(now);
  if (!sweep.spec().has_deadline()) {
    *sweep.mutable_spec()->mutable_deadline() = ToProto(kDefaultSweepDeadline);
  }
  *sweep.mutable_deadline_time() =
      ToProto(now + FromProto(sweep.spec().deadline()));

  TWINPATH_ASSIGN_OR_RETURN(const std::shared_ptr<PreparedReport> report,
                            artifacts_.Report(digest));
  std::vector<CellRow> cells;
  std::vector<std::string> waiting;
  std::vector<std::string> without_facts;
  for (const HostRow& host : hosts) {
    MutexLock lock(report->mutex);
    for (CellRow& cell : report->cells.MakeCells(sweep.id(), host, release)) {
      cells.push_back(std::move(cell));
    }
    (host.has_facts ? waiting : without_facts).push_back(host.id);
  }
  TWINPATH_RETURN_IF_ERROR(
      store_.Write([&](StoreTransaction& transaction) -> absl::Status {
        TWINPATH_RETURN_IF_ERROR(find_existing(transaction));
        if (!existing.empty()) return absl::OkStatus();
        TWINPATH_RETURN_IF_ERROR(transaction.InsertSweep(row));
        for (const CellRow& cell : cells) {
          TWINPATH_RETURN_IF_ERROR(transaction.InsertCell(cell));
        }
        return absl::OkStatus();
      }));
  if (!existing.empty()) return Get(existing);
  Log(LogLevel::kInfo, "sweep started",
      {{"sweep", sweep.id()},
       {"name", sweep.spec().name()},
       {"hosts", absl::StrCat(hosts.size())},
       {"cells", absl::StrCat(cells.size())}});
  // Facts may have come between reading the hosts and writing the cells.
  for (const std::string& host : without_facts) {
    TWINPATH_RETURN_IF_ERROR(RefreshHost(host));
  }
  TWINPATH_RETURN_IF_ERROR(Conclude(sweep.id()));
  events_.OnCellsWaiting(waiting);
  return Get(sweep.id());
}

absl::Status Sweeps::Judge(LoadedSweep& loaded) {
  v1::Sweep& sweep = loaded.sweep;
  TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest,
                            ArtifactOf(sweep.spec().release()));
  TWINPATH_ASSIGN_OR_RETURN(const std::shared_ptr<PreparedReport> report,
                            artifacts_.Report(digest));
  const bool fixed = sweep.has_verdict();
  v1::Sweep stored;
  if (fixed) {
    *stored.mutable_verdict() = sweep.verdict();
    *stored.mutable_hosts() = sweep.hosts();
    *stored.mutable_findings() = sweep.findings();
    *stored.mutable_missing_hosts() = sweep.missing_hosts();
  }
  model_.judge(sweep, report->report);
  if (fixed) {
    // What was stored at the end stands; only the cells are judged again, since
    // their verdicts are not stored.
    *sweep.mutable_verdict() = stored.verdict();
    *sweep.mutable_hosts() = stored.hosts();
    *sweep.mutable_findings() = stored.findings();
    *sweep.mutable_missing_hosts() = stored.missing_hosts();
  }
  if (!loaded.unstable.empty()) {
    ApplyUnstable(loaded.unstable, sweep);
    sweep.mutable_verdict()->set_statement(model_.statement(sweep));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const v1::Sweep>> Sweeps::Judged(
    absl::string_view id) {
  LoadedSweep loaded;
  std::shared_ptr<const v1::Sweep> known;
  TWINPATH_RETURN_IF_ERROR(
      store_.Read([&](const StoreView& view) -> absl::Status {
        const absl::StatusOr<SweepRow> row = view.GetSweep(id);
        if (absl::IsNotFound(row.status())) return UnknownSweep(view, id);
        TWINPATH_RETURN_IF_ERROR(row.status());
        {
          MutexLock lock(mutex_);
          for (const auto& sweep : judged_) {
            if (sweep->id() == id && sweep->version() == row->sweep.version()) {
              known = sweep;
              return absl::OkStatus();
            }
          }
        }
        TWINPATH_ASSIGN_OR_RETURN(loaded, LoadSweep(view, id));
        return absl::OkStatus();
      }));
  if (known != nullptr) return known;
  TWINPATH_RETURN_IF_ERROR(Judge(loaded));
  const auto judged =
      std::make_shared<const v1::Sweep>(std::move(loaded.sweep));
  MutexLock lock(mutex_);
  std::erase_if(judged_, [&](const auto& sweep) { return sweep->id() == id; });
  judged_.push_back(judged);
  if (judged_.size() > kJudgedInMemory) judged_.pop_front();
  return judged;
}

absl::StatusOr<v1::Sweep> Sweeps::Get(absl::string_view id) {
  TWINPATH_ASSIGN_OR_RETURN(const std::shared_ptr<const v1::Sweep> judged,
                            Judged(id));
  v1::Sweep sweep = *judged;
  if (sweep.state() == v1::SWEEP_STATE_RUNNING) return sweep;
  absl::flat_hash_map<std::string, std::string> conditions;
  TWINPATH_RETURN_IF_ERROR(
      store_.Read([&](const StoreView& view) -> absl::Status {
        TWINPATH_ASSIGN_OR_RETURN(std::vector<HostName> hosts,
                                  view.ListHostNames());
        for (HostName& host : hosts) {
          conditions[host.id] = std::move(host.conditions);
        }
        return absl::OkStatus();
      }));
  ApplyStale(conditions, sweep);
  return sweep;
}

absl::Status Sweeps::EndWith(const std::string& id, v1::SweepState ending,
                             const v1::Reason& reason) {
  std::vector<std::pair<std::string, std::string>> leased;
  ChangedSweeps changed;
  TWINPATH_RETURN_IF_ERROR(
      store_.Write([&](StoreTransaction& transaction) -> absl::Status {
        leased.clear();
        changed.clear();
        TWINPATH_ASSIGN_OR_RETURN(const bool chosen,
                                  transaction.ChooseEnding(id, ending));
        if (!chosen) return absl::OkStatus();
        TWINPATH_ASSIGN_OR_RETURN(
            leased, dispatcher_.EndOpenCells(transaction, id, reason, changed));
        return absl::OkStatus();
      }));
  for (const auto& [host, cell] : leased) events_.OnCellEnded(host, cell);
  return Conclude(id);
}

absl::StatusOr<v1::Sweep> Sweeps::Cancel(absl::string_view id) {
  TWINPATH_RETURN_IF_ERROR(store_.Read([&](const StoreView& view) {
    const absl::Status found = view.GetSweep(id).status();
    return absl::IsNotFound(found) ? UnknownSweep(view, id) : found;
  }));
  TWINPATH_RETURN_IF_ERROR(
      EndWith(std::string(id), v1::SWEEP_STATE_CANCELLED,
              MakeCellReason("TP416", "a person ended the sweep")));
  return Get(id);
}

absl::StatusOr<v1::ListSweepsResponse> Sweeps::List(
    const v1::ListSweepsRequest& request) const {
  TWINPATH_ASSIGN_OR_RETURN(const int64_t size, PageSize(request.page_size()));
  TWINPATH_ASSIGN_OR_RETURN(const int64_t before,
                            NumberToken(request.page_token()));
  v1::ListSweepsResponse response;
  TWINPATH_RETURN_IF_ERROR(
      store_.Read([&](const StoreView& view) -> absl::Status {
        TWINPATH_ASSIGN_OR_RETURN(std::vector<SweepRow> rows,
                                  view.ListSweeps(before, size));
        response.set_next_page_token(
            FillPage(rows, size, [&response](SweepRow& row) {
              const uint64_t bytes = row.sweep.ByteSizeLong();
              *response.add_sweeps() = std::move(row.sweep);
              return bytes;
            }));
        return absl::OkStatus();
      }));
  return response;
}

absl::Status Sweeps::RefreshHost(const std::string& host_id) {
  HostRow host;
  std::vector<CellRow> open;
  std::map<std::string, v1::Release> releases;
  TWINPATH_RETURN_IF_ERROR(
      store_.Read([&](const StoreView& view) -> absl::Status {
        TWINPATH_ASSIGN_OR_RETURN(host, view.GetHost(host_id));
        if (!host.has_facts) return absl::OkStatus();
        TWINPATH_ASSIGN_OR_RETURN(open, view.ListOpenHostCells(host_id));
        std::erase_if(open, [&](const CellRow& row) {
          return row.cell.state() != v1::CELL_STATE_WAITING ||
                 (!row.needs_facts &&
                  row.cell.conditions_digest().sha256() == host.conditions);
        });
        for (const CellRow& row : open) {
          v1::Release& release = releases[row.cell.sweep_id()];
          if (release.entries_size() > 0) continue;
          TWINPATH_ASSIGN_OR_RETURN(SweepRow sweep,
                                    view.GetSweep(row.cell.sweep_id()));
          release = std::move(*sweep.sweep.mutable_spec()->mutable_release());
        }
        return absl::OkStatus();
      }));
  if (open.empty()) return absl::OkStatus();

  std::vector<CellRow> updated;
  std::vector<CellRow> made;
  std::set<std::string> placeholders_of;
  for (CellRow& row : open) {
    const std::string& sweep_id = row.cell.sweep_id();
    const v1::Release& release = releases[sweep_id];
    TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest, ArtifactOf(release));
    TWINPATH_ASSIGN_OR_RETURN(const std::shared_ptr<PreparedReport> report,
                              artifacts_.Report(digest));
    MutexLock lock(report->mutex);
    if (!row.needs_facts) {
      report->cells.UpdateCell(host, release, row);
      updated.push_back(std::move(row));
    } else if (placeholders_of.insert(sweep_id).second) {
      for (CellRow& cell : report->cells.MakeCells(sweep_id, host, release)) {
        made.push_back(std::move(cell));
      }
    }
  }
  ChangedSweeps changed;
  TWINPATH_RETURN_IF_ERROR(
      store_.Write([&](StoreTransaction& transaction) -> absl::Status {
        changed.clear();
        TWINPATH_ASSIGN_OR_RETURN(const HostRow current,
                                  transaction.GetHost(host_id));
        // Newer facts come with a refresh of their own.
        if (current.facts_received != host.facts_received) {
          return absl::OkStatus();
        }
        TWINPATH_ASSIGN_OR_RETURN(const std::vector<CellRow> now_open,
                                  transaction.ListOpenHostCells(host_id));
        std::map<std::string, const CellRow*> known;
        std::set<std::string> replaced;
        for (const CellRow& row : now_open) {
          known[row.cell.id()] = &row;
          if (!row.needs_facts ||
              !placeholders_of.contains(row.cell.sweep_id())) {
            continue;
          }
          TWINPATH_RETURN_IF_ERROR(transaction.DeleteCell(row.cell.id()));
          replaced.insert(row.cell.sweep_id());
        }
        for (const CellRow& row : made) {
          if (!replaced.contains(row.cell.sweep_id())) continue;
          TWINPATH_RETURN_IF_ERROR(transaction.InsertCell(row));
          changed.insert(row.cell.sweep_id());
        }
        for (const CellRow& row : updated) {
          const auto it = known.find(row.cell.id());
          if (it == known.end() ||
              it->second->cell.state() != v1::CELL_STATE_WAITING) {
            continue;
          }
          // Only what the facts decide: results and leases that came since the
          // cell was read stay as they are.
          CellRow merged = *it->second;
          const uint32_t leases = merged.cell.leases();
          merged.cell = row.cell;
          merged.cell.set_leases(leases);
          if (row.cell.state() == v1::CELL_STATE_ENDED) {
            merged.reasons = row.reasons;
          }
          TWINPATH_RETURN_IF_ERROR(transaction.PutCell(merged));
          changed.insert(row.cell.sweep_id());
        }
        for (const std::string& id : changed) {
          TWINPATH_RETURN_IF_ERROR(transaction.RaiseSweep(id).status());
        }
        return absl::OkStatus();
      }));
  if (!changed.empty()) {
    events_.OnSweepsChanged(changed);
    events_.OnCellsWaiting({host_id});
  }
  return absl::OkStatus();
}

absl::Status Sweeps::Conclude(const std::string& id) {
  for (int i = 0; i < kConcludeTries; ++i) {
    LoadedSweep loaded;
    TWINPATH_RETURN_IF_ERROR(
        store_.Read([&](const StoreView& view) -> absl::Status {
          TWINPATH_ASSIGN_OR_RETURN(loaded, LoadSweep(view, id));
          return absl::OkStatus();
        }));
    v1::Sweep& sweep = loaded.sweep;
    if (sweep.state() != v1::SWEEP_STATE_RUNNING || HasOpenCells(sweep)) {
      return absl::OkStatus();
    }
    const uint64_t version = sweep.version();
    sweep.set_state(loaded.ending == v1::SWEEP_STATE_UNSPECIFIED
                        ? v1::SWEEP_STATE_DONE
                        : loaded.ending);
    *sweep.mutable_end_time() = ToProto(store_.Now());
    TWINPATH_RETURN_IF_ERROR(Judge(loaded));
    bool finished = false;
    TWINPATH_RETURN_IF_ERROR(
        store_.Write([&](StoreTransaction& transaction) -> absl::Status {
          TWINPATH_ASSIGN_OR_RETURN(finished,
                                    transaction.FinishSweep(version, sweep));
          return absl::OkStatus();
        }));
    if (finished) {
      Log(LogLevel::kInfo, "sweep ended",
          {{"sweep", id},
           {"state", v1::SweepState_Name(sweep.state())},
           {"verdict", v1::VerdictKind_Name(sweep.verdict().kind())}});
      events_.OnSweepsChanged({id});
      return absl::OkStatus();
    }
    // Something changed meanwhile: judge again.
  }
  return absl::AbortedError(
      absl::StrCat("sweep ", id, " changes faster than it can be judged"));
}

absl::Status Sweeps::Tick() {
  if (store_.Backlog() > kBehind) return absl::OkStatus();
  const absl::Time now = store_.Now();
  bool expired = false;
  std::vector<OpenSweep> open;
  std::vector<std::string> waiting;
  TWINPATH_RETURN_IF_ERROR(
      store_.Read([&](const StoreView& view) -> absl::Status {
        TWINPATH_ASSIGN_OR_RETURN(const std::vector<CellRow> leases,
                                  view.ListExpiredLeases(now));
        expired = !leases.empty();
        TWINPATH_ASSIGN_OR_RETURN(open, view.ListOpenSweeps());
        return absl::OkStatus();
      }));
  if (expired) {
    ChangedSweeps changed;
    TWINPATH_RETURN_IF_ERROR(store_.Write([&](StoreTransaction& transaction) {
      changed.clear();
      return dispatcher_.Expire(transaction, store_.Now(), changed);
    }));
    if (!changed.empty()) events_.OnSweepsChanged(changed);
  }
  // A sweep that cannot be ended holds up no other.
  absl::Status first;
  for (const OpenSweep& sweep : open) {
    absl::Status status;
    if (sweep.ending == v1::SWEEP_STATE_UNSPECIFIED && sweep.deadline <= now &&
        sweep.open_cells > 0) {
      status = EndWith(
          sweep.id, v1::SWEEP_STATE_DEADLINE,
          MakeCellReason("TP413", "the deadline came before an answer"));
    } else if (sweep.open_cells == 0) {
      status = Conclude(sweep.id);
    }
    if (!status.ok() && first.ok()) {
      first = WithContext(status, absl::StrCat("ending sweep ", sweep.id));
    }
  }
  if (open.empty()) return absl::OkStatus();
  TWINPATH_RETURN_IF_ERROR(
      store_.Read([&](const StoreView& view) -> absl::Status {
        TWINPATH_ASSIGN_OR_RETURN(waiting, view.ListWaitingHosts(store_.Now()));
        return absl::OkStatus();
      }));
  if (!waiting.empty()) events_.OnCellsWaiting(waiting);
  return first;
}

}  // namespace twinpath::coordinator
