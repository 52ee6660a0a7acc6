// Clock: the time, and waiting for it, behind an interface so that tests move
// time by hand. Thread-safe.

#ifndef TWINPATH_BASE_CLOCK_H_
#define TWINPATH_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace twinpath {

class Clock {
 public:
  virtual ~Clock() = default;
  // Returns the current wall time.
  virtual absl::Time Now() const = 0;
  // Returns a time that never goes back; only differences mean anything.
  virtual absl::Time Monotonic() const = 0;
};

// Returns the system's clock. Never destroyed.
Clock& SystemClock();

}  // namespace twinpath

#endif  // TWINPATH_BASE_CLOCK_H_
