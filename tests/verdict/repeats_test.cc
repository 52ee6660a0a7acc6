// Programs that print times: what runs of the same code say about a difference
// between native and forced JIT.

#include "verdict/repeats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/verdict/results.h"
#include "verdict/compare.h"
#include "verdict/judge.h"
#include "verdict/run_compare.h"

namespace twinpath::verdict {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::Entry WithoutRule() {
  v1::Entry entry = GoodEntry();
  entry.clear_expected_output();
  return entry;
}

// A cell of which the plain run compiled nothing, so that it repeats native.
v1::Cell Printed(absl::string_view native, absl::string_view plain,
                 absl::string_view forced) {
  v1::Cell cell = GoodCell();
  v1::CellResult& result = *cell.mutable_result();
  RemoveRun(result, v1::PATH_PTX_JIT, true);
  // As on a host that traces.
  v1::Observation proof = GoodRun(v1::PATH_PTX_JIT, true);
  proof.set_traced(true);
  SetOutput(proof, "traced\n");
  *result.add_observations() = proof;
  SetOutput(RunOf(result, v1::PATH_NATIVE), native);
  SetOutput(RunOf(result, v1::PATH_PLAIN), plain);
  SetOutput(RunOf(result, v1::PATH_PTX_JIT), forced);
  return cell;
}

// The same, and plain compiled.
v1::Cell Compiled(absl::string_view native, absl::string_view forced) {
  v1::Cell cell = Printed(native, native, forced);
  RunOf(*cell.mutable_result(), v1::PATH_PLAIN).mutable_cache()->set_files(3);
  return cell;
}

Blame BlameOf(const v1::Cell& cell) {
  const v1::Entry entry = WithoutRule();
  return BlameFor(entry, RepeatsOf(entry, cell.result()), kStandardOutput,
                  *MainRun(cell.result(), v1::PATH_NATIVE),
                  *MainRun(cell.result(), v1::PATH_PTX_JIT));
}

TEST(Repeats, NativeRunsAndAPlainRunThatCompiledNothing) {
  v1::Cell cell = Printed("a", "b", "c");
  Repeats repeats = RepeatsOf(WithoutRule(), cell.result());
  EXPECT_THAT(repeats.native, SizeIs(1));
  EXPECT_THAT(repeats.compared, ElementsAre(kStandardOutput));
  EXPECT_THAT(repeats.varying, ElementsAre(kStandardOutput));

  cell = Compiled("a", "c");
  repeats = RepeatsOf(WithoutRule(), cell.result());
  EXPECT_THAT(repeats.native, IsEmpty());
  EXPECT_THAT(repeats.compared, IsEmpty());

  // Native once more.
  *cell.mutable_result()->add_observations() = GoodRun(v1::PATH_NATIVE);
  repeats = RepeatsOf(WithoutRule(), cell.result());
  EXPECT_THAT(repeats.native, SizeIs(1));
  EXPECT_THAT(repeats.varying, ElementsAre(kStandardOutput));
  // One that failed repeats nothing.
  cell.mutable_result()
      ->mutable_observations(cell.result().observations_size() - 1)
      ->set_exit_code(1);
  EXPECT_THAT(RepeatsOf(WithoutRule(), cell.result()).native, IsEmpty());
}

TEST(Repeats, WhatWasNotRecordedIsNotCompared) {
  v1::Cell cell = Printed("a", "a", "c");
  RunOf(*cell.mutable_result(), v1::PATH_PLAIN).clear_stdout();
  const Repeats repeats = RepeatsOf(WithoutRule(), cell.result());
  EXPECT_THAT(repeats.native, SizeIs(1));
  EXPECT_THAT(repeats.compared, IsEmpty());
  EXPECT_THAT(repeats.varying, IsEmpty());
}

TEST(BlameFor, IsTheCodesWhereItsRunsAgree) {
  EXPECT_EQ(BlameOf(Printed("sum 42\n", "sum 42\n", "sum 0\n")), Blame::kCode);
  EXPECT_EQ(BlameOf(Printed("sum 42\n", "sum 42\n", "")), Blame::kCode);
}

TEST(BlameFor, IsNobodysWhereOnlyWhatVariesDiffers) {
  EXPECT_EQ(BlameOf(Printed("sum 42 in 3.1 ms\n", "sum 42 in 3.2 ms\n",
                            "sum 42 in 905 ms\n")),
            Blame::kRepeats);
  // In a column that is wider.
  EXPECT_EQ(BlameOf(Printed("t=  3.1;42", "t=  3.2;42", "t=905.1;42")),
            Blame::kRepeats);
}

// A result that is wrong beside a time that varies was a warning, and passed.
TEST(BlameFor, IsUnknownWhereMoreThanWhatVariesDiffers) {
  EXPECT_EQ(BlameOf(Printed("sum 42 in 3.1 ms\n", "sum 42 in 3.2 ms\n",
                            "sum 0 in 905 ms\n")),
            Blame::kBeyondRepeats);
  EXPECT_EQ(BlameOf(Printed("sum 42 in 3.1 ms\n", "sum 42 in 3.2 ms\n",
                            "in 905 ms\n")),
            Blame::kBeyondRepeats);
}

TEST(BlameFor, IsUnknownWhereTheWordsOfRepeatsDoNotMatch) {
  EXPECT_EQ(BlameOf(Printed("tick 42", "tick tick 42", "tick 0")),
            Blame::kUnaligned);
  v1::Cell cell = Printed("42 3.1", "42 3.2", "42 9.1");
  RunOf(*cell.mutable_result(), v1::PATH_PLAIN)
      .mutable_stdout()
      ->set_total_bytes(1 << 20);
  EXPECT_EQ(BlameOf(cell), Blame::kUnaligned);
}

TEST(BlameFor, CoarseTimesSayNothing) {
  for (const auto& [native, forced] :
       std::vector<std::pair<std::string, std::string>>{
           {"sum 42, 0 s", "sum 42, 12 s"},
           {"took 0s.", "took 12s."},
           {"Elapsed: 0", "Elapsed: 12"},
           {"kernel_time_ms=0", "kernel_time_ms=12"},
           {"Time (ms): 0", "Time (ms): 12"},
           {"950 ms", "1.2 s"},
           {"12.5 GB/s", "0.1 GB/s"},
           {"900 GFLOPS", "3 GFLOPS"},
           {"8.1e-3s", "12s"}}) {
    EXPECT_EQ(BlameOf(Printed(native, native, forced)), Blame::kTimes)
        << native;
  }
  for (const auto& [native, forced] :
       std::vector<std::pair<std::string, std::string>>{
           {"sum 42, 0 s", "sum 0, 12 s"},
           {"0.5 min 0.1", "0.7 min 0.1"},
           {"step 5", "step 6"},
           {"42", "0"},
           {"norm = 0.25", "norm = 0.5"},
           {"no time", "time"},
           {"s", "ms"}}) {
    EXPECT_EQ(BlameOf(Printed(native, native, forced)), Blame::kCode) << native;
  }
}

// A forced run that prints garbage, and other garbage when repeated.
TEST(BlameFor, ThatForcedRunsVaryExcusesNoOtherResult) {
  v1::Cell cell = Printed("42", "42", "7");
  v1::Observation again = GoodRun(v1::PATH_PTX_JIT, true);
  SetOutput(again, "9");
  *cell.mutable_result()->add_observations() = again;
  EXPECT_EQ(BlameOf(cell), Blame::kBeyondRepeats);
  // Where the native code was run once it is not known whether it varies: that
  // the compiled code prints garbage would excuse the garbage.
  RunOf(*cell.mutable_result(), v1::PATH_PLAIN).mutable_cache()->set_files(3);
  EXPECT_EQ(BlameOf(cell), Blame::kNoRepeat);
}

TEST(BlameFor, IsUnknownWithoutRepeat) {
  EXPECT_EQ(BlameOf(Compiled("42", "0")), Blame::kNoRepeat);
}

// Printing times is no difference of the paths on an artifact whose plain run
// compiles, on a host that traces; it was reported as one.
TEST(ComparePaths, WithoutRepeatADifferenceIsInconclusive) {
  const auto findings =
      ComparePaths(Compiled("42 3.1 ms", "42 905 ms"), WithoutRule(), {});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].reason().code(), "TP434");
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_ERROR);
  EXPECT_THAT(findings[0].reason().detail(),
              HasSubstr("no two runs of the same code"));
  EXPECT_THAT(findings[0].reason().fix(), HasSubstr("compare:"));
}

TEST(ComparePaths, NativeOnceMoreTellsTimesFromResults) {
  v1::Cell cell = Compiled("42 3.1 ms", "42 905 ms");
  v1::Observation again = GoodRun(v1::PATH_NATIVE);
  SetOutput(again, "42 3.2 ms");
  *cell.mutable_result()->add_observations() = again;
  auto findings = ComparePaths(cell, WithoutRule(), {});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].reason().code(), "TP402");
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_WARNING);

  cell = Compiled("42", "0");
  SetOutput(again, "42");
  *cell.mutable_result()->add_observations() = again;
  findings = ComparePaths(cell, WithoutRule(), {});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].reason().code(), "TP402");
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_ERROR);
}

v1::VerdictKind VerdictOf(const v1::Cell& printed) {
  v1::Sweep sweep = GoodSweep(1);
  sweep.mutable_spec()
      ->mutable_release()
      ->mutable_entries(0)
      ->clear_expected_output();
  v1::Cell& cell = *sweep.mutable_cells(0);
  *cell.mutable_result() = printed.result();
  cell.mutable_result()->set_cell_id(cell.id());
  JudgeSweep(sweep, {});
  return sweep.verdict().kind();
}

TEST(JudgeSweep, TimesNeitherFailNorHideAWrongResult) {
  EXPECT_EQ(VerdictOf(Printed("42 3.1 ms", "42 3.2 ms", "42 905 ms")),
            v1::VERDICT_KIND_PASS);
  EXPECT_EQ(VerdictOf(Printed("42 3.1 ms", "42 3.2 ms", "0 905 ms")),
            v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(VerdictOf(Printed("42 0 s", "42 0 s", "42 12 s")),
            v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(VerdictOf(Printed("42 0 s", "42 0 s", "0 12 s")),
            v1::VERDICT_KIND_FAIL);
  EXPECT_EQ(VerdictOf(Compiled("42 3.1 ms", "42 905 ms")),
            v1::VERDICT_KIND_INCONCLUSIVE);
}

}  // namespace
}  // namespace twinpath::verdict
