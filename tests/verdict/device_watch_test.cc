#include "verdict/device_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/verdict/results.h"
#include "verdict/path_status.h"

namespace twinpath::verdict {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Codes(const PathEvaluation& evaluation) {
  std::vector<std::string> codes;
  for (const v1::Reason& reason : evaluation.reasons) {
    codes.push_back(reason.code());
  }
  return codes;
}

v1::DeviceState State() {
  v1::DeviceState state;
  state.set_gpu_uuid(kGpu);
  state.set_compute_processes(0);
  state.set_uncorrected_errors(3);
  state.set_remapped_rows(1);
  state.set_temperature(40);
  return state;
}

// A watch that saw nothing.
v1::DeviceWatch Quiet() {
  v1::DeviceWatch watch;
  *watch.add_before() = State();
  *watch.add_after() = State();
  watch.mutable_xid_watch()->set_state(v1::PROBE_STATE_OK);
  return watch;
}

class DeviceWatchTest : public ::testing::Test {
 protected:
  DeviceWatchTest() : result_(GoodResult()) {
    *Native().mutable_devices() = Quiet();
  }
  v1::Observation& Native() { return *result_.mutable_observations(0); }
  v1::DeviceWatch& Devices() { return *Native().mutable_devices(); }
  void AddXid(uint32_t xid) { Devices().add_xids()->set_xid(xid); }
  void Fail() {
    Native().set_exit_code(1);
    SetOutput(Native(), "FAIL\n");
  }
  PathEvaluation Evaluate() {
    return EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result_);
  }
  v1::CellResult result_;
};

TEST_F(DeviceWatchTest, NothingSeenChangesNothing) {
  const PathEvaluation seen = Evaluate();
  EXPECT_EQ(seen.status, PathStatus::kProven);
  EXPECT_EQ(Codes(seen), std::vector<std::string>{"TP300"});
}

// 48 double-bit error, 79 off the bus, 94 contained memory error, 119 GSP
// timeout: NVIDIA's Xid catalog counts them to hardware or driver.
TEST_F(DeviceWatchTest, XidOfTheDeviceMakesSuccessAndFailureInconclusive) {
  for (const uint32_t xid : {48u, 79u, 94u, 119u}) {
    for (const bool failed : {false, true}) {
      result_ = GoodResult();
      *Native().mutable_devices() = Quiet();
      if (failed) Fail();
      AddXid(xid);
      const PathEvaluation seen = Evaluate();
      EXPECT_EQ(seen.status, PathStatus::kInconclusive) << xid;
      EXPECT_EQ(Codes(seen).front(), "TP322") << xid;
      EXPECT_THAT(seen.reasons[0].detail(),
                  HasSubstr("native: Xid " + std::to_string(xid)));
      EXPECT_THAT(seen.reasons[0].detail(), Not(HasSubstr(kGpu)));
    }
  }
}

TEST_F(DeviceWatchTest, UnknownXidIsTheDevices) {
  AddXid(4711);
  EXPECT_EQ(Evaluate().status, PathStatus::kInconclusive);
}

// 31 is a page fault, mostly an illegal address in a kernel: the program's own
// failure stays one.
TEST_F(DeviceWatchTest, XidOfTheApplicationStandsBesideItsFailure) {
  Fail();
  AddXid(31);
  const PathEvaluation seen = Evaluate();
  EXPECT_EQ(seen.status, PathStatus::kFailed);
  EXPECT_EQ(Codes(seen).front(), "TP302");
  EXPECT_THAT(seen.reasons.back().detail(), HasSubstr("Xid 31"));
}

TEST_F(DeviceWatchTest, SuccessBesideAnXidOfTheApplicationIsNone) {
  AddXid(13);
  const PathEvaluation seen = Evaluate();
  EXPECT_EQ(seen.status, PathStatus::kInconclusive);
  EXPECT_EQ(Codes(seen).front(), "TP308");
}

// 45 follows when a program is ended.
TEST_F(DeviceWatchTest, XidForInformationChangesNothing) {
  AddXid(45);
  EXPECT_EQ(Evaluate().status, PathStatus::kProven);
  Native().set_ending(v1::ENDING_TIMED_OUT);
  EXPECT_EQ(Evaluate().status, PathStatus::kFailed);
}

TEST_F(DeviceWatchTest, UncorrectedErrorsThatRose) {
  Devices().mutable_after(0)->set_uncorrected_errors(5);
  const PathEvaluation seen = Evaluate();
  EXPECT_EQ(seen.status, PathStatus::kInconclusive);
  EXPECT_THAT(seen.reasons[0].detail(), HasSubstr("rose by 2"));
}

TEST_F(DeviceWatchTest, RemappingDuringTheRun) {
  Devices().mutable_after(0)->set_remapping_pending(true);
  EXPECT_EQ(Codes(Evaluate()).front(), "TP322");
  // It waited before: no news of this run.
  Devices().mutable_before(0)->set_remapping_pending(true);
  EXPECT_EQ(Evaluate().status, PathStatus::kProven);
}

TEST_F(DeviceWatchTest, FailedRemappingFromBeforeCountsForFailuresOnly) {
  Devices().mutable_before(0)->set_remapping_failed(true);
  Devices().mutable_after(0)->set_remapping_failed(true);
  EXPECT_EQ(Evaluate().status, PathStatus::kProven);
  Fail();
  EXPECT_EQ(Evaluate().status, PathStatus::kInconclusive);
}

TEST_F(DeviceWatchTest, GpuThatAnswersNoMore) {
  Devices().mutable_after(0)->Clear();
  Devices().mutable_after(0)->set_gpu_uuid(kGpu);
  EXPECT_EQ(Evaluate().status, PathStatus::kInconclusive);
  Devices().mutable_after(0)->set_gpu_uuid("GPU-another");
  EXPECT_EQ(Evaluate().status, PathStatus::kInconclusive);
}

TEST_F(DeviceWatchTest, WatchThatBrokeOffIsANote) {
  Devices().clear_after();
  Devices().mutable_xid_watch()->set_state(v1::PROBE_STATE_FAILED);
  Devices().mutable_xid_watch()->set_error("ended early");
  const PathEvaluation seen = Evaluate();
  EXPECT_EQ(seen.status, PathStatus::kProven);
  EXPECT_THAT(Codes(seen), Contains("TP327"));
}

TEST_F(DeviceWatchTest, ClocksLoweredByHeatAreANote) {
  Devices().mutable_after(0)->add_throttle_reasons("power");
  EXPECT_THAT(Codes(Evaluate()), Not(Contains("TP328")));
  Devices().mutable_after(0)->add_throttle_reasons("thermal");
  EXPECT_EQ(Evaluate().status, PathStatus::kProven);
  EXPECT_THAT(Codes(Evaluate()), Contains("TP328"));
}

TEST_F(DeviceWatchTest, WhatDidNotRunIsLeftAlone) {
  AddXid(79);
  Native().set_ending(v1::ENDING_NOT_STARTED);
  const PathEvaluation seen = Evaluate();
  EXPECT_EQ(seen.status, PathStatus::kNotRun);
  EXPECT_THAT(Codes(seen), Not(Contains("TP322")));
}

// A fault in the repeat is a fault of the path.
TEST_F(DeviceWatchTest, ProofRunsAreWatchedToo) {
  for (v1::Observation& run : *result_.mutable_observations()) {
    if (!run.jit_proof()) continue;
    *run.mutable_devices() = Quiet();
    run.mutable_devices()->add_xids()->set_xid(79);
  }
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_PTX_JIT, result_);
  EXPECT_EQ(seen.status, PathStatus::kInconclusive);
  EXPECT_EQ(Codes(seen).front(), "TP322");
}

// Entries without paths: the faults of all their runs, each once.
TEST_F(DeviceWatchTest, FaultsOfAWholeResult) {
  EXPECT_TRUE(DeviceFaults(result_).empty());
  for (v1::Observation& run : *result_.mutable_observations()) {
    *run.mutable_devices() = Quiet();
    run.mutable_devices()->add_xids()->set_xid(79);
    run.mutable_devices()->add_xids()->set_xid(31);
  }
  const std::vector<v1::Reason> faults = DeviceFaults(result_);
  // An Xid of the application too: what is run there is no program of the
  // artifact, and a success beside it proves nothing.
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_EQ(faults[0].code(), "TP322");
  EXPECT_THAT(faults[0].detail(), HasSubstr("Xid 79"));
  EXPECT_EQ(faults[1].code(), "TP308");
  EXPECT_THAT(faults[1].detail(), HasSubstr("Xid 31"));
}

}  // namespace
}  // namespace twinpath::verdict
