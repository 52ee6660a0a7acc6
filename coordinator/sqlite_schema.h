// Schema of the SQLite store. A change adds a step to kSchemaSteps and never
// alters an earlier one; steps only add, so that a daemon of the version before
// still runs on the result.

#ifndef TWINPATH_COORDINATOR_SQLITE_SCHEMA_H_
#define TWINPATH_COORDINATOR_SQLITE_SCHEMA_H_

namespace twinpath::coordinator {

// kSchemaSteps[n] leads from version n to n + 1 (PRAGMA user_version).
// Times are microseconds since the epoch, NULL where never set. Columns named
// `body` hold the protobuf message of the same subject; what is searched or
// compared by the store stands in columns of its own.
inline constexpr const char* kSchemaSteps[] = {
    R"sql(
CREATE TABLE join_tokens (
  digest BLOB PRIMARY KEY,
  expire INTEGER NOT NULL,
  uses INTEGER NOT NULL
) STRICT;

CREATE TABLE hosts (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  machine_id TEXT NOT NULL,
  secret BLOB NOT NULL,
  simulated INTEGER NOT NULL,
  labels TEXT NOT NULL,
  session INTEGER NOT NULL,
  enrolled INTEGER NOT NULL,
  seen INTEGER,
  skew INTEGER NOT NULL,
  agent_version TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  facts BLOB,
  conditions BLOB,
  facts_received INTEGER
) STRICT;

CREATE TABLE artifacts (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  digest BLOB NOT NULL UNIQUE,
  body BLOB NOT NULL
) STRICT;

CREATE TABLE reports (
  digest BLOB PRIMARY KEY REFERENCES artifacts(digest),
  body BLOB NOT NULL
) STRICT;

CREATE TABLE sweeps (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  request_id TEXT UNIQUE,
  state INTEGER NOT NULL,
  ending INTEGER NOT NULL,
  version INTEGER NOT NULL,
  deadline INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT;
CREATE INDEX sweeps_running ON sweeps(deadline) WHERE state = 1;

CREATE TABLE cells (
  id TEXT PRIMARY KEY,
  sweep_id TEXT NOT NULL REFERENCES sweeps(id),
  host_id TEXT NOT NULL REFERENCES hosts(id),
  host_name TEXT NOT NULL,
  ordinal INTEGER NOT NULL,
  state INTEGER NOT NULL,
  exclusive INTEGER NOT NULL,
  needs_facts INTEGER NOT NULL,
  leases INTEGER NOT NULL,
  lease_id TEXT NOT NULL,
  lease_session INTEGER NOT NULL,
  lease_expire INTEGER,
  lease_started INTEGER NOT NULL,
  not_before INTEGER,
  result_id TEXT NOT NULL,
  unstable INTEGER NOT NULL,
  reasons BLOB NOT NULL,
  body BLOB NOT NULL
) STRICT;
CREATE INDEX cells_of_sweep ON cells(sweep_id, host_name, ordinal);
CREATE INDEX cells_open_by_sweep ON cells(sweep_id) WHERE state IN (1, 2);
CREATE INDEX cells_open_by_host ON cells(host_id) WHERE state IN (1, 2);
CREATE INDEX cells_leased ON cells(lease_expire) WHERE state = 2;

CREATE TABLE results (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  cell_id TEXT NOT NULL,
  host_id TEXT NOT NULL,
  received INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT;
CREATE INDEX results_of_cell ON results(cell_id);
)sql",
};

inline constexpr int kSchemaVersion =
    static_cast<int>(sizeof(kSchemaSteps) / sizeof(kSchemaSteps[0]));

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_SQLITE_SCHEMA_H_
