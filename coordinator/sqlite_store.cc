#include "coordinator/sqlite_store.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/sqlite_schema.h"
#include "coordinator/sqlite_transaction.h"

namespace twinpath::coordinator {
namespace {

// Idle readers kept open.
constexpr size_t kMaxIdleReaders = 8;

absl::StatusOr<UniqueFd> LockFolder(const std::string& folder) {
  const std::string path = JoinPath(folder, "lock");
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus(errno, path);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, path);
    return absl::UnavailableError(
        absl::StrCat(folder,
                     ": another coordinator uses this folder; stop it or give "
                     "another --state"));
  }
  return fd;
}

absl::Status MigrateSchema(SqliteDb& db, absl::string_view folder) {
  int64_t version = 0;
  {
    SqliteQuery query = db.Prepare("PRAGMA user_version");
    TWINPATH_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (row) version = query.GetInt(0);
  }
  if (version > kSchemaVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder, ": the store has schema ", version, ", this version knows ",
        kSchemaVersion, "; run the newer twinpath-coordinator"));
  }
  for (; version < kSchemaVersion; ++version) {
    const absl::Status status = db.Execute(
        absl::StrCat("BEGIN IMMEDIATE;", kSchemaSteps[version],
                     "PRAGMA user_version=", version + 1, ";COMMIT;"));
    if (!status.ok()) {
      if (db.InTransaction()) db.Execute("ROLLBACK;").IgnoreError();
      return WithContext(status, "bringing the schema up to date");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(
    const std::string& folder, const SqliteStoreOptions& options) {
  TWINPATH_RETURN_IF_ERROR(MakeDirectories(folder));
  TWINPATH_ASSIGN_OR_RETURN(UniqueFd lock, LockFolder(folder));
  TWINPATH_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDb> db,
                            SqliteDb::Open(JoinPath(folder, "twinpath.db")));
  TWINPATH_RETURN_IF_ERROR(MigrateSchema(*db, folder));
  if (options.max_pages > 0) {
    TWINPATH_RETURN_IF_ERROR(db->SetMaxPages(options.max_pages));
  }
  return std::unique_ptr<SqliteStore>(
      new SqliteStore(folder, options, std::move(lock), std::move(db)));
}

SqliteStore::SqliteStore(std::string folder, const SqliteStoreOptions& options,
                         UniqueFd lock, std::unique_ptr<SqliteDb> writer)
    : folder_(std::move(folder)),
      options_(options),
      lock_(std::move(lock)),
      writer_(std::move(writer)),
      thread_([this] { WriterLoop(); }) {}

SqliteStore::~SqliteStore() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void SqliteStore::Submit(WriteWork work, Done done) {
  absl::Status refused;
  {
    MutexLock lock(mutex_);
    if (closing_) {
      refused = absl::UnavailableError("the store is closing; try again later");
    } else if (static_cast<int64_t>(queue_.size()) >= options_.max_backlog) {
      refused = absl::ResourceExhaustedError(
          "the store is behind; try again in some seconds");
    } else {
      queue_.push_back({std::move(work), std::move(done)});
    }
  }
  if (refused.ok()) {
    changed_.NotifyOne();
  } else {
    done(refused);
  }
}

absl::Status SqliteStore::Write(WriteWork work) {
  if (std::this_thread::get_id() == thread_.get_id()) {
    return absl::InternalError("Write() on the store's own thread");
  }
  struct Waiter {
    Mutex mutex;
    CondVar condition;
    bool ready ABSL_GUARDED_BY(mutex) = false;
    absl::Status status ABSL_GUARDED_BY(mutex);
  };
  const auto waiter = std::make_shared<Waiter>();
  Submit(std::move(work), [waiter](const absl::Status& status) {
    MutexLock lock(waiter->mutex);
    waiter->ready = true;
    // A copy that shares no counter with the writer's: the packaged Abseil is
    // not instrumented, and ThreadSanitizer would see a race in it.
    waiter->status = absl::Status(status.code(), status.message());
    waiter->condition.NotifyAll();
  });
  MutexLock lock(waiter->mutex);
  while (!waiter->ready) waiter->condition.Wait(waiter->mutex);
  return std::move(waiter->status);
}

int64_t SqliteStore::Backlog() const {
  MutexLock lock(mutex_);
  return static_cast<int64_t>(queue_.size()) + in_commit_;
}

absl::Time SqliteStore::Now() const { return options_.clock->Now(); }

absl::Status SqliteStore::SetMaxPages(int64_t pages) {
  // PRAGMAs of this kind work inside a transaction, on its connection.
  return Write(
      [this, pages](StoreTransaction&) { return writer_->SetMaxPages(pages); });
}

void SqliteStore::WriterLoop() {
  std::vector<Job> batch;
  while (true) {
    batch.clear();
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !closing_) changed_.Wait(mutex_);
      if (queue_.empty()) return;
      while (!queue_.empty() &&
             static_cast<int64_t>(batch.size()) < options_.max_batch) {
        batch.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
      in_commit_ = static_cast<int64_t>(batch.size());
    }
    RunBatch(batch);
    MutexLock lock(mutex_);
    in_commit_ = 0;
  }
}

void SqliteStore::RunBatch(std::vector<Job>& batch) {
  std::vector<absl::Status> statuses;
  absl::Status failure;
  if (TryCommit(batch, 0, batch.size(), statuses, failure)) {
    for (size_t i = 0; i < batch.size(); ++i) batch[i].done(statuses[i]);
    return;
  }
  if (batch.size() == 1) {
    batch[0].done(failure);
    return;
  }
  // One work may be what does not fit: alone, the others still can.
  for (size_t i = 0; i < batch.size(); ++i) {
    if (TryCommit(batch, i, i + 1, statuses, failure)) {
      batch[i].done(statuses[0]);
    } else {
      batch[i].done(failure);
    }
  }
}

bool SqliteStore::TryCommit(std::vector<Job>& batch, size_t begin, size_t end,
                            std::vector<absl::Status>& statuses,
                            absl::Status& failure) {
  statuses.clear();
  failure = writer_->Execute("BEGIN IMMEDIATE;");
  if (!failure.ok()) return false;
  SqliteTransaction transaction(*writer_);
  for (size_t i = begin; i < end; ++i) {
    failure = writer_->Prepare("SAVEPOINT work").Run();
    absl::Status status;
    if (failure.ok()) status = batch[i].work(transaction);
    if (failure.ok() && !writer_->InTransaction()) {
      // SQLite itself rolls everything back on a full disk.
      failure = status.ok() ? absl::InternalError("transaction lost") : status;
      return false;
    }
    if (failure.ok() && !status.ok()) {
      failure = writer_->Prepare("ROLLBACK TO work").Run();
    }
    if (failure.ok()) failure = writer_->Prepare("RELEASE work").Run();
    if (!failure.ok()) break;
    statuses.push_back(std::move(status));
  }
  if (failure.ok()) failure = writer_->Prepare("COMMIT").Run();
  if (failure.ok()) return true;
  if (writer_->InTransaction()) writer_->Execute("ROLLBACK;").IgnoreError();
  return false;
}

absl::StatusOr<std::unique_ptr<SqliteDb>> SqliteStore::TakeReader() const {
  {
    MutexLock lock(readers_mutex_);
    if (!readers_.empty()) {
      std::unique_ptr<SqliteDb> reader = std::move(readers_.back());
      readers_.pop_back();
      return reader;
    }
  }
  return SqliteDb::Open(JoinPath(folder_, "twinpath.db"));
}

void SqliteStore::ReturnReader(std::unique_ptr<SqliteDb> reader) const {
  MutexLock lock(readers_mutex_);
  if (readers_.size() < kMaxIdleReaders) readers_.push_back(std::move(reader));
}

absl::Status SqliteStore::Read(const ReadWork& work) const {
  TWINPATH_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDb> reader, TakeReader());
  TWINPATH_RETURN_IF_ERROR(reader->Prepare("BEGIN").Run());
  const absl::Status status = work(SqliteTransaction(*reader));
  const absl::Status end = reader->Prepare("COMMIT").Run();
  if (!end.ok()) return status.ok() ? end : status;
  ReturnReader(std::move(reader));
  return status;
}

}  // namespace twinpath::coordinator
