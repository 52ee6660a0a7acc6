// Reads of the SQLite store.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/sqlite_rows.h"
#include "coordinator/sqlite_transaction.h"

namespace twinpath::coordinator {
namespace {

int64_t Before(int64_t before) {
  return before > 0 ? before : std::numeric_limits<int64_t>::max();
}

absl::Status ReadHostName(const SqliteQuery& query, HostName& row) {
  row.id = query.GetBytes(0);
  row.name = query.GetBytes(1);
  row.conditions = query.GetBytes(2);
  return absl::OkStatus();
}

absl::Status ReadText(const SqliteQuery& query, std::string& row) {
  row = query.GetBytes(0);
  return absl::OkStatus();
}

absl::Status ReadArtifact(const SqliteQuery& query, ArtifactRow& row) {
  row.sequence = query.GetInt(0);
  return ParseStored(query.GetBytes(1), "artifact", row.stored);
}

absl::Status ReadReport(const SqliteQuery& query, v1::ArtifactReport& row) {
  return ParseStored(query.GetBytes(0), "report", row);
}

absl::Status ReadOpenSweep(const SqliteQuery& query, OpenSweep& row) {
  row.id = query.GetBytes(0);
  row.deadline = query.GetTime(1);
  row.version = static_cast<uint64_t>(query.GetInt(2));
  row.ending = static_cast<v1::SweepState>(query.GetInt(3));
  row.open_cells = query.GetInt(4);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadHost(const SqliteQuery& query, HostRow& row) {
  row.id = query.GetBytes(0);
  row.name = query.GetBytes(1);
  row.machine_id = query.GetBytes(2);
  TWINPATH_ASSIGN_OR_RETURN(row.secret_digest,
                            Sha256::FromRaw(query.GetBytes(3)));
  row.simulated = query.GetInt(4) != 0;
  row.labels = SplitLabels(query.GetBytes(5));
  row.session = static_cast<uint64_t>(query.GetInt(6));
  row.enrolled = query.GetTime(7);
  row.seen = query.GetTime(8);
  row.skew = absl::Microseconds(query.GetInt(9));
  row.agent_version = query.GetBytes(10);
  row.boot_id = query.GetBytes(11);
  row.has_facts = !query.IsNull(12);
  if (row.has_facts) {
    TWINPATH_RETURN_IF_ERROR(
        ParseStored(query.GetBytes(12), "host facts", row.facts));
  }
  row.conditions = query.GetBytes(13);
  row.facts_received = query.GetTime(14);
  return absl::OkStatus();
}

absl::Status ReadSweep(const SqliteQuery& query, SweepRow& row) {
  row.sequence = query.GetInt(0);
  row.request_id = query.GetBytes(1);
  row.ending = static_cast<v1::SweepState>(query.GetInt(2));
  TWINPATH_RETURN_IF_ERROR(ParseStored(query.GetBytes(4), "sweep", row.sweep));
  row.sweep.set_version(static_cast<uint64_t>(query.GetInt(3)));
  return absl::OkStatus();
}

absl::Status ReadCell(const SqliteQuery& query, CellRow& row) {
  TWINPATH_RETURN_IF_ERROR(ParseStored(query.GetBytes(0), "cell", row.cell));
  row.cell.set_state(static_cast<v1::CellState>(query.GetInt(1)));
  row.cell.set_leases(static_cast<uint32_t>(query.GetInt(2)));
  row.ordinal = query.GetInt(3);
  row.exclusive = query.GetInt(4) != 0;
  row.needs_facts = query.GetInt(5) != 0;
  row.lease_id = query.GetBytes(6);
  row.lease_session = static_cast<uint64_t>(query.GetInt(7));
  row.lease_expire = query.GetTime(8);
  row.lease_started = query.GetInt(9) != 0;
  row.not_before = query.GetTime(10);
  row.result_id = query.GetBytes(11);
  row.unstable = query.GetInt(12) != 0;
  v1::Verdict reasons;
  TWINPATH_RETURN_IF_ERROR(ParseStored(query.GetBytes(13), "reason", reasons));
  row.reasons.assign(reasons.reasons().begin(), reasons.reasons().end());
  return absl::OkStatus();
}

absl::Status ReadResult(const SqliteQuery& query, ResultRow& row) {
  row.host_id = query.GetBytes(0);
  row.received = query.GetTime(1);
  return ParseStored(query.GetBytes(2), "result", row.result);
}

absl::StatusOr<HostRow> SqliteTransaction::GetHost(absl::string_view id) const {
  SqliteQuery query =
      db_.Prepare("SELECT " TWINPATH_HOST_COLUMNS "FROM hosts WHERE id = ?");
  query.Text(id);
  return ReadOne<HostRow>(query, ReadHost,
                          absl::StrCat("host ", id, " is not known"));
}

absl::StatusOr<HostRow> SqliteTransaction::FindHost(
    absl::string_view name) const {
  SqliteQuery query =
      db_.Prepare("SELECT " TWINPATH_HOST_COLUMNS "FROM hosts WHERE name = ?");
  query.Text(name);
  return ReadOne<HostRow>(query, ReadHost,
                          absl::StrCat("host ", name, " is not known"));
}

absl::StatusOr<std::vector<HostRow>> SqliteTransaction::ListHosts(
    absl::string_view after_name, int64_t limit) const {
  SqliteQuery query =
      db_.Prepare("SELECT " TWINPATH_HOST_COLUMNS
                  "FROM hosts WHERE name > ? ORDER BY name LIMIT ?");
  query.Text(after_name).Int(limit);
  return ReadAll<HostRow>(query, ReadHost);
}

absl::StatusOr<std::vector<HostName>> SqliteTransaction::ListHostNames() const {
  SqliteQuery query =
      db_.Prepare("SELECT id, name, conditions FROM hosts ORDER BY name");
  return ReadAll<HostName>(query, ReadHostName);
}

absl::StatusOr<ArtifactRow> SqliteTransaction::GetArtifact(
    const Sha256& digest) const {
  SqliteQuery query =
      db_.Prepare("SELECT sequence, body FROM artifacts WHERE digest = ?");
  query.Blob(digest.Raw());
  return ReadOne<ArtifactRow>(
      query, ReadArtifact,
      absl::StrCat("artifact ", digest.Hex(), " is not registered"));
}

absl::StatusOr<v1::ArtifactReport> SqliteTransaction::GetReport(
    const Sha256& digest) const {
  SqliteQuery query = db_.Prepare("SELECT body FROM reports WHERE digest = ?");
  query.Blob(digest.Raw());
  return ReadOne<v1::ArtifactReport>(
      query, ReadReport,
      absl::StrCat("artifact ", digest.Hex(), " is not registered"));
}

absl::StatusOr<std::vector<ArtifactRow>> SqliteTransaction::ListArtifacts(
    int64_t before, int64_t limit) const {
  SqliteQuery query = db_.Prepare(
      "SELECT sequence, body FROM artifacts WHERE sequence < ? "
      "ORDER BY sequence DESC LIMIT ?");
  query.Int(Before(before)).Int(limit);
  return ReadAll<ArtifactRow>(query, ReadArtifact);
}

absl::StatusOr<SweepRow> SqliteTransaction::GetSweep(
    absl::string_view id) const {
  SqliteQuery query =
      db_.Prepare("SELECT " TWINPATH_SWEEP_COLUMNS "FROM sweeps WHERE id = ?");
  query.Text(id);
  return ReadOne<SweepRow>(query, ReadSweep,
                           absl::StrCat("sweep ", id, " is not known"));
}

absl::StatusOr<SweepRow> SqliteTransaction::FindSweepByRequest(
    absl::string_view request_id) const {
  SqliteQuery query = db_.Prepare("SELECT " TWINPATH_SWEEP_COLUMNS
                                  "FROM sweeps WHERE request_id = ?");
  query.Text(request_id);
  return ReadOne<SweepRow>(query, ReadSweep, "no sweep of this request");
}

absl::StatusOr<std::vector<SweepRow>> SqliteTransaction::ListSweeps(
    int64_t before, int64_t limit) const {
  SqliteQuery query = db_.Prepare("SELECT " TWINPATH_SWEEP_COLUMNS
                                  "FROM sweeps WHERE sequence < ? "
                                  "ORDER BY sequence DESC LIMIT ?");
  query.Int(Before(before)).Int(limit);
  return ReadAll<SweepRow>(query, ReadSweep);
}

absl::StatusOr<std::vector<OpenSweep>> SqliteTransaction::ListOpenSweeps()
    const {
  // state 1: running.
  SqliteQuery query = db_.Prepare(
      "SELECT id, deadline, version, ending, (SELECT count(*) FROM cells "
      "WHERE cells.sweep_id = sweeps.id AND cells.state IN (1, 2)) "
      "FROM sweeps WHERE state = 1");
  return ReadAll<OpenSweep>(query, ReadOpenSweep);
}

absl::StatusOr<CellRow> SqliteTransaction::GetCell(absl::string_view id) const {
  SqliteQuery query = db_.Prepare("SELECT " TWINPATH_CELL_COLUMNS
                                  "FROM cells c WHERE c.id = ?");
  query.Text(id);
  return ReadOne<CellRow>(query, ReadCell,
                          absl::StrCat("cell ", id, " is not known"));
}

absl::StatusOr<std::vector<CellRow>> SqliteTransaction::ListSweepCells(
    absl::string_view sweep_id) const {
  SqliteQuery query = db_.Prepare("SELECT " TWINPATH_CELL_COLUMNS
                                  "FROM cells c WHERE c.sweep_id = ? "
                                  "ORDER BY c.host_name, c.ordinal");
  query.Text(sweep_id);
  return ReadAll<CellRow>(query, ReadCell);
}

absl::StatusOr<std::vector<CellRow>> SqliteTransaction::ListOpenHostCells(
    absl::string_view host_id) const {
  SqliteQuery query =
      db_.Prepare("SELECT " TWINPATH_CELL_COLUMNS
                  "FROM cells c JOIN sweeps s ON s.id = c.sweep_id "
                  "WHERE c.host_id = ? AND c.state IN (1, 2) "
                  "ORDER BY s.sequence, c.ordinal");
  query.Text(host_id);
  return ReadAll<CellRow>(query, ReadCell);
}

absl::StatusOr<std::vector<CellRow>> SqliteTransaction::ListExpiredLeases(
    absl::Time now) const {
  SqliteQuery query =
      db_.Prepare("SELECT " TWINPATH_CELL_COLUMNS
                  "FROM cells c WHERE c.state = 2 AND c.lease_started = 0 "
                  "AND c.lease_expire <= ?");
  query.Time(now);
  return ReadAll<CellRow>(query, ReadCell);
}

absl::StatusOr<std::vector<std::string>> SqliteTransaction::ListWaitingHosts(
    absl::Time now) const {
  SqliteQuery query = db_.Prepare(
      "SELECT DISTINCT host_id FROM cells WHERE state IN (1, 2) AND state = 1 "
      "AND needs_facts = 0 AND (not_before IS NULL OR not_before <= ?)");
  query.Time(now);
  return ReadAll<std::string>(query, ReadText);
}

absl::StatusOr<ResultRow> SqliteTransaction::GetResult(
    absl::string_view result_id) const {
  SqliteQuery query = db_.Prepare("SELECT " TWINPATH_RESULT_COLUMNS
                                  "FROM results r WHERE r.id = ?");
  query.Text(result_id);
  return ReadOne<ResultRow>(
      query, ReadResult, absl::StrCat("result ", result_id, " is not known"));
}

absl::StatusOr<std::vector<ResultRow>> SqliteTransaction::ListResults(
    absl::string_view cell_id) const {
  SqliteQuery query =
      db_.Prepare("SELECT " TWINPATH_RESULT_COLUMNS
                  "FROM results r WHERE r.cell_id = ? ORDER BY r.sequence");
  query.Text(cell_id);
  return ReadAll<ResultRow>(query, ReadResult);
}

absl::StatusOr<std::vector<ResultRow>> SqliteTransaction::ListSweepResults(
    absl::string_view sweep_id) const {
  SqliteQuery query =
      db_.Prepare("SELECT " TWINPATH_RESULT_COLUMNS
                  "FROM cells c JOIN results r ON r.id = c.result_id "
                  "WHERE c.sweep_id = ? AND c.result_id <> ''");
  query.Text(sweep_id);
  return ReadAll<ResultRow>(query, ReadResult);
}

}  // namespace twinpath::coordinator
