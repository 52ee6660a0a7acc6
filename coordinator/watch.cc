#include "coordinator/watch.h"

#include <utility>

namespace twinpath::coordinator {

uint64_t SweepWatchers::Add(const std::string& sweep_id, Callback callback) {
  MutexLock lock(mutex_);
  const uint64_t number = next_++;
  watchers_[number] = {sweep_id,
                       std::make_shared<Callback>(std::move(callback))};
  return number;
}

void SweepWatchers::Remove(uint64_t number) {
  MutexLock lock(mutex_);
  watchers_.erase(number);
}

void SweepWatchers::Notify(const std::string& sweep_id) {
  std::vector<std::shared_ptr<Callback>> callbacks;
  {
    MutexLock lock(mutex_);
    for (const auto& [number, watcher] : watchers_) {
      if (watcher.sweep_id == sweep_id) callbacks.push_back(watcher.callback);
    }
  }
  for (const auto& callback : callbacks) (*callback)(/*tick=*/false);
}

void SweepWatchers::Tick() {
  std::vector<std::shared_ptr<Callback>> callbacks;
  {
    MutexLock lock(mutex_);
    for (const auto& [number, watcher] : watchers_) {
      callbacks.push_back(watcher.callback);
    }
  }
  for (const auto& callback : callbacks) (*callback)(/*tick=*/true);
}

}  // namespace twinpath::coordinator
