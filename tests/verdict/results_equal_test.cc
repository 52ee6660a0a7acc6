#include "verdict/results_equal.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/verdict/results.h"

namespace twinpath::verdict {
namespace {

TEST(ResultsEqual, IdsAndTimesDoNotCount) {
  v1::CellResult a = GoodResult();
  v1::CellResult b = GoodResult();
  b.set_result_id("another");
  b.mutable_finish_time()->set_seconds(5);
  for (v1::Observation& run : *b.mutable_observations()) {
    run.set_attempt_id("another");
    run.mutable_duration()->set_seconds(9);
    run.mutable_stderr()->set_head("warning");
  }
  EXPECT_TRUE(ResultsEqual(a, b));
}

TEST(ResultsEqual, RunsThatDidNotRunDoNotCount) {
  v1::CellResult b = GoodResult();
  b.add_observations()->set_ending(v1::ENDING_INTERRUPTED);
  EXPECT_TRUE(ResultsEqual(GoodResult(), b));
}

TEST(ResultsEqual, WhatARunDidCounts) {
  const v1::CellResult a = GoodResult();
  v1::CellResult exit = a;
  RunOf(exit, v1::PATH_NATIVE).set_exit_code(1);
  EXPECT_FALSE(ResultsEqual(a, exit));
  v1::CellResult ending = a;
  RunOf(ending, v1::PATH_NATIVE).set_ending(v1::ENDING_TIMED_OUT);
  EXPECT_FALSE(ResultsEqual(a, ending));
  v1::CellResult output = a;
  SetOutput(RunOf(output, v1::PATH_NATIVE), "PASS 2\n");
  EXPECT_FALSE(ResultsEqual(a, output));
  v1::CellResult compiled = a;
  RunOf(compiled, v1::PATH_PLAIN).mutable_cache()->set_files(2);
  EXPECT_FALSE(ResultsEqual(a, compiled));
  v1::CellResult error = a;
  RunOf(error, v1::PATH_NATIVE).add_errors()->set_cuda_error(209);
  EXPECT_FALSE(ResultsEqual(a, error));
  v1::CellResult fewer = a;
  RemoveRun(fewer, v1::PATH_PLAIN, false);
  EXPECT_FALSE(ResultsEqual(a, fewer));
  EXPECT_FALSE(ResultsEqual(fewer, a));
}

// A program that prints times was unstable whenever a cell was run twice.
TEST(ResultsEqual, PartsThatVaryByThemselvesInBothAreLeftOut) {
  const auto timed = [](int seconds) {
    v1::CellResult result = GoodResult();
    for (v1::Observation& run : *result.mutable_observations()) {
      SetOutput(run, absl::StrCat("PASS in ", seconds++, " s\n"));
    }
    return result;
  };
  v1::Entry entry = GoodEntry();
  entry.clear_expected_output();
  EXPECT_TRUE(ResultsEqual(timed(1), timed(11), &entry));
  // One that varies and one that does not are two things that were seen.
  EXPECT_FALSE(ResultsEqual(timed(1), GoodResult(), &entry));
  entry.mutable_compare()->set_as(v1::COMPARE_AS_UNSPECIFIED);
  EXPECT_FALSE(ResultsEqual(timed(1), timed(11), &entry));
}

// A time that varies beside it does not make another result the same.
TEST(ResultsEqual, WhatVariesExcusesItsOwnPlacesOnly) {
  const auto printed = [](absl::string_view native, absl::string_view forced,
                          int tenths) {
    v1::CellResult result = GoodResult();
    for (v1::Observation& run : *result.mutable_observations()) {
      SetOutput(
          run,
          absl::StrCat("sum ", run.path() == v1::PATH_PTX_JIT ? forced : native,
                       " in 3.", tenths++, " ms\n"));
    }
    return result;
  };
  v1::Entry entry = GoodEntry();
  entry.clear_expected_output();
  const v1::CellResult a = printed("42", "42", 1);
  EXPECT_TRUE(ResultsEqual(a, printed("42", "42", 5), &entry));
  EXPECT_FALSE(ResultsEqual(a, printed("0", "42", 5), &entry));
  EXPECT_FALSE(ResultsEqual(a, printed("42", "0", 5), &entry));
  EXPECT_FALSE(ResultsEqual(a, printed("42 more", "42", 5), &entry));
  // That forced runs print something else each time is no excuse for native
  // ones that do not.
  v1::CellResult garbage_a = printed("42", "42", 1);
  v1::CellResult garbage_b = printed("42", "42", 1);
  for (v1::CellResult* result : {&garbage_a, &garbage_b}) {
    const std::string sum = result == &garbage_a ? "42" : "41";
    int garbage = 0;
    for (v1::Observation& run : *result->mutable_observations()) {
      SetOutput(run, run.path() == v1::PATH_PTX_JIT
                         ? absl::StrCat(sum, garbage++)
                         : sum);
    }
  }
  EXPECT_FALSE(ResultsEqual(garbage_a, garbage_b, &entry));
}

TEST(ResultsEqual, AnEntrysRuleStandsForTheBytes) {
  const v1::Entry entry = GoodEntry();
  const v1::CellResult a = GoodResult();
  v1::CellResult b = a;
  SetOutput(RunOf(b, v1::PATH_NATIVE), "PASS in 3 s\n");
  EXPECT_TRUE(ResultsEqual(a, b, &entry));
  SetOutput(RunOf(b, v1::PATH_NATIVE), "FAIL\n");
  EXPECT_FALSE(ResultsEqual(a, b, &entry));
}

v1::CellResult WithLoads(v1::LoadState state, uint32_t error, uint32_t images) {
  v1::CellResult result;
  v1::ImageLoadReport& loads = *result.mutable_image_loads();
  loads.mutable_duration()->set_seconds(images);
  v1::ImageLoadGroup& group = *loads.add_groups();
  group.set_file("libdemo.so");
  group.set_kind(v1::IMAGE_KIND_SASS);
  group.mutable_target()->set_number(90);
  group.set_state(state);
  group.set_cuda_error(error);
  group.set_images(images);
  return result;
}

// Only runs were compared, so that any two load reports were equal.
TEST(ResultsEqual, WhatTheDriverDidWithImagesCounts) {
  const v1::CellResult a = WithLoads(v1::LOAD_STATE_LOADED, 0, 3);
  v1::CellResult b = a;
  b.mutable_image_loads()->mutable_duration()->set_seconds(99);
  b.mutable_image_loads()->mutable_groups(0)->set_images(1);
  v1::ImageLoadGroup& rest = *b.mutable_image_loads()->add_groups();
  rest = b.image_loads().groups(0);
  // Predicted in another way, and loaded all the same.
  rest.set_predicted(v1::OUTCOME_NATIVE);
  rest.set_images(2);
  EXPECT_TRUE(ResultsEqual(a, b));
  EXPECT_FALSE(ResultsEqual(a, WithLoads(v1::LOAD_STATE_LOADED, 0, 2)));
  EXPECT_FALSE(ResultsEqual(a, WithLoads(v1::LOAD_STATE_REFUSED, 209, 3)));
  EXPECT_FALSE(ResultsEqual(a, {}));
  v1::CellResult nothing;
  nothing.mutable_image_loads();
  EXPECT_FALSE(ResultsEqual(nothing, {}));
}

v1::CellResult WithToolchain(absl::string_view toolkit, bool holds) {
  v1::CellResult result;
  v1::ToolchainCheck& check = *result.add_toolchain();
  check.mutable_toolkit()->set_path(std::string(toolkit));
  check.set_gpu_uuid(kGpu);
  check.set_holds(holds);
  v1::ToolchainStep& step = *check.add_steps();
  step.set_name("compile");
  if (!holds) step.add_reasons()->set_code("TP132");
  return result;
}

// As for images: a toolkit that built once and once did not was equal.
TEST(ResultsEqual, WhatAToolchainCheckShowedCounts) {
  v1::CellResult a = WithToolchain("/usr/local/cuda", true);
  v1::CellResult b = a;
  b.mutable_toolchain(0)->mutable_steps(0)->mutable_duration()->set_seconds(9);
  EXPECT_TRUE(ResultsEqual(a, b));
  EXPECT_FALSE(ResultsEqual(a, {}));
  EXPECT_FALSE(ResultsEqual(a, WithToolchain("/usr/local/cuda", false)));
  b = WithToolchain("/usr/local/cuda", false);
  v1::CellResult other = b;
  other.mutable_toolchain(0)->mutable_steps(0)->mutable_reasons(0)->set_code(
      "TP131");
  EXPECT_FALSE(ResultsEqual(b, other));
  // In whatever order the toolkits were found.
  *a.add_toolchain() = b.toolchain(0);
  *b.add_toolchain() = a.toolchain(0);
  EXPECT_TRUE(ResultsEqual(a, b));
}

// The trace that decides such an entry was left out, as all traces were.
TEST(ResultsEqual, TheTraceCountsWhereTheEntryNeedsOne) {
  v1::Entry entry = GoodEntry();
  v1::CellResult a = GoodResult();
  v1::Observation& traced = *a.add_observations();
  traced = GoodRun(v1::PATH_PLAIN);
  traced.set_traced(true);
  v1::Trace& trace = *traced.mutable_trace();
  trace.mutable_device_tracer()->set_started(true);
  trace.set_launches(1);
  v1::TracedKernel& kernel = *trace.add_kernels();
  kernel.set_name("attention");
  kernel.set_launches(1);
  v1::CellResult b = a;
  b.mutable_observations(4)->mutable_trace()->mutable_kernels(0)->set_name(
      "fallback");
  EXPECT_TRUE(ResultsEqual(a, b, &entry));
  EXPECT_TRUE(ResultsEqual(a, GoodResult(), &entry));
  entry.add_must_launch("attention");
  EXPECT_TRUE(ResultsEqual(a, a, &entry));
  EXPECT_FALSE(ResultsEqual(a, b, &entry));
  EXPECT_FALSE(ResultsEqual(a, GoodResult(), &entry));
}

TEST(ResultsEqual, NumberOfCompiledFilesDoesNotCount) {
  v1::CellResult b = GoodResult();
  RunOf(b, v1::PATH_PTX_JIT, true).mutable_cache()->set_files(3);
  EXPECT_TRUE(ResultsEqual(GoodResult(), b));
}

}  // namespace
}  // namespace twinpath::verdict
