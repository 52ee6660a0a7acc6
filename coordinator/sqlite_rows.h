// Column lists and row readers of the SQLite store, shared by its reads and
// writes.

#ifndef TWINPATH_COORDINATOR_SQLITE_ROWS_H_
#define TWINPATH_COORDINATOR_SQLITE_ROWS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "coordinator/sqlite_db.h"
#include "coordinator/store.h"

namespace twinpath::coordinator {

#define TWINPATH_HOST_COLUMNS                                            \
  "id, name, machine_id, secret, simulated, labels, session, enrolled, " \
  "seen, skew, agent_version, boot_id, facts, conditions, facts_received "
#define TWINPATH_SWEEP_COLUMNS "sequence, request_id, ending, version, body "
#define TWINPATH_CELL_COLUMNS                                          \
  "c.body, c.state, c.leases, c.ordinal, c.exclusive, c.needs_facts, " \
  "c.lease_id, c.lease_session, c.lease_expire, c.lease_started, "     \
  "c.not_before, c.result_id, c.unstable, c.reasons "
#define TWINPATH_RESULT_COLUMNS "r.host_id, r.received, r.body "

// Parses a stored message. DATA_LOSS names the column's subject.
template <typename Message>
absl::Status ParseStored(const std::string& bytes, absl::string_view what,
                         Message& message) {
  if (message.ParseFromString(bytes)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the store holds a broken ", what, "; restore a backup"));
}

absl::Status ReadHost(const SqliteQuery& query, HostRow& row);
absl::Status ReadSweep(const SqliteQuery& query, SweepRow& row);
absl::Status ReadCell(const SqliteQuery& query, CellRow& row);
absl::Status ReadResult(const SqliteQuery& query, ResultRow& row);

// All rows of a query.
template <typename Row>
absl::StatusOr<std::vector<Row>> ReadAll(
    SqliteQuery& query, absl::Status (*read)(const SqliteQuery&, Row&)) {
  std::vector<Row> rows;
  while (true) {
    TWINPATH_ASSIGN_OR_RETURN(const bool more, query.Step());
    if (!more) return rows;
    rows.emplace_back();
    TWINPATH_RETURN_IF_ERROR(read(query, rows.back()));
  }
}

// The one row of a query; NOT_FOUND with `missing` as its message.
template <typename Row>
absl::StatusOr<Row> ReadOne(SqliteQuery& query,
                            absl::Status (*read)(const SqliteQuery&, Row&),
                            absl::string_view missing) {
  TWINPATH_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) return absl::NotFoundError(missing);
  Row row;
  TWINPATH_RETURN_IF_ERROR(read(query, row));
  return row;
}

inline std::string JoinLabels(const std::vector<std::string>& labels) {
  return absl::StrJoin(labels, "\n");
}
inline std::vector<std::string> SplitLabels(absl::string_view labels) {
  return absl::StrSplit(labels, '\n', absl::SkipEmpty());
}

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_SQLITE_ROWS_H_
