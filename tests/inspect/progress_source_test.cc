#include "inspect/progress_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/status_matchers.h"

namespace twinpath::inspect {
namespace {

using ::testing::IsEmpty;

TEST(ProgressSource, PassesBytesOnAndTellsLittle) {
  const std::string bytes(1000, 'x');
  const MemorySource memory(bytes);
  std::vector<uint64_t> told;
  const ProgressSource source(memory,
                              [&](uint64_t read) { told.push_back(read); });
  EXPECT_EQ(source.size(), 1000u);
  // What is quick has no progress.
  const absl::Time start = absl::Now();
  EXPECT_THAT(ReadUpTo(source, 10, 20), IsOkAndHolds(std::string(20, 'x')));
  if (absl::Now() - start < ProgressSource::kInterval) {
    EXPECT_THAT(told, IsEmpty());
  }
  EXPECT_THAT(source.ReadAt(990, 20, std::string(20, ' ').data()),
              StatusIs(absl::StatusCode::kOutOfRange));
  // Any later read may be the one that tells; what it tells never falls.
  while (told.size() < 2) {
    ASSERT_THAT(ReadUpTo(source, 0, 100), IsOk());
  }
  EXPECT_LT(told[0], told[1]);
}

}  // namespace
}  // namespace twinpath::inspect
