// Writes of the SQLite store.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/sqlite_rows.h"
#include "coordinator/sqlite_transaction.h"

namespace twinpath::coordinator {
namespace {

std::string ReasonBytes(const CellRow& row) {
  v1::Verdict reasons;
  for (const v1::Reason& reason : row.reasons) *reasons.add_reasons() = reason;
  return reasons.SerializeAsString();
}

// The cell as stored: what has a column or a table of its own is left out.
std::string CellBytes(const CellRow& row) {
  v1::Cell cell = row.cell;
  cell.clear_result();
  cell.clear_verdict();
  cell.clear_state();
  cell.clear_leases();
  return cell.SerializeAsString();
}

std::string SweepBytes(const v1::Sweep& sweep) {
  v1::Sweep body = sweep;
  body.clear_cells();
  body.clear_version();
  return body.SerializeAsString();
}

// Binds what of a cell may change: ordinal, state, exclusive, needs_facts,
// leases, lease_id, lease_session, lease_expire, lease_started, not_before,
// result_id, unstable, reasons, body.
SqliteQuery& BindChanging(const CellRow& row, SqliteQuery& query) {
  return query.Int(row.ordinal)
      .Int(row.cell.state())
      .Int(row.exclusive ? 1 : 0)
      .Int(row.needs_facts ? 1 : 0)
      .Int(row.cell.leases())
      .Text(row.lease_id)
      .Int(static_cast<int64_t>(row.lease_session))
      .Time(row.lease_expire)
      .Int(row.lease_started ? 1 : 0)
      .Time(row.not_before)
      .Text(row.result_id)
      .Int(row.unstable ? 1 : 0)
      .Blob(ReasonBytes(row))
      .Blob(CellBytes(row));
}

}  // namespace

absl::Status SqliteTransaction::ChangeOne(SqliteQuery& query,
                                          absl::string_view what) {
  TWINPATH_RETURN_IF_ERROR(query.Run());
  if (db_.Changes() == 1) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(what, " is not known"));
}

absl::Status SqliteTransaction::InsertJoinToken(const Sha256& digest,
                                                absl::Time expire,
                                                uint32_t uses) {
  SqliteQuery query = db_.Prepare(
      "INSERT INTO join_tokens (digest, expire, uses) VALUES (?, ?, ?)");
  return query.Blob(digest.Raw()).Time(expire).Int(uses).Run();
}

absl::Status SqliteTransaction::UseJoinToken(const Sha256& digest,
                                             absl::Time now) {
  SqliteQuery query = db_.Prepare(
      "UPDATE join_tokens SET uses = uses - 1 "
      "WHERE digest = ? AND uses > 0 AND expire > ?");
  TWINPATH_RETURN_IF_ERROR(query.Blob(digest.Raw()).Time(now).Run());
  if (db_.Changes() == 1) return absl::OkStatus();
  return absl::UnauthenticatedError(
      "join token is unknown, used up or expired; make a new one");
}

absl::Status SqliteTransaction::InsertHost(const HostRow& host) {
  SqliteQuery query = db_.Prepare(
      "INSERT INTO hosts (id, name, machine_id, secret, simulated, labels, "
      "session, enrolled, seen, skew, agent_version, boot_id) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  return query.Text(host.id)
      .Text(host.name)
      .Text(host.machine_id)
      .Blob(host.secret_digest.Raw())
      .Int(host.simulated ? 1 : 0)
      .Text(JoinLabels(host.labels))
      .Int(static_cast<int64_t>(host.session))
      .Time(host.enrolled)
      .Time(host.seen)
      .Int(absl::ToInt64Microseconds(host.skew))
      .Text(host.agent_version)
      .Text(host.boot_id)
      .Run();
}

absl::Status SqliteTransaction::ReplaceHostSecret(
    absl::string_view id, const Sha256& secret_digest,
    const std::vector<std::string>& labels) {
  SqliteQuery query =
      db_.Prepare("UPDATE hosts SET secret = ?, labels = ? WHERE id = ?");
  query.Blob(secret_digest.Raw()).Text(JoinLabels(labels)).Text(id);
  return ChangeOne(query, absl::StrCat("host ", id));
}

absl::StatusOr<uint64_t> SqliteTransaction::RaiseSession(absl::string_view id) {
  SqliteQuery query = db_.Prepare(
      "UPDATE hosts SET session = session + 1 WHERE id = ? RETURNING session");
  query.Text(id);
  TWINPATH_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) {
    return absl::NotFoundError(absl::StrCat("host ", id, " is not known"));
  }
  const uint64_t session = static_cast<uint64_t>(query.GetInt(0));
  TWINPATH_RETURN_IF_ERROR(query.Run());
  return session;
}

absl::Status SqliteTransaction::PutHello(absl::string_view id, absl::Time seen,
                                         absl::Duration skew,
                                         absl::string_view agent_version,
                                         absl::string_view boot_id) {
  SqliteQuery query = db_.Prepare(
      "UPDATE hosts SET seen = max(coalesce(seen, 0), ?), skew = ?, "
      "agent_version = ?, boot_id = ? WHERE id = ?");
  query.Time(seen)
      .Int(absl::ToInt64Microseconds(skew))
      .Text(agent_version)
      .Text(boot_id)
      .Text(id);
  return ChangeOne(query, absl::StrCat("host ", id));
}

absl::Status SqliteTransaction::PutFacts(absl::string_view id,
                                         const v1::HostFacts& facts,
                                         absl::string_view conditions,
                                         absl::Time received) {
  SqliteQuery query = db_.Prepare(
      "UPDATE hosts SET facts = ?, conditions = ?, facts_received = ? "
      "WHERE id = ?");
  query.Blob(facts.SerializeAsString())
      .Blob(conditions)
      .Time(received)
      .Text(id);
  return ChangeOne(query, absl::StrCat("host ", id));
}

absl::Status SqliteTransaction::PutSeen(absl::string_view id, absl::Time seen) {
  SqliteQuery query = db_.Prepare(
      "UPDATE hosts SET seen = max(coalesce(seen, 0), ?) WHERE id = ?");
  query.Time(seen).Text(id);
  return ChangeOne(query, absl::StrCat("host ", id));
}

absl::StatusOr<bool> SqliteTransaction::InsertArtifact(
    const Sha256& digest, const v1::StoredArtifact& stored,
    const v1::ArtifactReport& report) {
  {
    SqliteQuery query = db_.Prepare(
        "INSERT INTO artifacts (digest, body) VALUES (?, ?) "
        "ON CONFLICT(digest) DO NOTHING");
    TWINPATH_RETURN_IF_ERROR(
        query.Blob(digest.Raw()).Blob(stored.SerializeAsString()).Run());
  }
  if (db_.Changes() == 0) return false;
  SqliteQuery query =
      db_.Prepare("INSERT INTO reports (digest, body) VALUES (?, ?)");
  TWINPATH_RETURN_IF_ERROR(
      query.Blob(digest.Raw()).Blob(report.SerializeAsString()).Run());
  return true;
}

absl::Status SqliteTransaction::InsertSweep(const SweepRow& row) {
  SqliteQuery query = db_.Prepare(
      "INSERT INTO sweeps (id, request_id, state, ending, version, deadline, "
      "body) VALUES (?, nullif(?, ''), ?, ?, ?, ?, ?)");
  const google::protobuf::Timestamp& deadline = row.sweep.deadline_time();
  return query.Text(row.sweep.id())
      .Text(row.request_id)
      .Int(row.sweep.state())
      .Int(row.ending)
      .Int(static_cast<int64_t>(row.sweep.version()))
      .Int(deadline.seconds() * 1'000'000 + deadline.nanos() / 1000)
      .Blob(SweepBytes(row.sweep))
      .Run();
}

absl::StatusOr<uint64_t> SqliteTransaction::RaiseSweep(absl::string_view id) {
  SqliteQuery query = db_.Prepare(
      "UPDATE sweeps SET version = version + 1 WHERE id = ? RETURNING version");
  query.Text(id);
  TWINPATH_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) {
    return absl::NotFoundError(absl::StrCat("sweep ", id, " is not known"));
  }
  const uint64_t version = static_cast<uint64_t>(query.GetInt(0));
  TWINPATH_RETURN_IF_ERROR(query.Run());
  return version;
}

absl::StatusOr<bool> SqliteTransaction::ChooseEnding(absl::string_view id,
                                                     v1::SweepState ending) {
  SqliteQuery query = db_.Prepare(
      "UPDATE sweeps SET ending = ?, version = version + 1 "
      "WHERE id = ? AND state = 1 AND ending = 0");
  TWINPATH_RETURN_IF_ERROR(query.Int(ending).Text(id).Run());
  return db_.Changes() == 1;
}

absl::StatusOr<bool> SqliteTransaction::FinishSweep(uint64_t expected_version,
                                                    const v1::Sweep& sweep) {
  SqliteQuery query = db_.Prepare(
      "UPDATE sweeps SET state = ?, version = version + 1, body = ? "
      "WHERE id = ? AND version = ? AND state = 1");
  TWINPATH_RETURN_IF_ERROR(query.Int(sweep.state())
                               .Blob(SweepBytes(sweep))
                               .Text(sweep.id())
                               .Int(static_cast<int64_t>(expected_version))
                               .Run());
  return db_.Changes() == 1;
}

absl::Status SqliteTransaction::InsertCell(const CellRow& row) {
  SqliteQuery query = db_.Prepare(
      "INSERT INTO cells (id, sweep_id, host_id, host_name, ordinal, state, "
      "exclusive, needs_facts, leases, lease_id, lease_session, lease_expire, "
      "lease_started, not_before, result_id, unstable, reasons, body) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  query.Text(row.cell.id())
      .Text(row.cell.sweep_id())
      .Text(row.cell.host_id())
      .Text(row.cell.host_name());
  return BindChanging(row, query).Run();
}

absl::Status SqliteTransaction::PutCell(const CellRow& row) {
  SqliteQuery query = db_.Prepare(
      "UPDATE cells SET ordinal = ?, state = ?, exclusive = ?, "
      "needs_facts = ?, leases = ?, lease_id = ?, lease_session = ?, "
      "lease_expire = ?, lease_started = ?, not_before = ?, result_id = ?, "
      "unstable = ?, reasons = ?, body = ? WHERE id = ?");
  BindChanging(row, query).Text(row.cell.id());
  return ChangeOne(query, absl::StrCat("cell ", row.cell.id()));
}

absl::Status SqliteTransaction::DeleteCell(absl::string_view id) {
  SqliteQuery query = db_.Prepare("DELETE FROM cells WHERE id = ?");
  query.Text(id);
  return ChangeOne(query, absl::StrCat("cell ", id));
}

absl::StatusOr<bool> SqliteTransaction::LeaseCell(absl::string_view cell_id,
                                                  absl::string_view host_id,
                                                  uint64_t session,
                                                  absl::string_view lease_id,
                                                  absl::Time expire) {
  // state 1: waiting; 2: leased.
  SqliteQuery query = db_.Prepare(
      "UPDATE cells SET state = 2, leases = leases + 1, lease_id = ?, "
      "lease_session = ?, lease_expire = ?, lease_started = 0 "
      "WHERE id = ? AND host_id = ? AND state = 1 AND needs_facts = 0 "
      "AND EXISTS (SELECT 1 FROM hosts WHERE hosts.id = cells.host_id "
      "AND hosts.session = ?)");
  TWINPATH_RETURN_IF_ERROR(query.Text(lease_id)
                               .Int(static_cast<int64_t>(session))
                               .Time(expire)
                               .Text(cell_id)
                               .Text(host_id)
                               .Int(static_cast<int64_t>(session))
                               .Run());
  return db_.Changes() == 1;
}

absl::StatusOr<bool> SqliteTransaction::InsertResult(const ResultRow& row) {
  SqliteQuery query = db_.Prepare(
      "INSERT INTO results (id, cell_id, host_id, received, body) "
      "VALUES (?, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING");
  TWINPATH_RETURN_IF_ERROR(query.Text(row.result.result_id())
                               .Text(row.result.cell_id())
                               .Text(row.host_id)
                               .Time(row.received)
                               .Blob(row.result.SerializeAsString())
                               .Run());
  return db_.Changes() == 1;
}

}  // namespace twinpath::coordinator
