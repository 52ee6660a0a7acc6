#include "base/clock.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "base/fake_clock.h"

namespace twinpath {
namespace {

TEST(SystemClock, WallTimeIsTheSystems) {
  const absl::Time before = absl::Now();
  const absl::Time now = SystemClock().Now();
  const absl::Time after = absl::Now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, after);
}

TEST(SystemClock, MonotonicNeverGoesBack) {
  absl::Time last = SystemClock().Monotonic();
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = SystemClock().Monotonic();
    EXPECT_LE(last, now);
    last = now;
  }
}

TEST(FakeClock, AStepOfTheWallDoesNotMoveTheMonotonicTime) {
  FakeClock clock;
  const absl::Time monotonic = clock.Monotonic();
  clock.SetWall(absl::FromUnixSeconds(5));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(5));
  EXPECT_EQ(clock.Monotonic(), monotonic);
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(8));
  EXPECT_EQ(clock.Monotonic(), monotonic + absl::Seconds(3));
}

}  // namespace
}  // namespace twinpath
