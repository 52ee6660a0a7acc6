// Coordinator: all parts of the daemon but the network, wired together. The
// gRPC services are thin callers of this; tests use it without them.
//
// Threads: the store's writer, a pool for requests, a pool for inspections.
// Tick() is called about once a second by whoever owns the clock. Thread-safe.

#ifndef TWINPATH_COORDINATOR_COORDINATOR_H_
#define TWINPATH_COORDINATOR_COORDINATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "coordinator/artifacts.h"
#include "coordinator/blobs.h"
#include "coordinator/dispatch.h"
#include "coordinator/enrolment.h"
#include "coordinator/fleet.h"
#include "coordinator/model.h"
#include "coordinator/pool.h"
#include "coordinator/session.h"
#include "coordinator/sessions.h"
#include "coordinator/store.h"
#include "coordinator/sweeps.h"
#include "coordinator/watch.h"

namespace twinpath::coordinator {

struct CoordinatorOptions {
  // Holds twinpath.db and blobs/.
  std::string state_folder;
  // Outlives the coordinator.
  Clock* clock = nullptr;
  DispatchOptions dispatch;
  BlobOptions blobs;
  SessionOptions session;
  // Cap of the store in pages of 4 KiB; 0: the disk's own.
  int64_t store_max_pages = 0;
  int request_threads = 4;
  int inspect_threads = 2;
};

class Coordinator final : public SweepEvents, public SessionEvents {
 public:
  // Opens the state. Errors as SqliteStore::Open and BlobStore::Open.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Open(
      const CoordinatorOptions& options, Model model);
  // Commits what is queued. Streams must be closed before.
  ~Coordinator() override;

  Store& store() { return *store_; }
  BlobStore& blobs() { return *blobs_; }
  Enrolment& enrolment() { return enrolment_; }
  Fleet& fleet() { return fleet_; }
  Artifacts& artifacts() { return artifacts_; }
  Sweeps& sweeps() { return sweeps_; }
  SweepWatchers& watchers() { return watchers_; }
  Sessions& sessions() { return sessions_; }
  WorkerPool& requests() { return requests_; }
  WorkerPool& inspections() { return inspections_; }

  // A session for a new stream.
  std::shared_ptr<Session> NewSession(SessionPeer* peer);

  // Deadlines, expiries, silent agents; OK also when something failed that the
  // next tick tries again.
  void Tick();
  // Tells all agents to come back later, and grants no more leases.
  void Drain(absl::Duration retry_after);
  // Closes every session.
  void CloseSessions(const absl::Status& status);

  void OnSweepsChanged(const ChangedSweeps& changed) override;
  void OnCellsWaiting(const std::vector<std::string>& host_ids) override;
  void OnCellEnded(const std::string& host_id,
                   const std::string& cell_id) override;
  void OnFacts(const std::string& host_id) override;

 private:
  Coordinator(const CoordinatorOptions& options, Model model,
              std::unique_ptr<Store> store, std::unique_ptr<BlobStore> blobs);
  void ConcludeChanged();
  void CloseSilent();
  void FlushSeen();

  const CoordinatorOptions options_;
  const Model model_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<BlobStore> blobs_;
  Enrolment enrolment_;
  const Dispatcher dispatcher_;
  SweepWatchers watchers_;
  Sessions sessions_;
  Fleet fleet_;
  Artifacts artifacts_;
  Sweeps sweeps_;
  SessionContext session_context_;
  WorkerPool requests_;
  WorkerPool inspections_;

  Mutex mutex_;
  // Changed sweeps that may have ended, and whether a worker looks at them.
  ChangedSweeps changed_ ABSL_GUARDED_BY(mutex_);
  bool concluding_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time flushed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_COORDINATOR_H_
