#include "verdict/compiled.h"

#include <gtest/gtest.h>

namespace twinpath::verdict {
namespace {

constexpr char kDriver[] = "Apr 29 2026 17:12:06";
constexpr char kNvrtc[] = "Aug 20 2025 14:13:52";

v1::CacheEvidence Cache(const char* driver,
                        std::initializer_list<const char*> writers) {
  v1::CacheEvidence cache;
  cache.set_observed(true);
  cache.set_files(static_cast<uint32_t>(writers.size()) + 1);
  cache.set_driver_built(driver);
  for (const char* writer : writers) {
    v1::CacheWriter& added = *cache.add_writers();
    added.set_built(writer);
    added.set_entries(1);
  }
  return cache;
}

// Measured: a program that loads a cubin of NVRTC's leaves three files and
// compiles nothing in the driver; one that loads NVRTC's PTX leaves three, one
// of them the driver's.
TEST(DriverCompiled, OnlyEntriesOfTheDriverCount) {
  EXPECT_FALSE(DriverCompiled(Cache(kDriver, {kNvrtc, kNvrtc})));
  EXPECT_TRUE(DriverCompiled(Cache(kDriver, {kNvrtc, kDriver})));
  EXPECT_TRUE(DriverCompiled(Cache(kDriver, {kDriver})));
  // What states no writer is not the driver's, which states one.
  EXPECT_FALSE(DriverCompiled(Cache(kDriver, {""})));
}

TEST(DriverCompiled, WithoutAStampEveryFileCounts) {
  EXPECT_TRUE(DriverCompiled(Cache("", {kNvrtc})));
  v1::CacheEvidence crowded = Cache(kDriver, {kNvrtc});
  crowded.set_writers_left_out(true);
  EXPECT_TRUE(DriverCompiled(crowded));
  v1::CacheEvidence older;
  older.set_files(2);
  EXPECT_TRUE(DriverCompiled(older));
  older.set_files(0);
  EXPECT_FALSE(DriverCompiled(older));
  older.set_driver_built(kDriver);
  EXPECT_FALSE(DriverCompiled(older));
}

}  // namespace
}  // namespace twinpath::verdict
