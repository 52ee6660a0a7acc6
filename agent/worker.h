// Worker: the threads that turn claimed leases into results in the spool. A
// result is in the spool, synced, before its journal goes and before anybody is
// told; a spool that cannot be written (disk full) is tried again until it can,
// or until the agent stops, and then the journal accounts for the cell.

#ifndef TWINPATH_AGENT_WORKER_H_
#define TWINPATH_AGENT_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "agent/cell_processor.h"
#include "agent/lease_book.h"
#include "agent/spool.h"
#include "base/mutex.h"
#include "twinpath/v1/services.pb.h"

namespace twinpath::agent {

struct WorkerEvents {
  // A result is in the spool, a lease was given back, or the number of running
  // cells changed.
  std::function<void()> changed;
  std::function<void(const v1::Progress&)> progress;
};

class Worker {
 public:
  Worker(LeaseBook& book, CellProcessor& processor, Spool& spool,
         WorkerEvents events)
      : book_(book),
        processor_(processor),
        spool_(spool),
        events_(std::move(events)) {}
  // Stops.
  ~Worker();

  // Makes sure that at least so many cells can run at once (at most 16).
  void EnsureThreads(uint32_t threads);

  // While set, running cells are ended as by Stop; the threads go on.
  void Interrupt(bool interrupt);

  // Ends running cells (their results are incomplete), delivers what there is
  // to the spool, and waits for the threads.
  void Stop();

 private:
  class Control;

  void Run();
  void Work(const ClaimedLease& claimed);
  void Deliver(const ClaimedLease& claimed, CellOutcome outcome);
  bool stopping() const;
  // Whether what runs is to end.
  bool ending() const;
  // Waits; returns whether the agent goes on.
  bool Wait(absl::Duration duration);

  LeaseBook& book_;
  CellProcessor& processor_;
  Spool& spool_;
  const WorkerEvents events_;
  mutable Mutex mutex_;
  CondVar stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool interrupt_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_WORKER_H_
