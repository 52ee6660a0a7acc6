// A simulated answer follows the model and is marked everywhere, so that it can
// never be taken for an observation.

#include "agent/simulated_processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/digest.h"
#include "base/fake_clock.h"
#include "base/status_matchers.h"
#include "tests/agent/fake_control.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::HostFacts Profile() {
  v1::HostFacts facts;
  facts.set_profile("dgx-spark");
  facts.add_gpus()->set_uuid("GPU-profile");
  v1::Gpu& instance = *facts.add_gpus();
  instance.set_uuid("MIG-profile");
  instance.set_parent_uuid("GPU-profile");
  return facts;
}

class SimulatedProcessorTest : public ::testing::Test {
 protected:
  SimulatedProcessorTest() {
    claimed_.lease.set_id("lease-1");
    claimed_.lease.set_cell_id("cell-1");
    claimed_.gpu_uuids = {"GPU-1"};
    claimed_.lease.mutable_entry()->mutable_expected_output()->set_contains(
        "ok");
  }
  void Predict(v1::Path path, v1::Outcome outcome, const std::string& code = "",
               uint32_t cuda_error = 0) {
    claimed_.lease.add_paths(path);
    v1::PathPrediction& prediction = *claimed_.lease.add_predictions();
    prediction.set_path(path);
    prediction.set_outcome(outcome);
    if (!code.empty()) {
      v1::Reason& reason = *prediction.add_reasons();
      reason.set_code(code);
      reason.set_cuda_error(cuda_error);
    }
  }
  v1::CellResult Run() {
    SimulatedProcessor processor([] { return Profile(); }, clock_);
    const CellOutcome outcome = processor.Process(claimed_, control_);
    EXPECT_TRUE(outcome.result);
    EXPECT_EQ(outcome.journal, nullptr);
    v1::CellResult result = outcome.result.value_or(v1::CellResult());
    EXPECT_TRUE(result.simulated());
    for (const v1::Observation& observation : result.observations()) {
      EXPECT_TRUE(observation.simulated());
      EXPECT_TRUE(observation.has_conditions_before());
      EXPECT_EQ(observation.gpu_uuid(), "GPU-1");
    }
    // It has no files, so it states no digests.
    EXPECT_EQ(result.staged_size(), 0);
    return result;
  }

  FakeClock clock_;
  FakeControl control_;
  ClaimedLease claimed_;
};

TEST_F(SimulatedProcessorTest, NativeCodeRuns) {
  Predict(v1::PATH_NATIVE, v1::OUTCOME_NATIVE);
  const v1::CellResult result = Run();
  EXPECT_TRUE(result.complete());
  EXPECT_EQ(result.lease_id(), "lease-now");
  ASSERT_EQ(result.observations_size(), 1);
  EXPECT_EQ(result.observations(0).ending(), v1::ENDING_EXITED);
  EXPECT_EQ(result.observations(0).exit_code(), 0);
  EXPECT_EQ(result.observations(0).stdout().head(), "ok");
}

TEST_F(SimulatedProcessorTest, AForcedJitRunBringsItsProof) {
  Predict(v1::PATH_PTX_JIT, v1::OUTCOME_JIT);
  const v1::CellResult result = Run();
  ASSERT_EQ(result.observations_size(), 2);
  EXPECT_FALSE(result.observations(0).jit_proof());
  EXPECT_TRUE(result.observations(1).jit_proof());
  EXPECT_GT(result.observations(1).cache().files(), 0u);
}

TEST_F(SimulatedProcessorTest, APredictedFailureHasItsCudaError) {
  Predict(v1::PATH_NATIVE, v1::OUTCOME_FAILS, "TP205", 223);
  const v1::CellResult result = Run();
  const v1::Observation& observation = result.observations(0);
  EXPECT_EQ(observation.ending(), v1::ENDING_EXITED);
  EXPECT_NE(observation.exit_code(), 0);
  ASSERT_EQ(observation.errors_size(), 1);
  EXPECT_EQ(observation.errors(0).code(), "TP311");
  EXPECT_EQ(observation.errors(0).cuda_error(), 223u);
}

TEST_F(SimulatedProcessorTest, AFailureExpectedToExitOneStillDiffers) {
  claimed_.lease.mutable_entry()->set_expected_exit(1);
  Predict(v1::PATH_NATIVE, v1::OUTCOME_FAILS, "TP201", 209);
  EXPECT_NE(Run().observations(0).exit_code(), 1);
}

TEST_F(SimulatedProcessorTest, AFailureWithoutCudaErrorDoesNotStart) {
  Predict(v1::PATH_NATIVE, v1::OUTCOME_FAILS, "TP208");
  const v1::CellResult result = Run();
  EXPECT_EQ(result.observations(0).ending(), v1::ENDING_NOT_STARTED);
  EXPECT_THAT(result.observations(0).problem(), HasSubstr("TP208"));
}

TEST_F(SimulatedProcessorTest, WhatTheModelDoesNotKnowIsSkipped) {
  Predict(v1::PATH_PLAIN, v1::OUTCOME_UNKNOWN, "TP214");
  claimed_.lease.add_paths(v1::PATH_NATIVE);  // no prediction at all
  const v1::CellResult result = Run();
  ASSERT_EQ(result.observations_size(), 2);
  EXPECT_EQ(result.observations(0).ending(), v1::ENDING_SKIPPED);
  EXPECT_EQ(result.observations(1).ending(), v1::ENDING_SKIPPED);
}

TEST_F(SimulatedProcessorTest, KeepsTheExpiryToo) {
  control_.may_start = false;
  SimulatedProcessor processor([] { return Profile(); }, clock_);
  EXPECT_TRUE(processor.Process(claimed_, control_).refusal);
}

TEST(SimulatedFacts, TwoHostsOfOneProfileShareNoIdentity) {
  const TempDirectory temp = MakeTemp();
  const auto first = KeptMachineId(JoinPath(temp.path(), "a"));
  const auto again = KeptMachineId(JoinPath(temp.path(), "a"));
  const auto second = KeptMachineId(JoinPath(temp.path(), "b"));
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(*first, *again);
  EXPECT_NE(*first, *second);

  const v1::HostFacts a = SimulatedFacts(Profile(), *first, "sim-a", "0.1.0");
  const v1::HostFacts b = SimulatedFacts(Profile(), *second, "sim-b", "0.1.0");
  EXPECT_TRUE(a.simulated());
  EXPECT_EQ(a.profile(), "dgx-spark");
  EXPECT_EQ(a.host_name(), "sim-a");
  EXPECT_NE(a.boot_id(), b.boot_id());
  EXPECT_NE(a.gpus(0).uuid(), b.gpus(0).uuid());
  EXPECT_THAT(a.gpus(0).uuid(), ::testing::StartsWith("GPU-"));
  EXPECT_THAT(a.gpus(1).uuid(), ::testing::StartsWith("MIG-"));
  EXPECT_EQ(a.gpus(1).parent_uuid(), a.gpus(0).uuid());
  EXPECT_EQ(
      a.SerializeAsString(),
      SimulatedFacts(Profile(), *first, "sim-a", "0.1.0").SerializeAsString());
}

TEST(SimulatedFacts, ADamagedIdIsNotReplacedInSilence) {
  const TempDirectory temp = MakeTemp();
  Spit(JoinPath(temp.path(), "a"), "not an id");
  EXPECT_THAT(KeptMachineId(JoinPath(temp.path(), "a")),
              StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace twinpath::agent
