// Sweeps: from a spec to cells, from cells to a verdict, and the end of each by
// its last answer, its deadline or a person. The end is a compare-and-set on
// the sweep's version: whoever judges an older state starts over, and no sweep
// ends twice. Everything survives a crash at any point: Tick() takes up what
// was left. Thread-safe; all calls may block on the store.

#ifndef TWINPATH_COORDINATOR_SWEEPS_H_
#define TWINPATH_COORDINATOR_SWEEPS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "coordinator/artifacts.h"
#include "coordinator/dispatch.h"
#include "coordinator/model.h"
#include "coordinator/store.h"
#include "coordinator/sweep_view.h"
#include "twinpath/v1/services.pb.h"

namespace twinpath::coordinator {

// Told, outside of any transaction, what follows from a change.
class SweepEvents {
 public:
  virtual ~SweepEvents() = default;
  // These sweeps have a new version.
  virtual void OnSweepsChanged(const ChangedSweeps& changed) = 0;
  // Cells of these hosts may be waiting for a lease.
  virtual void OnCellsWaiting(const std::vector<std::string>& host_ids) = 0;
  // The host should give the cell up if it has not started.
  virtual void OnCellEnded(const std::string& host_id,
                           const std::string& cell_id) = 0;
};

class Sweeps {
 public:
  Sweeps(Store& store, Artifacts& artifacts, const Model& model,
         const Dispatcher& dispatcher, SweepEvents& events)
      : store_(store),
        artifacts_(artifacts),
        model_(model),
        dispatcher_(dispatcher),
        events_(events) {}

  // FAILED_PRECONDITION: the artifact is not registered. INVALID_ARGUMENT: the
  // spec, all mistakes at once. NOT_FOUND: a host. The same request id again
  // returns the sweep it made.
  absl::StatusOr<v1::Sweep> Start(const v1::StartSweepRequest& request);
  // The sweep with verdicts as they stand now. NOT_FOUND names the nearest id.
  absl::StatusOr<v1::Sweep> Get(absl::string_view id);
  // Ends it; an ended one is returned as it is.
  absl::StatusOr<v1::Sweep> Cancel(absl::string_view id);
  absl::StatusOr<v1::ListSweepsResponse> List(
      const v1::ListSweepsRequest& request) const;

  // Brings waiting cells of a host up to its facts, placeholders included.
  absl::Status RefreshHost(const std::string& host_id);
  // Ends what its deadline or its last answer has ended; puts cells back whose
  // lease ran out.
  absl::Status Tick();
  // Ends the sweep if nothing of it is open. OK if something is.
  absl::Status Conclude(const std::string& id);

 private:
  // Judges what was loaded, unstable cells included.
  absl::Status Judge(LoadedSweep& loaded);
  // Loads and judges, or takes what was judged at this version already.
  absl::StatusOr<std::shared_ptr<const v1::Sweep>> Judged(absl::string_view id);
  absl::Status EndWith(const std::string& id, v1::SweepState ending,
                       const v1::Reason& reason);

  Store& store_;
  Artifacts& artifacts_;
  const Model& model_;
  const Dispatcher& dispatcher_;
  SweepEvents& events_;

  Mutex mutex_;
  // The last judged states; each knows its id and version.
  std::deque<std::shared_ptr<const v1::Sweep>> judged_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_SWEEPS_H_
