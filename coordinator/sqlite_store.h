// Store in one SQLite file: write-ahead log, synchronous FULL, one writer
// thread that puts many works into one commit, readers on connections of their
// own. The folder is held by a lock file, so that two coordinators never share
// it.

#ifndef TWINPATH_COORDINATOR_SQLITE_STORE_H_
#define TWINPATH_COORDINATOR_SQLITE_STORE_H_

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mutex.h"
#include "coordinator/sqlite_db.h"
#include "coordinator/store.h"

namespace twinpath::coordinator {

struct SqliteStoreOptions {
  // The store's clock; outlives the store.
  Clock* clock = nullptr;
  // Most works waiting.
  int64_t max_backlog = 100'000;
  // Most works in one commit.
  int64_t max_batch = 500;
  // Cap of the file in pages of 4 KiB; 0: the disk's own.
  int64_t max_pages = 0;
};

class SqliteStore final : public Store {
 public:
  // Opens or makes `folder`/twinpath.db and brings its schema up to date.
  // UNAVAILABLE: another process holds the folder. FAILED_PRECONDITION: the
  // file is from a newer version.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(
      const std::string& folder, const SqliteStoreOptions& options);
  // Commits what is queued, then closes.
  ~SqliteStore() override;

  void Submit(WriteWork work, Done done) override;
  absl::Status Write(WriteWork work) override;
  absl::Status Read(const ReadWork& work) const override;
  int64_t Backlog() const override;
  absl::Time Now() const override;

  // Cap of the file, changed while it runs: a disk that fills and is freed.
  absl::Status SetMaxPages(int64_t pages);

 private:
  struct Job {
    WriteWork work;
    Done done;
  };

  SqliteStore(std::string folder, const SqliteStoreOptions& options,
              UniqueFd lock, std::unique_ptr<SqliteDb> writer);
  void WriterLoop();
  void RunBatch(std::vector<Job>& batch);
  // Runs jobs [begin, end) in one transaction. False: nothing was committed
  // and `statuses` hold nothing.
  bool TryCommit(std::vector<Job>& batch, size_t begin, size_t end,
                 std::vector<absl::Status>& statuses, absl::Status& failure);
  absl::StatusOr<std::unique_ptr<SqliteDb>> TakeReader() const;
  void ReturnReader(std::unique_ptr<SqliteDb> reader) const;

  const std::string folder_;
  const SqliteStoreOptions options_;
  const UniqueFd lock_;
  // Used by the writer thread only.
  std::unique_ptr<SqliteDb> writer_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Job> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t in_commit_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;

  mutable Mutex readers_mutex_;
  mutable std::vector<std::unique_ptr<SqliteDb>> readers_
      ABSL_GUARDED_BY(readers_mutex_);

  std::thread thread_;
};

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_SQLITE_STORE_H_
