// A few threads for work that blocks (inspection, judging, syncing files), with
// a bounded queue, so that gRPC's own threads never wait. Thread-safe.

#ifndef TWINPATH_COORDINATOR_POOL_H_
#define TWINPATH_COORDINATOR_POOL_H_

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace twinpath::coordinator {

class WorkerPool {
 public:
  WorkerPool(int threads, size_t max_queue);
  // As Stop().
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Queues work. Returns false, without running it, when the queue is full or
  // the pool is ending.
  bool Run(std::function<void()> work);
  // Takes no more work, runs what is queued, ends the threads.
  void Stop();

 private:
  void Loop();

  const size_t max_queue_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_POOL_H_
