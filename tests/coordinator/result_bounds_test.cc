#include "coordinator/result_bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/coordinator/fixture.h"

namespace twinpath::coordinator {
namespace {

using ::testing::HasSubstr;

template <typename List>
void Grow(List* list, int size) {
  while (list->size() < size) list->Add();
}

// Every list that is bounded, `more` longer than it may be.
v1::CellResult MakeLong(int more) {
  v1::CellResult result;
  result.set_result_id("r1");
  result.set_complete(true);
  Grow(result.mutable_observations(), 64 + more);
  v1::Trace& trace = *result.mutable_observations(0)->mutable_trace();
  Grow(trace.mutable_objects(), 4096 + more);
  Grow(trace.mutable_modules(), 4096 + more);
  Grow(trace.mutable_kernels(), 8192 + more);
  Grow(trace.mutable_coverage(), 4096 + more);
  Grow(result.mutable_observations(0)->mutable_files(), 256 + more);
  Grow(result.mutable_problems(), 200 + more);
  v1::ImageLoadReport& loads = *result.mutable_image_loads();
  Grow(loads.mutable_groups(), 20'000 + more);
  Grow(loads.mutable_images(), 1000 + more);
  Grow(loads.mutable_problems(), 200 + more);
  Grow(result.mutable_toolchain(), 32 + more);
  v1::ToolchainCheck& check = *result.mutable_toolchain(0);
  Grow(check.mutable_steps(), 32 + more);
  Grow(check.mutable_runs(), 16 + more);
  Grow(check.mutable_runs(0)->mutable_trace()->mutable_kernels(), 8192 + more);
  return result;
}

TEST(ResultBounds, WhatFitsStaysAsItIs) {
  const v1::CellResult full = MakeLong(0);
  v1::CellResult result = full;
  EXPECT_FALSE(CutOversized(result));
  EXPECT_EQ(result.SerializeAsString(), full.SerializeAsString());
}

TEST(ResultBounds, WhatIsOverIsCutAndDecidesNothing) {
  v1::CellResult result = MakeLong(1);
  EXPECT_TRUE(CutOversized(result));
  EXPECT_FALSE(result.complete());
  ASSERT_EQ(result.problems_size(), 201);
  EXPECT_EQ(result.problems(0).code(), "TP418");
  for (const char* what :
       {"65 runs", "4097 traced objects", "4097 traced modules",
        "8193 traced kernels", "4097 files with coverage", "257 output files",
        "201 problems", "20001 groups of images", "1001 images",
        "33 toolchains", "33 steps of a toolchain", "17 runs of a toolchain"}) {
    EXPECT_THAT(result.problems(0).detail(), HasSubstr(what));
  }
  // All but the problem is as if it had fitted.
  v1::CellResult fits = MakeLong(0);
  result.mutable_problems()->DeleteSubrange(0, 1);
  result.set_complete(true);
  EXPECT_EQ(result.SerializeAsString(), fits.SerializeAsString());
}

class ResultBoundsTest : public CoordinatorTest {};

TEST_F(ResultBoundsTest, ACutResultNeverPasses) {
  FakeAgent a = Join("a");
  const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
  // As often as a cell is started.
  for (int start = 1; start <= 3; ++start) {
    const v1::Lease lease = a.peer().AwaitLease();
    a.SendProgress(lease, v1::PATH_NATIVE);
    v1::CellResult result = MakeResult(lease, absl::StrCat("r", start));
    Grow(result.mutable_observations(0)->mutable_trace()->mutable_objects(),
         4097);
    a.SendResult(result);
    a.SendHeartbeat();
  }
  const v1::Sweep ended = AwaitEnd(sweep.id());
  EXPECT_EQ(ended.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(ended.cells(0).DebugString(),
              HasSubstr("cut: 4097 traced objects"));
}

}  // namespace
}  // namespace twinpath::coordinator
