#include "coordinator/sqlite_db.h"

#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace twinpath::coordinator {

SqliteQuery::SqliteQuery(SqliteDb* db, sqlite3_stmt* statement,
                         absl::Status status)
    : db_(db), statement_(statement), status_(std::move(status)) {}

SqliteQuery::SqliteQuery(SqliteQuery&& other) noexcept
    : db_(other.db_),
      statement_(std::exchange(other.statement_, nullptr)),
      status_(other.status_),
      bound_(other.bound_) {}

SqliteQuery::~SqliteQuery() {
  if (statement_ != nullptr) {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
}

SqliteQuery& SqliteQuery::Int(int64_t value) {
  if (status_.ok()) {
    const int result = sqlite3_bind_int64(statement_, ++bound_, value);
    if (result != SQLITE_OK) status_ = db_->Error(result, "binding");
  }
  return *this;
}

SqliteQuery& SqliteQuery::Text(absl::string_view value) {
  if (status_.ok()) {
    // A null pointer would bind NULL.
    const char* data = value.data() == nullptr ? "" : value.data();
    const int result =
        sqlite3_bind_text64(statement_, ++bound_, data, value.size(),
                            SQLITE_TRANSIENT, SQLITE_UTF8);
    if (result != SQLITE_OK) status_ = db_->Error(result, "binding");
  }
  return *this;
}

SqliteQuery& SqliteQuery::Blob(absl::string_view value) {
  if (status_.ok()) {
    const char* data = value.data() == nullptr ? "" : value.data();
    const int result = sqlite3_bind_blob64(statement_, ++bound_, data,
                                           value.size(), SQLITE_TRANSIENT);
    if (result != SQLITE_OK) status_ = db_->Error(result, "binding");
  }
  return *this;
}

SqliteQuery& SqliteQuery::Time(absl::Time value) {
  if (value == absl::InfinitePast()) {
    // Unbound parameters are NULL.
    ++bound_;
    return *this;
  }
  return Int(absl::ToUnixMicros(value));
}

absl::StatusOr<bool> SqliteQuery::Step() {
  TWINPATH_RETURN_IF_ERROR(status_);
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  status_ = db_->Error(result, sqlite3_sql(statement_));
  return status_;
}

absl::Status SqliteQuery::Run() {
  while (true) {
    TWINPATH_ASSIGN_OR_RETURN(const bool row, Step());
    if (!row) return absl::OkStatus();
  }
}

int64_t SqliteQuery::GetInt(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::string SqliteQuery::GetBytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  if (data == nullptr || size <= 0) return "";
  return std::string(static_cast<const char*>(data), static_cast<size_t>(size));
}

bool SqliteQuery::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

absl::Time SqliteQuery::GetTime(int column) const {
  if (IsNull(column)) return absl::InfinitePast();
  return absl::FromUnixMicros(GetInt(column));
}

SqliteDb::SqliteDb(sqlite3* db, std::string path)
    : db_(db), path_(std::move(path)) {}

SqliteDb::~SqliteDb() {
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(db_);
}

absl::StatusOr<std::unique_ptr<SqliteDb>> SqliteDb::Open(
    const std::string& path) {
  sqlite3* raw = nullptr;
  const int result =
      sqlite3_open_v2(path.c_str(), &raw,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                          SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                      nullptr);
  std::unique_ptr<SqliteDb> db(new SqliteDb(raw, path));
  if (raw == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("opening ", path, ": out of memory"));
  }
  if (result != SQLITE_OK) return db->Error(result, "opening");
  sqlite3_busy_timeout(raw, 10'000);
  // Content of a database file is data, never code.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  TWINPATH_RETURN_IF_ERROR(
      db->Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; "
                  "PRAGMA foreign_keys=ON; PRAGMA wal_autocheckpoint=1000; "
                  "PRAGMA journal_size_limit=67108864;"));
  return db;
}

absl::Status SqliteDb::Execute(const std::string& sql) {
  const int result = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  return result == SQLITE_OK ? absl::OkStatus() : Error(result, sql);
}

SqliteQuery SqliteDb::Prepare(absl::string_view sql) {
  sqlite3_stmt*& statement = statements_[std::string(sql)];
  absl::Status status;
  if (statement == nullptr) {
    const int result =
        sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()),
                           SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (result != SQLITE_OK) status = Error(result, sql);
  } else if (sqlite3_stmt_busy(statement) != 0) {
    status = absl::InternalError(absl::StrCat("statement in use: ", sql));
    return SqliteQuery(this, nullptr, status);
  }
  return SqliteQuery(this, statement, status);
}

int64_t SqliteDb::Changes() const { return sqlite3_changes64(db_); }

bool SqliteDb::InTransaction() const {
  return sqlite3_get_autocommit(db_) == 0;
}

absl::Status SqliteDb::SetMaxPages(int64_t pages) {
  return Execute(absl::StrCat("PRAGMA max_page_count=", pages, ";"));
}

absl::Status SqliteDb::Error(int result, absl::string_view what) const {
  const std::string message =
      absl::StrCat("store ", path_, ": ", sqlite3_errstr(result), " (",
                   sqlite3_errmsg(db_), ") at: ", what.substr(0, 120));
  const int primary = result & 0xFF;
  // A full disk shows as FULL, or as a write that fails: of the file, of its
  // log, or of the log's index. errno is not kept for all of them, so every
  // failed write counts as "no room" here; none of them was confirmed.
  if (primary == SQLITE_FULL || primary == SQLITE_NOMEM ||
      result == SQLITE_IOERR_WRITE || result == SQLITE_IOERR_TRUNCATE ||
      result == SQLITE_IOERR_SHMSIZE || result == SQLITE_IOERR_SHMOPEN ||
      result == SQLITE_IOERR_SHMMAP) {
    return absl::ResourceExhaustedError(
        absl::StrCat(message, "; make room on the disk and try again"));
  }
  switch (primary) {
    case SQLITE_CONSTRAINT:
      return absl::AlreadyExistsError(message);
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return absl::PermissionDeniedError(message);
    case SQLITE_CANTOPEN:
      return absl::FailedPreconditionError(absl::StrCat(
          message, "; does the folder exist and may this user write it?"));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(message);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace twinpath::coordinator
