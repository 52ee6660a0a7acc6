#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/verdict/results.h"
#include "verdict/judge.h"

namespace twinpath::verdict {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

std::vector<std::string> Codes(const v1::Verdict& verdict) {
  std::vector<std::string> codes;
  for (const v1::Reason& reason : verdict.reasons()) {
    codes.push_back(reason.code());
  }
  return codes;
}

std::vector<std::string> Codes(const v1::Sweep& sweep) {
  std::vector<std::string> codes;
  for (const v1::Finding& finding : sweep.findings()) {
    codes.push_back(finding.reason().code());
  }
  return codes;
}

v1::Sweep Judged(v1::Sweep sweep, const v1::ArtifactReport& report = {}) {
  JudgeSweep(sweep, report);
  return sweep;
}

void Fail(v1::Cell& cell) {
  v1::Observation& run = RunOf(*cell.mutable_result(), v1::PATH_NATIVE);
  run.set_exit_code(1);
  v1::Reason& reason = *run.add_errors();
  reason.set_code("TP311");
  reason.set_detail("no image");
  reason.set_cuda_error(209);
}

void LoseResult(v1::Cell& cell) {
  cell.set_state(v1::CELL_STATE_ENDED);
  cell.clear_result();
}

TEST(JudgeSweep, AllHostsPass) {
  const v1::Sweep sweep = Judged(GoodSweep(3));
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_PASS);
  ASSERT_EQ(sweep.hosts_size(), 3);
  for (const v1::HostVerdict& host : sweep.hosts()) {
    EXPECT_EQ(host.verdict().kind(), v1::VERDICT_KIND_PASS);
  }
  EXPECT_EQ(sweep.findings_size(), 0);
  EXPECT_EQ(sweep.missing_hosts_size(), 0);
}

TEST(JudgeSweep, OneFailureFails) {
  v1::Sweep sweep = GoodSweep(3);
  Fail(*sweep.mutable_cells(1));
  sweep = Judged(sweep);
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_FAIL);
  EXPECT_EQ(sweep.hosts(0).verdict().kind(), v1::VERDICT_KIND_PASS);
  EXPECT_EQ(sweep.hosts(1).verdict().kind(), v1::VERDICT_KIND_FAIL);
  // It also differs from its class.
  EXPECT_THAT(Codes(sweep), Contains("TP403"));
}

TEST(JudgeSweep, FiveHundredEqualFailuresAreOneFindingACode) {
  v1::Sweep sweep = GoodSweep(500);
  for (v1::Cell& cell : *sweep.mutable_cells()) Fail(cell);
  sweep = Judged(sweep);
  EXPECT_THAT(Codes(sweep), ElementsAre("TP302", "TP311"));
  EXPECT_EQ(sweep.findings(0).hosts_size(), 500);
  EXPECT_EQ(sweep.verdict().reasons_size(), 2);
}

TEST(JudgeSweep, MissingHostIsNamed) {
  v1::Sweep sweep = GoodSweep(3);
  sweep.set_state(v1::SWEEP_STATE_DEADLINE);
  LoseResult(*sweep.mutable_cells(2));
  sweep = Judged(sweep);
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(Codes(sweep.verdict()), Contains("TP411"));
  EXPECT_THAT(Codes(sweep.verdict()), Contains("TP413"));
  EXPECT_THAT(sweep.missing_hosts(), ElementsAre("spark-3"));
  EXPECT_EQ(ExitCodeOf(sweep.verdict()), kExitInconclusive);
}

TEST(JudgeSweep, NobodyAnsweringHasItsOwnExitCode) {
  v1::Sweep sweep = GoodSweep(2);
  sweep.set_state(v1::SWEEP_STATE_DEADLINE);
  LoseResult(*sweep.mutable_cells(0));
  LoseResult(*sweep.mutable_cells(1));
  sweep = Judged(sweep);
  EXPECT_EQ(ExitCodeOf(sweep.verdict()), kExitUnreachable);
}

TEST(JudgeSweep, MissingHostWithoutACellIsKept) {
  v1::Sweep sweep = GoodSweep(1);
  sweep.add_missing_hosts("never-came");
  sweep = Judged(Judged(sweep));
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(sweep.missing_hosts(), ElementsAre("never-came"));
  EXPECT_EQ(sweep.hosts_size(), 2);
}

TEST(JudgeSweep, FailOutweighsMissing) {
  v1::Sweep sweep = GoodSweep(2);
  Fail(*sweep.mutable_cells(0));
  LoseResult(*sweep.mutable_cells(1));
  EXPECT_EQ(Judged(sweep).verdict().kind(), v1::VERDICT_KIND_FAIL);
}

TEST(JudgeSweep, NoHostsIsInconclusive) {
  const v1::Sweep sweep = Judged(GoodSweep(0));
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(Codes(sweep.verdict()), Contains("TP412"));
}

TEST(JudgeSweep, CancelledIsInconclusive) {
  v1::Sweep sweep = GoodSweep(1);
  sweep.set_state(v1::SWEEP_STATE_CANCELLED);
  sweep = Judged(sweep);
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(Codes(sweep.verdict()), Contains("TP416"));
}

TEST(JudgeSweep, EntryWithoutACellKeepsItsHostFromPass) {
  v1::Sweep sweep = GoodSweep(1);
  v1::Entry& second = *sweep.mutable_spec()->mutable_release()->add_entries();
  second = GoodEntry();
  second.set_name("train");
  EXPECT_EQ(Judged(sweep).verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
}

TEST(JudgeSweep, CellOfAnUnknownEntryIsInconclusive) {
  v1::Sweep sweep = GoodSweep(1);
  sweep.mutable_cells(0)->set_entry("other");
  EXPECT_EQ(Judged(sweep).verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
}

TEST(JudgeSweep, ChangedFileOnTheHostFails) {
  v1::Sweep sweep = GoodSweep(2);
  *sweep.mutable_cells(0)
       ->mutable_result()
       ->mutable_staged(0)
       ->mutable_digest() = DigestOf("relinked");
  sweep = Judged(sweep);
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_FAIL);
  EXPECT_THAT(Codes(sweep), ElementsAre("TP405"));
  EXPECT_TRUE(sweep.findings(0).mismatch());
  EXPECT_THAT(Codes(sweep.cells(0).verdict()), Contains("TP405"));
}

// The agent looks at the files before each run and refuses to start others.
TEST(JudgeSweep, ChangedFileThatTheAgentRefusedFailsToo) {
  v1::Sweep sweep = GoodSweep(1);
  for (v1::Observation& run :
       *sweep.mutable_cells(0)->mutable_result()->mutable_observations()) {
    run.set_ending(v1::ENDING_NOT_STARTED);
    run.set_problem("TP405 check is not what was dispatched");
  }
  sweep = Judged(sweep);
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_FAIL);
  EXPECT_THAT(Codes(sweep), Contains("TP405"));
}

TEST(JudgeSweep, HostWithoutGpuSaysWhy) {
  v1::Sweep sweep = GoodSweep(1);
  v1::Cell& cell = *sweep.mutable_cells(0);
  LoseResult(cell);
  cell.clear_gpu_uuid();
  v1::Reason& reason = *cell.mutable_result()->add_problems();
  reason.set_code("TP106");
  reason.set_detail("no GPU");
  sweep = Judged(sweep);
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(Codes(sweep.cells(0).verdict()), ElementsAre("TP106", "TP318"));
}

TEST(JudgeSweep, TwoAnswersOfOneHostFail) {
  v1::Sweep sweep = GoodSweep(1);
  sweep.mutable_spec()
      ->mutable_release()
      ->mutable_entries(0)
      ->clear_expected_output();
  v1::CellResult& result = *sweep.mutable_cells(0)->mutable_result();
  SetOutput(RunOf(result, v1::PATH_PTX_JIT), "0\n");
  SetOutput(RunOf(result, v1::PATH_PTX_JIT, true), "0\n");
  sweep = Judged(sweep);
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_FAIL);
  EXPECT_THAT(Codes(sweep), ElementsAre("TP402"));
}

TEST(JudgeSweep, ContradictionIsAFindingAndNoPass) {
  v1::Sweep sweep = GoodSweep(1);
  Predict(*sweep.mutable_cells(0), v1::PATH_NATIVE, v1::OUTCOME_FAILS, 209,
          "TP201");
  sweep = Judged(sweep);
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(Codes(sweep), ElementsAre("TP401"));
  EXPECT_TRUE(sweep.findings(0).mismatch());
}

v1::Sweep Expecting(uint32_t sass) {
  v1::Sweep sweep = GoodSweep(1);
  sweep.mutable_spec()
      ->mutable_release()
      ->mutable_expect()
      ->add_sass_targets()
      ->set_number(sass);
  return sweep;
}

v1::ArtifactReport ReportOf(const v1::Sweep& sweep) {
  v1::ArtifactReport report;
  *report.mutable_artifact_digest() =
      sweep.spec().release().artifact().digest();
  v1::FileReport& file = *report.add_files();
  file.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
  v1::Image& image = *file.add_fatbins()->add_images();
  image.set_kind(v1::IMAGE_KIND_SASS);
  image.mutable_target()->set_number(90);
  return report;
}

TEST(JudgeSweep, WhatTheReleaseDeclaresMustBeThere) {
  const v1::Sweep met = Expecting(90);
  EXPECT_EQ(Judged(met, ReportOf(met)).verdict().kind(), v1::VERDICT_KIND_PASS);
  const v1::Sweep unmet = Judged(Expecting(121), ReportOf(met));
  EXPECT_EQ(unmet.verdict().kind(), v1::VERDICT_KIND_FAIL);
  EXPECT_THAT(Codes(unmet), ElementsAre("TP407"));
  // The host is not at fault.
  EXPECT_EQ(unmet.hosts(0).verdict().kind(), v1::VERDICT_KIND_PASS);
}

TEST(JudgeSweep, UnreadPartsLeaveTheDeclarationOpen) {
  const v1::Sweep sweep = Expecting(121);
  v1::ArtifactReport report = ReportOf(sweep);
  report.mutable_files(0)->add_problems()->set_code("TP232");
  EXPECT_EQ(Judged(sweep, report).verdict().kind(),
            v1::VERDICT_KIND_INCONCLUSIVE);
}

TEST(JudgeSweep, ReportOfAnotherArtifactDecidesNothing) {
  const v1::Sweep sweep = Expecting(90);
  v1::ArtifactReport report = ReportOf(sweep);
  *report.mutable_artifact_digest() = DigestOf("another");
  EXPECT_EQ(Judged(sweep, report).verdict().kind(),
            v1::VERDICT_KIND_INCONCLUSIVE);
}

TEST(JudgeSweep, StrictPolicyTurnsWarningsIntoFailure) {
  v1::Sweep sweep = GoodSweep(1);
  sweep.mutable_spec()->mutable_policy()->set_ptx_jit(v1::PATH_RULE_OPTIONAL);
  RunOf(*sweep.mutable_cells(0)->mutable_result(), v1::PATH_PTX_JIT)
      .set_exit_code(1);
  EXPECT_EQ(Judged(sweep).verdict().kind(), v1::VERDICT_KIND_PASS);
  sweep.mutable_spec()->mutable_policy()->set_strict(true);
  EXPECT_EQ(Judged(sweep).verdict().kind(), v1::VERDICT_KIND_FAIL);
}

TEST(JudgeSweep, IsIdempotent) {
  v1::Sweep sweep = GoodSweep(3);
  Fail(*sweep.mutable_cells(0));
  LoseResult(*sweep.mutable_cells(1));
  sweep.mutable_cells(2)->set_simulated(true);
  const v1::Sweep once = Judged(sweep);
  EXPECT_EQ(Judged(once).DebugString(), once.DebugString());
}

TEST(JudgeSweep, RunningSweepKeepsMissingHostsAlone) {
  v1::Sweep sweep = GoodSweep(1);
  sweep.set_state(v1::SWEEP_STATE_RUNNING);
  sweep.mutable_cells(0)->set_state(v1::CELL_STATE_WAITING);
  sweep.mutable_cells(0)->clear_result();
  sweep = Judged(sweep);
  EXPECT_EQ(sweep.missing_hosts_size(), 0);
  EXPECT_THAT(Codes(sweep.cells(0).verdict()), Not(Contains("TP411")));
}

TEST(JudgeSweep, SimulatedHostsAreOneFinding) {
  v1::Sweep sweep = GoodSweep(8);
  for (v1::Cell& cell : *sweep.mutable_cells()) cell.set_simulated(true);
  sweep = Judged(sweep);
  ASSERT_THAT(sweep.findings(), SizeIs(1));
  EXPECT_EQ(sweep.findings(0).reason().code(), "TP414");
  EXPECT_EQ(sweep.findings(0).hosts_size(), 8);
}

TEST(Statement, NamesExactlyWhatWasShown) {
  v1::Sweep sweep = GoodSweep(3);
  sweep.mutable_spec()->mutable_release()->set_source_revision("abc123");
  LoseResult(*sweep.mutable_cells(2));
  const std::string text = Judged(sweep).verdict().statement();
  for (const std::string& part : std::vector<std::string>{
           "verdict: inconclusive\n",
           "artifact: demo sha256:" + Sha256Of("artifact").Hex() + "\n",
           "source revision: abc123\n",
           "entries: check\n",
           "policy: native required, ptx-jit required, plain required\n",
           "time: 2023-11-14T22:13:20Z to 2023-11-14T22:14:20Z",
           "native proven, ptx-jit proven, plain proven; class sha256:" +
               Sha256Of("class").Hex() +
               ", aarch64, driver 580.95.05 (CUDA 13.0), GPU NVIDIA GB10 "
               "(12.1); hosts spark-1, spark-2\n",
           "missing hosts: spark-3\n",
           "not a promise for every driver",
       }) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Statement, PrintsForeignBytesHarmlessly) {
  v1::Sweep sweep = GoodSweep(1);
  sweep.mutable_cells(0)->set_gpu_name("GPU\nverdict: pass");
  sweep.mutable_cells(0)->clear_result();
  EXPECT_THAT(Judged(sweep).verdict().statement(),
              Not(HasSubstr("\nverdict: pass")));
}

}  // namespace
}  // namespace twinpath::verdict
