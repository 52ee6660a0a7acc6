#include "verdict/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/verdict/results.h"

namespace twinpath::verdict {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

std::vector<std::string> Codes(const v1::Verdict& verdict) {
  std::vector<std::string> codes;
  for (const v1::Reason& reason : verdict.reasons()) {
    codes.push_back(reason.code());
  }
  return codes;
}

void Fail(v1::Observation& run, uint32_t cuda_error) {
  run.set_exit_code(1);
  v1::Reason& reason = *run.add_errors();
  reason.set_code("TP311");
  reason.set_detail("failed");
  reason.set_cuda_error(cuda_error);
}

v1::Policy PtxJit(v1::PathRule rule) {
  v1::Policy policy;
  policy.set_ptx_jit(rule);
  return policy;
}

TEST(JudgeCell, CompleteEvidencePasses) {
  const v1::Verdict verdict = JudgeCell(GoodCell(), GoodEntry(), {});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_PASS);
  EXPECT_EQ(Codes(verdict)[0], "TP420");
}

TEST(JudgeCell, PassesWithoutAnyPrediction) {
  v1::Cell cell = GoodCell();
  cell.clear_predictions();
  EXPECT_EQ(JudgeCell(cell, GoodEntry(), {}).kind(), v1::VERDICT_KIND_PASS);
}

// A program without device code runs anywhere: ending well shows nothing of the
// GPU. A checked result is the release's own word for it.
TEST(JudgeCell, RunsOfFilesWithoutDeviceCodeProveNothing) {
  v1::Cell cell = GoodCell();
  for (const v1::Path path :
       {v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN}) {
    Predict(cell, path, v1::OUTCOME_NO_DEVICE_CODE, 0, "TP223");
  }
  v1::Policy policy;
  policy.set_ptx_jit(v1::PATH_RULE_SKIPPED);
  v1::Entry unchecked = GoodEntry();
  unchecked.clear_expected_output();
  const v1::Verdict nothing = JudgeCell(cell, unchecked, policy);
  EXPECT_EQ(nothing.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  // No note, which views leave out: what is unknown is never hidden.
  EXPECT_EQ(Codes(nothing)[0], "TP418");

  const v1::Verdict checked = JudgeCell(cell, GoodEntry(), policy);
  EXPECT_EQ(checked.kind(), v1::VERDICT_KIND_PASS);
  EXPECT_THAT(Codes(checked), Contains("TP223"));

  // Something was compiled, so device code from elsewhere ran.
  policy.set_native(v1::PATH_RULE_SKIPPED);
  RunOf(*cell.mutable_result(), v1::PATH_PLAIN).mutable_cache()->set_files(2);
  EXPECT_EQ(JudgeCell(cell, unchecked, policy).kind(), v1::VERDICT_KIND_PASS);
}

TEST(JudgeCell, ObservedFailureOfARequiredPathFails) {
  v1::Cell cell = GoodCell();
  Fail(RunOf(*cell.mutable_result(), v1::PATH_PTX_JIT), 209);
  for (const v1::PathRule rule :
       {v1::PATH_RULE_REQUIRED, v1::PATH_RULE_UNSPECIFIED,
        static_cast<v1::PathRule>(77)}) {
    const v1::Verdict verdict = JudgeCell(cell, GoodEntry(), PtxJit(rule));
    EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_FAIL) << rule;
    EXPECT_EQ(verdict.reasons(0).cuda_error(), 209u);
  }
}

TEST(JudgeCell, OptionalFailureIsAWarningAndFailsStrictly) {
  v1::Cell cell = GoodCell();
  Fail(RunOf(*cell.mutable_result(), v1::PATH_PTX_JIT), 209);
  v1::Policy policy = PtxJit(v1::PATH_RULE_OPTIONAL);
  const v1::Verdict lenient = JudgeCell(cell, GoodEntry(), policy);
  EXPECT_EQ(lenient.kind(), v1::VERDICT_KIND_PASS);
  EXPECT_THAT(Codes(lenient), Contains("TP311"));
  policy.set_strict(true);
  EXPECT_EQ(JudgeCell(cell, GoodEntry(), policy).kind(), v1::VERDICT_KIND_FAIL);
}

TEST(JudgeCell, SkippedPathIsNotLookedAt) {
  v1::Cell cell = GoodCell();
  Fail(RunOf(*cell.mutable_result(), v1::PATH_PTX_JIT), 209);
  const v1::Verdict verdict =
      JudgeCell(cell, GoodEntry(), PtxJit(v1::PATH_RULE_SKIPPED));
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_PASS);
  EXPECT_THAT(Codes(verdict), Not(Contains("TP311")));
}

TEST(JudgeCell, SkippingEverythingProvesNothing) {
  v1::Policy policy;
  policy.set_native(v1::PATH_RULE_SKIPPED);
  policy.set_ptx_jit(v1::PATH_RULE_SKIPPED);
  policy.set_plain(v1::PATH_RULE_SKIPPED);
  const v1::Verdict verdict = JudgeCell(GoodCell(), GoodEntry(), policy);
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(Codes(verdict), ElementsAre("TP418"));
}

TEST(JudgeCell, FailBeforeInconclusive) {
  v1::Cell cell = GoodCell();
  Fail(RunOf(*cell.mutable_result(), v1::PATH_NATIVE), 209);
  RemoveRun(*cell.mutable_result(), v1::PATH_PLAIN, false);
  const v1::Verdict verdict = JudgeCell(cell, GoodEntry(), {});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_FAIL);
  EXPECT_THAT(Codes(verdict), Contains("TP418"));
}

TEST(JudgeCell, PredictedFailureWithoutAResultIsInconclusiveAndShown) {
  v1::Cell cell = GoodCell();
  cell.clear_result();
  cell.set_state(v1::CELL_STATE_ENDED);
  Predict(cell, v1::PATH_NATIVE, v1::OUTCOME_FAILS, 209, "TP201");
  const v1::Verdict verdict = JudgeCell(cell, GoodEntry(), {});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(Codes(verdict), ElementsAre("TP411", "TP421", "TP201"));
}

TEST(JudgeCell, IncompleteResultDecidesNothing) {
  v1::Cell cell = GoodCell();
  Fail(RunOf(*cell.mutable_result(), v1::PATH_NATIVE), 209);
  cell.mutable_result()->set_complete(false);
  cell.mutable_result()->add_problems()->set_code("TP307");
  const v1::Verdict verdict = JudgeCell(cell, GoodEntry(), {});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(Codes(verdict)[0], "TP307");
}

TEST(JudgeCell, SimulatedFailureOfARequiredPathFails) {
  v1::Cell cell = GoodCell();
  cell.set_simulated(true);
  Predict(cell, v1::PATH_PTX_JIT, v1::OUTCOME_FAILS, 209, "TP202");
  const v1::Verdict verdict = JudgeCell(cell, GoodEntry(), {});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_FAIL);
  EXPECT_THAT(Codes(verdict), ElementsAre("TP421", "TP202", "TP414"));
  EXPECT_EQ(JudgeCell(cell, GoodEntry(), PtxJit(v1::PATH_RULE_OPTIONAL)).kind(),
            v1::VERDICT_KIND_INCONCLUSIVE);
}

TEST(JudgeCell, SimulatedSuccessIsInconclusive) {
  v1::Cell cell = GoodCell();
  cell.set_simulated(true);
  Predict(cell, v1::PATH_NATIVE, v1::OUTCOME_NATIVE);
  const v1::Verdict verdict = JudgeCell(cell, GoodEntry(), {});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(Codes(verdict)[0], "TP414");
}

TEST(JudgeCell, ContradictedPredictionKeepsFromPass) {
  v1::Cell cell = GoodCell();
  Predict(cell, v1::PATH_NATIVE, v1::OUTCOME_FAILS, 209, "TP201");
  const v1::Verdict verdict = JudgeCell(cell, GoodEntry(), {});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(Codes(verdict)[0], "TP401");
}

TEST(JudgeCell, UnknownPredictionDoesNotOutweighEvidence) {
  v1::Cell cell = GoodCell();
  Predict(cell, v1::PATH_NATIVE, v1::OUTCOME_UNKNOWN, 0, "TP214");
  EXPECT_EQ(JudgeCell(cell, GoodEntry(), {}).kind(), v1::VERDICT_KIND_PASS);
}

TEST(JudgeCell, HostWithoutGpuIsInconclusive) {
  v1::Cell cell = GoodCell();
  cell.clear_gpu_uuid();
  const v1::Verdict verdict = JudgeCell(cell, GoodEntry(), {});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(Codes(verdict)[0], "TP318");
}

TEST(JudgeCell, RunOnAnotherGpuIsNoEvidence) {
  v1::Cell cell = GoodCell();
  RunOf(*cell.mutable_result(), v1::PATH_NATIVE).set_gpu_uuid("GPU-other");
  EXPECT_EQ(JudgeCell(cell, GoodEntry(), {}).kind(),
            v1::VERDICT_KIND_INCONCLUSIVE);
  // Several GPUs, this one among them.
  RunOf(*cell.mutable_result(), v1::PATH_NATIVE)
      .set_gpu_uuid(std::string("GPU-other,") + kGpu);
  EXPECT_EQ(JudgeCell(cell, GoodEntry(), {}).kind(), v1::VERDICT_KIND_PASS);
}

TEST(JudgeCell, ConditionsOfAnotherTimeAreNoEvidence) {
  v1::Cell cell = GoodCell();
  *cell.mutable_conditions_digest() = ConditionsNamed("575").digest();
  const v1::Verdict verdict = JudgeCell(cell, GoodEntry(), {});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(Codes(verdict)[0], "TP315");
}

TEST(JudgeCell, RequiredLaunchesNeedATrace) {
  v1::Entry entry = GoodEntry();
  entry.add_must_launch("_Z5scalePfi");
  EXPECT_EQ(JudgeCell(GoodCell(), entry, {}).kind(),
            v1::VERDICT_KIND_INCONCLUSIVE);
}

TEST(JudgeCell, SilentJitPassesUnlessStrict) {
  v1::Cell cell = GoodCell();
  RunOf(*cell.mutable_result(), v1::PATH_PLAIN).mutable_cache()->set_files(2);
  // Without a prediction there is nothing to be surprised by.
  EXPECT_EQ(JudgeCell(cell, GoodEntry(), {}).kind(), v1::VERDICT_KIND_PASS);
  Predict(cell, v1::PATH_PLAIN, v1::OUTCOME_NATIVE);
  const v1::Verdict verdict = JudgeCell(cell, GoodEntry(), {});
  // The prediction is contradicted too, which keeps it from pass.
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(Codes(verdict), Contains("TP314"));
}

TEST(ExitCodeOf, FollowsTheTable) {
  v1::Verdict verdict;
  EXPECT_EQ(ExitCodeOf(verdict), 3);
  verdict.set_kind(v1::VERDICT_KIND_PASS);
  EXPECT_EQ(ExitCodeOf(verdict), 0);
  verdict.set_kind(v1::VERDICT_KIND_FAIL);
  EXPECT_EQ(ExitCodeOf(verdict), 1);
  verdict.set_kind(v1::VERDICT_KIND_STALE);
  EXPECT_EQ(ExitCodeOf(verdict), 3);
  verdict.set_kind(v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(ExitCodeOf(verdict), 3);
  verdict.add_reasons()->set_code("TP413");
  EXPECT_EQ(ExitCodeOf(verdict), 4);
  verdict.set_kind(static_cast<v1::VerdictKind>(42));
  EXPECT_EQ(ExitCodeOf(verdict), 3);
}

}  // namespace
}  // namespace twinpath::verdict
