#include "base/clock.h"

#include <ctime>

#include "absl/time/clock.h"

namespace twinpath {
namespace {

class RealClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
  absl::Time Monotonic() const override {
    // Counts time spent suspended too, so that a lease does not outlive a nap.
    timespec now{};
    if (clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
      clock_gettime(CLOCK_MONOTONIC, &now);
    }
    return absl::TimeFromTimespec(now);
  }
};

}  // namespace

Clock& SystemClock() {
  static RealClock* const clock = new RealClock;
  return *clock;
}

}  // namespace twinpath
