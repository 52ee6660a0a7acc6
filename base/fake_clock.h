// A clock that stands still until it is moved. Thread-safe.

#ifndef TWINPATH_BASE_FAKE_CLOCK_H_
#define TWINPATH_BASE_FAKE_CLOCK_H_

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace twinpath {

class FakeClock final : public Clock {
 public:
  explicit FakeClock(absl::Time start = absl::FromUnixSeconds(1'700'000'000))
      : now_(start), monotonic_(absl::UnixEpoch()) {}

  absl::Time Now() const override {
    MutexLock lock(mutex_);
    return now_;
  }
  absl::Time Monotonic() const override {
    MutexLock lock(mutex_);
    return monotonic_;
  }
  // Moves both times forward.
  void Advance(absl::Duration by) {
    MutexLock lock(mutex_);
    now_ += by;
    monotonic_ += by;
  }
  // Sets the wall time only, as a stepped system clock would.
  void SetWall(absl::Time now) {
    MutexLock lock(mutex_);
    now_ = now;
  }

 private:
  mutable Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
  absl::Time monotonic_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace twinpath

#endif  // TWINPATH_BASE_FAKE_CLOCK_H_
