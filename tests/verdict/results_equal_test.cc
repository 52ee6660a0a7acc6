#include "verdict/results_equal.h"

#include <gtest/gtest.h>

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

TEST(ResultsEqual, AnEntrysRuleStandsForTheBytes) {
  const v1::Entry entry = GoodEntry();
  const v1::CellResult a = GoodResult();
  v1::CellResult b = a;
  SetOutput(RunOf(b, v1::PATH_NATIVE), "PASS in 3 s\n");
  EXPECT_TRUE(ResultsEqual(a, b, &entry));
  SetOutput(RunOf(b, v1::PATH_NATIVE), "FAIL\n");
  EXPECT_FALSE(ResultsEqual(a, b, &entry));
}

TEST(ResultsEqual, NumberOfCompiledFilesDoesNotCount) {
  v1::CellResult b = GoodResult();
  RunOf(b, v1::PATH_PTX_JIT, true).mutable_cache()->set_files(3);
  EXPECT_TRUE(ResultsEqual(GoodResult(), b));
}

}  // namespace
}  // namespace twinpath::verdict
