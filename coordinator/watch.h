// Who wants to hear of which sweep's changes. A watcher is told that something
// changed, not what: it looks itself, so that a slow one misses steps and never
// makes a queue grow. Thread-safe; callbacks run on the notifier's thread and
// must be quick.

#ifndef TWINPATH_COORDINATOR_WATCH_H_
#define TWINPATH_COORDINATOR_WATCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace twinpath::coordinator {

class SweepWatchers {
 public:
  // `tick`: nothing need have changed; a watcher that held back may look now.
  using Callback = std::function<void(bool tick)>;

  // Keeps the callback until the returned number is removed.
  uint64_t Add(const std::string& sweep_id, Callback callback);
  // Behind this the callback is not started any more; one that runs may still
  // be running.
  void Remove(uint64_t number);
  // Tells the sweep's watchers.
  void Notify(const std::string& sweep_id);
  // Tells every watcher that time has passed.
  void Tick();

 private:
  struct Watcher {
    std::string sweep_id;
    std::shared_ptr<Callback> callback;
  };
  Mutex mutex_;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, Watcher> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_WATCH_H_
