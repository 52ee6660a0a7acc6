#include "coordinator/pool.h"

#include <utility>

namespace twinpath::coordinator {

WorkerPool::WorkerPool(int threads, size_t max_queue) : max_queue_(max_queue) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

WorkerPool::~WorkerPool() { Stop(); }

void WorkerPool::Stop() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool WorkerPool::Run(std::function<void()> work) {
  {
    MutexLock lock(mutex_);
    if (ending_ || queue_.size() >= max_queue_) return false;
    queue_.push_back(std::move(work));
  }
  changed_.NotifyOne();
  return true;
}

void WorkerPool::Loop() {
  while (true) {
    std::function<void()> work;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !ending_) changed_.Wait(mutex_);
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace twinpath::coordinator
