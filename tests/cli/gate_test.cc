#include "cli/gate.h"

#include <gtest/gtest.h>

#include "base/exit_code.h"

namespace twinpath::cli {
namespace {

v1::Sweep Ended(v1::VerdictKind kind) {
  v1::Sweep sweep;
  sweep.set_state(v1::SWEEP_STATE_DONE);
  sweep.mutable_verdict()->set_kind(kind);
  return sweep;
}

void AddCell(v1::Sweep& sweep, v1::VerdictKind kind, bool simulated) {
  v1::Cell& cell = *sweep.add_cells();
  cell.set_simulated(simulated);
  cell.mutable_verdict()->set_kind(kind);
}

TEST(Gate, FollowsTheVerdict) {
  EXPECT_EQ(AnswerGate(Ended(v1::VERDICT_KIND_PASS), "").exit_code, kExitPass);
  EXPECT_EQ(AnswerGate(Ended(v1::VERDICT_KIND_FAIL), "").exit_code, kExitFail);
  EXPECT_EQ(AnswerGate(Ended(v1::VERDICT_KIND_INCONCLUSIVE), "").exit_code,
            kExitInconclusive);
  EXPECT_EQ(AnswerGate(Ended(v1::VERDICT_KIND_STALE), "").exit_code,
            kExitInconclusive);
  EXPECT_EQ(AnswerGate(Ended(v1::VERDICT_KIND_UNSPECIFIED), "").exit_code,
            kExitInconclusive);
}

TEST(Gate, ARunningSweepIsNeverAPass) {
  v1::Sweep sweep = Ended(v1::VERDICT_KIND_PASS);
  sweep.set_state(v1::SWEEP_STATE_RUNNING);
  for (const char* how : {"", "fail", "pass-with-warning"}) {
    EXPECT_EQ(AnswerGate(sweep, how).exit_code, kExitInconclusive) << how;
  }
}

TEST(Gate, InconclusiveCanBeMadeAFailure) {
  EXPECT_EQ(AnswerGate(Ended(v1::VERDICT_KIND_INCONCLUSIVE), "fail").exit_code,
            kExitFail);
}

TEST(Gate, InconclusiveIsLetThroughOnlyWithEvidenceOfARealHost) {
  v1::Sweep sweep = Ended(v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(AnswerGate(sweep, "pass-with-warning").exit_code,
            kExitInconclusive);
  AddCell(sweep, v1::VERDICT_KIND_PASS, /*simulated=*/true);
  AddCell(sweep, v1::VERDICT_KIND_INCONCLUSIVE, /*simulated=*/false);
  EXPECT_EQ(AnswerGate(sweep, "pass-with-warning").exit_code,
            kExitInconclusive);
  AddCell(sweep, v1::VERDICT_KIND_PASS, /*simulated=*/false);
  const GateAnswer answer = AnswerGate(sweep, "pass-with-warning");
  EXPECT_EQ(answer.exit_code, kExitPass);
  EXPECT_FALSE(answer.note.empty());
}

TEST(Gate, OptionsTouchNothingButInconclusive) {
  v1::Sweep sweep = Ended(v1::VERDICT_KIND_FAIL);
  AddCell(sweep, v1::VERDICT_KIND_PASS, /*simulated=*/false);
  EXPECT_EQ(AnswerGate(sweep, "pass-with-warning").exit_code, kExitFail);
  EXPECT_EQ(
      AnswerGate(Ended(v1::VERDICT_KIND_STALE), "pass-with-warning").exit_code,
      kExitInconclusive);
}

}  // namespace
}  // namespace twinpath::cli
