// The only code that touches SQLite's C interface: a connection and its
// prepared statements, with statuses in place of result codes. Not thread-safe:
// one connection is used by one thread at a time.

#ifndef TWINPATH_COORDINATOR_SQLITE_DB_H_
#define TWINPATH_COORDINATOR_SQLITE_DB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

struct sqlite3;
struct sqlite3_stmt;

namespace twinpath::coordinator {

class SqliteDb;

// One run of a statement: bind in order, step, read columns; resets itself.
// An error of preparing or binding is reported by the first Step or Run.
class SqliteQuery {
 public:
  SqliteQuery(SqliteQuery&& other) noexcept;
  SqliteQuery& operator=(SqliteQuery&&) = delete;
  ~SqliteQuery();

  SqliteQuery& Int(int64_t value);
  SqliteQuery& Text(absl::string_view value);
  SqliteQuery& Blob(absl::string_view value);
  // Microseconds since the epoch; InfinitePast is NULL.
  SqliteQuery& Time(absl::Time value);

  // Moves to the next row; false behind the last.
  absl::StatusOr<bool> Step();
  // Runs to the end, ignoring rows.
  absl::Status Run();

  int64_t GetInt(int column) const;
  std::string GetBytes(int column) const;
  bool IsNull(int column) const;
  absl::Time GetTime(int column) const;

 private:
  friend class SqliteDb;
  SqliteQuery(SqliteDb* db, sqlite3_stmt* statement, absl::Status status);
  SqliteDb* db_;
  sqlite3_stmt* statement_;
  absl::Status status_;
  int bound_ = 0;
};

class SqliteDb {
 public:
  // Opens or creates the file: WAL, synchronous FULL, foreign keys on.
  // RESOURCE_EXHAUSTED, PERMISSION_DENIED, DATA_LOSS (not a database) name it.
  static absl::StatusOr<std::unique_ptr<SqliteDb>> Open(
      const std::string& path);
  ~SqliteDb();

  // Runs one or more statements without parameters.
  absl::Status Execute(const std::string& sql);
  // Prepares a statement, or takes it from the cache. One run of a text at a
  // time.
  SqliteQuery Prepare(absl::string_view sql);
  // Rows changed by the last statement.
  int64_t Changes() const;
  // Whether a transaction is open; an error may have ended it.
  bool InTransaction() const;
  // Caps the file's size, so that tests meet a full disk.
  absl::Status SetMaxPages(int64_t pages);

  // The status for a result code, with SQLite's message. Full disks of every
  // kind are RESOURCE_EXHAUSTED, broken constraints ALREADY_EXISTS, broken
  // files DATA_LOSS.
  absl::Status Error(int result, absl::string_view what) const;

 private:
  SqliteDb(sqlite3* db, std::string path);
  sqlite3* db_;
  std::string path_;
  std::unordered_map<std::string, sqlite3_stmt*> statements_;
};

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_SQLITE_DB_H_
