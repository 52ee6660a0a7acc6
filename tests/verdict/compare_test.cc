#include "verdict/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/verdict/results.h"

namespace twinpath::verdict {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

void Fail(v1::Observation& run, uint32_t cuda_error) {
  run.set_exit_code(1);
  SetOutput(run, "FAIL\n");
  v1::Reason& reason = *run.add_errors();
  reason.set_code("TP311");
  reason.set_cuda_error(cuda_error);
}

// What one path of a cell did.
enum class Seen { kProven, kCompiled, kFails, kTimedOut, kSkipped };

struct Case {
  v1::Path path;
  v1::Outcome predicted;
  uint32_t predicted_error;
  Seen seen;
  uint32_t seen_error;
  bool contradicts;
};

// Errors are those of docs/gpu-runs.md: 209 no image, 223 only PTX and
// compiling forbidden, 222 PTX too new for the driver, 218 PTX refused.
TEST(Contradictions, WhichObservationsExcludeWhichPredictions) {
  const Case cases[] = {
      // As predicted.
      {v1::PATH_NATIVE, v1::OUTCOME_NATIVE, 0, Seen::kProven, 0, false},
      {v1::PATH_NATIVE, v1::OUTCOME_FAILS, 223, Seen::kFails, 223, false},
      {v1::PATH_PTX_JIT, v1::OUTCOME_FAILS, 209, Seen::kFails, 209, false},
      {v1::PATH_PTX_JIT, v1::OUTCOME_FAILS, 209, Seen::kFails, 98, false},
      {v1::PATH_PLAIN, v1::OUTCOME_JIT, 0, Seen::kCompiled, 0, false},
      // Another error than predicted.
      {v1::PATH_NATIVE, v1::OUTCOME_FAILS, 209, Seen::kFails, 223, true},
      {v1::PATH_PTX_JIT, v1::OUTCOME_FAILS, 222, Seen::kFails, 218, true},
      // A kernel started where nothing should have loaded.
      {v1::PATH_NATIVE, v1::OUTCOME_FAILS, 209, Seen::kFails, 700, true},
      // Failed in a way that tells nothing of loading.
      {v1::PATH_NATIVE, v1::OUTCOME_FAILS, 209, Seen::kFails, 0, false},
      {v1::PATH_NATIVE, v1::OUTCOME_FAILS, 209, Seen::kFails, 1, false},
      // Ran although it should not.
      {v1::PATH_NATIVE, v1::OUTCOME_FAILS, 223, Seen::kProven, 0, true},
      {v1::PATH_PLAIN, v1::OUTCOME_FAILS, 209, Seen::kCompiled, 0, true},
      // Did not load although it should.
      {v1::PATH_NATIVE, v1::OUTCOME_NATIVE, 0, Seen::kFails, 209, true},
      {v1::PATH_PTX_JIT, v1::OUTCOME_JIT, 0, Seen::kFails, 222, true},
      {v1::PATH_PLAIN, v1::OUTCOME_JIT, 0, Seen::kFails, 218, true},
      // Loaded, and the program is wrong: not the model's business.
      {v1::PATH_NATIVE, v1::OUTCOME_NATIVE, 0, Seen::kFails, 700, false},
      {v1::PATH_NATIVE, v1::OUTCOME_NATIVE, 0, Seen::kFails, 0, false},
      {v1::PATH_NATIVE, v1::OUTCOME_NATIVE, 0, Seen::kFails, 2, false},
      // What plain did.
      {v1::PATH_PLAIN, v1::OUTCOME_NATIVE, 0, Seen::kCompiled, 0, true},
      {v1::PATH_PLAIN, v1::OUTCOME_NATIVE, 0, Seen::kProven, 0, false},
      {v1::PATH_PLAIN, v1::OUTCOME_JIT, 0, Seen::kProven, 0, true},
      // Nothing is known, nothing is excluded.
      {v1::PATH_NATIVE, v1::OUTCOME_UNKNOWN, 0, Seen::kFails, 209, false},
      {v1::PATH_NATIVE, v1::OUTCOME_UNSPECIFIED, 0, Seen::kFails, 209, false},
      {v1::PATH_PLAIN, v1::OUTCOME_UNKNOWN, 0, Seen::kCompiled, 0, false},
      {v1::PATH_NATIVE, v1::OUTCOME_FAILS, 209, Seen::kSkipped, 0, false},
      {v1::PATH_PTX_JIT, v1::OUTCOME_JIT, 0, Seen::kTimedOut, 0, false},
  };
  for (const Case& c : cases) {
    v1::Cell cell = GoodCell();
    Predict(cell, c.path, c.predicted, c.predicted_error, "TP201");
    v1::Observation& run = RunOf(*cell.mutable_result(), c.path);
    if (c.seen == Seen::kFails) Fail(run, c.seen_error);
    if (c.seen == Seen::kCompiled) run.mutable_cache()->set_files(2);
    if (c.seen == Seen::kTimedOut) run.set_ending(v1::ENDING_TIMED_OUT);
    if (c.seen == Seen::kSkipped) run.set_ending(v1::ENDING_SKIPPED);
    EXPECT_EQ(!Contradictions(cell, GoodEntry()).empty(), c.contradicts)
        << "path " << c.path << " predicted " << c.predicted << " "
        << c.predicted_error << " seen " << static_cast<int>(c.seen) << " "
        << c.seen_error;
  }
}

TEST(Contradictions, GapsLeaveRoomForAMissingKernel) {
  v1::Cell cell = GoodCell();
  Predict(cell, v1::PATH_NATIVE, v1::OUTCOME_NATIVE);
  cell.mutable_predictions(0)->set_gaps(3);
  Fail(RunOf(*cell.mutable_result(), v1::PATH_NATIVE), 209);
  EXPECT_THAT(Contradictions(cell, GoodEntry()), IsEmpty());
}

// A member of the artifact fails once one of its kernels is launched; a run
// that launches none of them is no contradiction.
TEST(Contradictions, PartialFailureLeavesRoomForSuccess) {
  v1::Cell cell = GoodCell();
  Predict(cell, v1::PATH_NATIVE, v1::OUTCOME_FAILS, 209, "TP201");
  EXPECT_THAT(Contradictions(cell, GoodEntry()), SizeIs(1));
  cell.mutable_predictions(0)->set_gaps(2);
  EXPECT_THAT(Contradictions(cell, GoodEntry()), IsEmpty());
}

// Native and compiled code side by side: an empty cache is no contradiction.
// Code that the files do not hold: made at run time (TP214), or of a vendor
// library of the host that cannot follow forced compilation (TP222). What it
// does says nothing about the model of the files.
TEST(Contradictions, CodeFromElsewhereContradictsNothing) {
  v1::Cell compiled = GoodCell();
  RunOf(*compiled.mutable_result(), v1::PATH_PLAIN)
      .mutable_cache()
      ->set_files(2);
  Predict(compiled, v1::PATH_PLAIN, v1::OUTCOME_NATIVE, 0, "TP200");
  EXPECT_THAT(Contradictions(compiled, GoodEntry()), SizeIs(1));
  compiled.mutable_predictions(0)->add_reasons()->set_code("TP214");
  EXPECT_THAT(Contradictions(compiled, GoodEntry()), IsEmpty());

  const struct {
    v1::Path path;
    v1::Outcome outcome;
    uint32_t error;
    const char* code;
  } kCases[] = {{v1::PATH_NATIVE, v1::OUTCOME_NATIVE, 223, "TP214"},
                {v1::PATH_PTX_JIT, v1::OUTCOME_JIT, 209, "TP222"}};
  for (const auto& row : kCases) {
    v1::Cell cell = GoodCell();
    v1::Observation& run = RunOf(*cell.mutable_result(), row.path);
    run.set_exit_code(1);
    v1::Reason& error = *run.add_errors();
    error.set_code("TP311");
    error.set_cuda_error(row.error);
    Predict(cell, row.path, row.outcome, 0, "TP200");
    EXPECT_THAT(Contradictions(cell, GoodEntry()), SizeIs(1)) << row.code;
    cell.mutable_predictions(0)->add_reasons()->set_code(row.code);
    EXPECT_THAT(Contradictions(cell, GoodEntry()), IsEmpty()) << row.code;
  }
}

TEST(Contradictions, MixedCodeMayOrMayNotCompile) {
  v1::Cell cell = GoodCell();
  Predict(cell, v1::PATH_PLAIN, v1::OUTCOME_JIT, 0, "TP206");
  EXPECT_THAT(Contradictions(cell, GoodEntry()), SizeIs(1));
  cell.mutable_predictions(0)->add_reasons()->set_code("TP200");
  EXPECT_THAT(Contradictions(cell, GoodEntry()), IsEmpty());
}

TEST(Contradictions, AnyOfSeveralPredictedErrorsIsRight) {
  v1::Cell cell = GoodCell();
  Predict(cell, v1::PATH_NATIVE, v1::OUTCOME_FAILS, 209, "TP201");
  v1::Reason& second = *cell.mutable_predictions(0)->add_reasons();
  second.set_code("TP205");
  second.set_cuda_error(223);
  Fail(RunOf(*cell.mutable_result(), v1::PATH_NATIVE), 223);
  EXPECT_THAT(Contradictions(cell, GoodEntry()), IsEmpty());
}

TEST(Contradictions, SimulatedAndIncompleteContradictNothing) {
  v1::Cell cell = GoodCell();
  Predict(cell, v1::PATH_NATIVE, v1::OUTCOME_FAILS, 209, "TP201");
  ASSERT_THAT(Contradictions(cell, GoodEntry()), SizeIs(1));
  v1::Cell simulated = cell;
  simulated.set_simulated(true);
  EXPECT_THAT(Contradictions(simulated, GoodEntry()), IsEmpty());
  v1::Cell incomplete = cell;
  incomplete.mutable_result()->set_complete(false);
  EXPECT_THAT(Contradictions(incomplete, GoodEntry()), IsEmpty());
}

// docs/gpu-runs.md: compute_75 PTX beside sm_90 code of a kernel guarded by
// __CUDA_ARCH__: native 42, forced JIT 0, exit code 0 both times.
v1::Cell GuardedCell() {
  v1::Cell cell = GoodCell();
  SetOutput(RunOf(*cell.mutable_result(), v1::PATH_NATIVE), "42\n");
  SetOutput(RunOf(*cell.mutable_result(), v1::PATH_PLAIN), "42\n");
  SetOutput(RunOf(*cell.mutable_result(), v1::PATH_PTX_JIT), "0\n");
  SetOutput(RunOf(*cell.mutable_result(), v1::PATH_PTX_JIT, true), "0\n");
  return cell;
}

v1::Entry WithoutRule() {
  v1::Entry entry = GoodEntry();
  entry.clear_expected_output();
  return entry;
}

TEST(ComparePaths, TwoAnswersAreAnError) {
  const auto findings = ComparePaths(GuardedCell(), WithoutRule(), {});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].reason().code(), "TP402");
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_ERROR);
  EXPECT_TRUE(findings[0].mismatch());
}

TEST(ComparePaths, EqualAnswersAreNone) {
  EXPECT_THAT(ComparePaths(GoodCell(), WithoutRule(), {}), IsEmpty());
}

TEST(ComparePaths, OptionalPathMakesItAWarning) {
  v1::Policy policy;
  policy.set_ptx_jit(v1::PATH_RULE_OPTIONAL);
  const auto findings = ComparePaths(GuardedCell(), WithoutRule(), policy);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_WARNING);
}

void SetFile(v1::Observation& run, absl::string_view text) {
  run.clear_files();
  v1::OutputFile& file = *run.add_files();
  file.set_name("out.bin");
  file.mutable_content()->set_head(std::string(text));
  file.mutable_content()->set_total_bytes(text.size());
  *file.mutable_content()->mutable_digest() = DigestOf(text);
}

v1::Entry WithFile() {
  v1::Entry entry = WithoutRule();
  entry.add_expected_files()->set_name("out.bin");
  return entry;
}

// Each run prints another time, and leaves a file by its code alone.
v1::Cell TimedCell(absl::string_view native, absl::string_view forced) {
  v1::Cell cell = GoodCell();
  int time = 0;
  for (v1::Observation& run : *cell.mutable_result()->mutable_observations()) {
    SetOutput(run, absl::StrCat(++time, " s\n"));
    SetFile(run, run.path() == v1::PATH_PTX_JIT ? forced : native);
  }
  return cell;
}

// One varying part excused every other: wrong numbers in the file were a
// warning, and the cell passed.
TEST(ComparePaths, APartThatVariesExcusesNoOther) {
  const v1::Cell cell = TimedCell("42", "0");
  const auto findings = ComparePaths(cell, WithFile(), {});
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[0].reason().code(), "TP402");
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_ERROR);
  EXPECT_THAT(findings[0].reason().detail(), HasSubstr("file out.bin"));
  EXPECT_EQ(findings[1].severity(), v1::SEVERITY_WARNING);
  EXPECT_THAT(findings[1].reason().detail(),
              AllOf(HasSubstr("standard output"), Not(HasSubstr("file"))));
  const auto equal = ComparePaths(TimedCell("42", "42"), WithFile(), {});
  ASSERT_THAT(equal, SizeIs(1));
  EXPECT_EQ(equal[0].severity(), v1::SEVERITY_WARNING);
}

// The traced repeat was taken for one of the same run, and what a tracer makes
// a program print excused the path.
TEST(ComparePaths, ATracedRepeatExcusesNothing) {
  v1::Cell cell = GuardedCell();
  v1::Observation& proof =
      RunOf(*cell.mutable_result(), v1::PATH_PTX_JIT, true);
  SetOutput(proof, "traced: 0\n");
  proof.set_traced(true);
  const auto findings = ComparePaths(cell, WithoutRule(), {});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_ERROR);
  EXPECT_EQ(findings[0].reason().code(), "TP402");
  proof.set_traced(false);
  EXPECT_EQ(ComparePaths(cell, WithoutRule(), {})[0].reason().code(), "TP434");
}

// A difference elsewhere dropped the part that cannot be compared.
TEST(ComparePaths, WhatCannotBeComparedIsSaidBesideWhatDiffers) {
  v1::Cell cell = TimedCell("42", "42");
  RunOf(*cell.mutable_result(), v1::PATH_PTX_JIT)
      .mutable_files(0)
      ->clear_content();
  const auto findings = ComparePaths(cell, WithFile(), {});
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[0].reason().code(), "TP402");
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_WARNING);
  EXPECT_EQ(findings[1].reason().code(), "TP434");
  EXPECT_EQ(findings[1].severity(), v1::SEVERITY_ERROR);
}

TEST(ComparePaths, ARuleThatBothMeetMakesItAWarning) {
  v1::Cell cell = GoodCell();
  SetOutput(RunOf(*cell.mutable_result(), v1::PATH_PTX_JIT), "PASS in 9 s\n");
  SetOutput(RunOf(*cell.mutable_result(), v1::PATH_PTX_JIT, true),
            "PASS in 9 s\n");
  const auto findings = ComparePaths(cell, GoodEntry(), {});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_WARNING);
}

TEST(ComparePaths, AFailedPathIsNotCompared) {
  v1::Cell cell = GuardedCell();
  RunOf(*cell.mutable_result(), v1::PATH_PTX_JIT).set_exit_code(1);
  EXPECT_THAT(ComparePaths(cell, WithoutRule(), {}), IsEmpty());
}

TEST(CompareStaged, OtherBytesUnderTheSameName) {
  const v1::Artifact artifact = GoodSweep().spec().release().artifact();
  v1::Cell cell = GoodCell();
  EXPECT_THAT(CompareStaged(cell, artifact), IsEmpty());
  *cell.mutable_result()->mutable_staged(0)->mutable_digest() =
      DigestOf("relinked");
  const auto reasons = CompareStaged(cell, artifact);
  ASSERT_THAT(reasons, SizeIs(1));
  EXPECT_EQ(reasons[0].code(), "TP405");
  EXPECT_THAT(reasons[0].detail(), HasSubstr("check"));
}

TEST(CompareStaged, MissingExtraAndDoubleFiles) {
  const v1::Artifact artifact = GoodSweep().spec().release().artifact();
  v1::Cell missing = GoodCell();
  missing.mutable_result()->clear_staged();
  ASSERT_THAT(CompareStaged(missing, artifact), SizeIs(1));
  EXPECT_EQ(CompareStaged(missing, artifact)[0].code(), "TP418");

  v1::Cell extra = GoodCell();
  extra.mutable_result()->add_staged()->set_name("other");
  ASSERT_THAT(CompareStaged(extra, artifact), SizeIs(1));
  EXPECT_EQ(CompareStaged(extra, artifact)[0].code(), "TP405");

  v1::Cell twice = GoodCell();
  v1::StagedFile& again = *twice.mutable_result()->add_staged();
  again.set_name("check");
  *again.mutable_digest() = DigestOf("relinked");
  ASSERT_THAT(CompareStaged(twice, artifact), SizeIs(1));
  EXPECT_EQ(CompareStaged(twice, artifact)[0].code(), "TP405");
}

// Codes and hosts of the class findings of a sweep.
std::vector<v1::Finding> ClassFindings(const v1::Sweep& sweep) {
  std::vector<v1::Finding> found;
  for (const v1::Finding& finding : CompareCells(sweep)) {
    if (finding.reason().code() == "TP403") found.push_back(finding);
  }
  return found;
}

TEST(CompareCells, OneOddHostAmongFiveHundredIsOneFinding) {
  v1::Sweep sweep = GoodSweep(500);
  Fail(RunOf(*sweep.mutable_cells(41)->mutable_result(), v1::PATH_NATIVE), 209);
  const auto findings = ClassFindings(sweep);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].hosts(), ElementsAre("spark-42"));
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_ERROR);
  EXPECT_THAT(findings[0].reason().detail(),
              "native: failed with CUDA error 209 where most of its class: "
              "proven");
}

TEST(CompareCells, HostsThatFailAlikeAreOneFinding) {
  v1::Sweep sweep = GoodSweep(500);
  for (v1::Cell& cell : *sweep.mutable_cells()) {
    Predict(cell, v1::PATH_NATIVE, v1::OUTCOME_NATIVE);
    Fail(RunOf(*cell.mutable_result(), v1::PATH_NATIVE), 209);
  }
  const auto findings = CompareCells(sweep);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].reason().code(), "TP401");
  EXPECT_EQ(findings[0].hosts_size(), 500);
  EXPECT_EQ(findings[0].cell_ids_size(), 500);
}

TEST(CompareCells, OtherClassesMayDiffer) {
  v1::Sweep sweep = GoodSweep(3);
  Fail(RunOf(*sweep.mutable_cells(0)->mutable_result(), v1::PATH_NATIVE), 209);
  *sweep.mutable_cells(0)->mutable_class_digest() = DigestOf("other class");
  EXPECT_THAT(ClassFindings(sweep), IsEmpty());
  sweep.mutable_cells(0)->clear_class_digest();
  EXPECT_THAT(ClassFindings(sweep), IsEmpty());
}

TEST(CompareCells, OtherGpusOfOneClassMayDiffer) {
  v1::Sweep sweep = GoodSweep(3);
  Fail(RunOf(*sweep.mutable_cells(0)->mutable_result(), v1::PATH_NATIVE), 209);
  sweep.mutable_cells(0)->set_gpu_name("Tesla T4");
  EXPECT_THAT(ClassFindings(sweep), IsEmpty());
}

TEST(CompareCells, ATieNamesBoth) {
  v1::Sweep sweep = GoodSweep(2);
  Fail(RunOf(*sweep.mutable_cells(0)->mutable_result(), v1::PATH_NATIVE), 209);
  const auto findings = ClassFindings(sweep);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].hosts(), ElementsAre("spark-1", "spark-2"));
}

TEST(CompareCells, InconclusiveHostsAreNotCompared) {
  v1::Sweep sweep = GoodSweep(2);
  Fail(RunOf(*sweep.mutable_cells(0)->mutable_result(), v1::PATH_NATIVE), 2);
  EXPECT_THAT(ClassFindings(sweep), IsEmpty());
}

TEST(CompareCells, OutputOfOneHostAgainstMostIsAnError) {
  v1::Sweep sweep = GoodSweep(3);
  sweep.mutable_spec()
      ->mutable_release()
      ->mutable_entries(0)
      ->clear_expected_output();
  for (v1::Observation& run :
       *sweep.mutable_cells(2)->mutable_result()->mutable_observations()) {
    SetOutput(run, "43\n");
  }
  const auto findings = ClassFindings(sweep);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].hosts(), ElementsAre("spark-3"));
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_ERROR);
}

// Cells whose standard output holds a time were compared in no part at all.
TEST(CompareCells, APartThatVariesLeavesTheOthersToBeCompared) {
  v1::Sweep sweep = GoodSweep(3);
  *sweep.mutable_spec()->mutable_release()->mutable_entries(0) = WithFile();
  for (int i = 0; i < 3; ++i) {
    const absl::string_view text = i == 2 ? "43" : "42";
    *sweep.mutable_cells(i)->mutable_result() = TimedCell(text, text).result();
  }
  const auto findings = ClassFindings(sweep);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].hosts(), ElementsAre("spark-3"));
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_ERROR);
  EXPECT_THAT(findings[0].reason().detail(), HasSubstr("file out.bin differs"));
}

// Two parts of one cell are one finding, as before parts had groups of their
// own.
TEST(CompareCells, AllPartsOfACellAreOneFinding) {
  v1::Sweep sweep = GoodSweep(3);
  *sweep.mutable_spec()->mutable_release()->mutable_entries(0) = WithFile();
  for (int i = 0; i < 3; ++i) {
    for (v1::Observation& run :
         *sweep.mutable_cells(i)->mutable_result()->mutable_observations()) {
      SetOutput(run, i == 2 ? "43" : "42");
      SetFile(run, i == 2 ? "43" : "42");
    }
  }
  const auto findings = ClassFindings(sweep);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].hosts(), ElementsAre("spark-3"));
  EXPECT_EQ(findings[0].reason().detail(),
            "native: standard output differs, file out.bin differs from that "
            "of most of its class");
}

// All cut outputs of one length and start had one key, and were never compared.
TEST(CompareCells, CutOutputWithoutDigestEqualsNoOther) {
  v1::Sweep sweep = GoodSweep(3);
  *sweep.mutable_spec()->mutable_release()->mutable_entries(0) = WithoutRule();
  for (v1::Cell& cell : *sweep.mutable_cells()) {
    v1::CapturedOutput& output =
        *RunOf(*cell.mutable_result(), v1::PATH_NATIVE).mutable_stdout();
    output.set_total_bytes(1000);
    output.clear_digest();
  }
  int of_native = 0;
  for (const v1::Finding& finding : CompareCells(sweep)) {
    if (finding.reason().code() == "TP434" &&
        absl::StartsWith(finding.reason().detail(), "native: ")) {
      of_native += finding.hosts_size();
    }
  }
  EXPECT_EQ(of_native, 3);
}

TEST(CompareCells, OutputThatNamesItsHostIsAWarning) {
  v1::Sweep sweep = GoodSweep(3);
  sweep.mutable_spec()
      ->mutable_release()
      ->mutable_entries(0)
      ->clear_expected_output();
  for (v1::Cell& cell : *sweep.mutable_cells()) {
    for (v1::Observation& run :
         *cell.mutable_result()->mutable_observations()) {
      SetOutput(run, cell.host_name());
    }
  }
  const auto findings = ClassFindings(sweep);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_WARNING);
}

}  // namespace
}  // namespace twinpath::verdict
