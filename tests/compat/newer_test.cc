// GPUs, targets, PTX versions and drivers that are newer than the tables: the
// answer is `unknown` with the command that settles it, or what follows from
// rules that do not need the row; never a guess.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "compat/predict.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

v1::Prediction On(const v1::HostFacts& facts,
                  const v1::ArtifactReport& report) {
  return Predict(report, facts, facts.gpus(0), TestTables());
}

// A driver branch that no table knows and that no probe has measured.
v1::HostFacts HostOfTomorrow() {
  v1::HostFacts facts = FakeHost("9.0 R580");
  v1::Driver& driver = *facts.mutable_driver();
  driver.set_kernel_module_version("999.10.01");
  driver.set_libcuda_version("999.10.01");
  driver.mutable_cuda_version()->set_major(19);
  driver.mutable_cuda_version()->set_minor(0);
  driver.clear_ptx_isa_ceiling();
  driver.clear_ptx_isa_probe();
  return facts;
}

TEST(NewerThanTheTables, ADriverDoesNotMakeMachineCodeUnknown) {
  EXPECT_EQ(Answer(On(HostOfTomorrow(), MakeArtifact({"sm_90"})).paths(0)),
            "native");
}

TEST(NewerThanTheTables, PtxOfAnUnknownVersionOnAnUnknownDriverIsUnknown) {
  const v1::Prediction prediction =
      On(HostOfTomorrow(), MakeArtifact({"compute_90@99.0"}));
  EXPECT_EQ(Answer(prediction.paths(1)), "unknown");
  EXPECT_FALSE(prediction.paths(1).settled_by().empty());
  // On a driver whose ceiling is known it is above it.
  EXPECT_EQ(
      Answer(
          On(FakeHost("9.0 R580"), MakeArtifact({"compute_90@99.0"})).paths(1)),
      "fails 222");
}

TEST(NewerThanTheTables, ATargetNobodyKnowsIsNotCountedAsCover) {
  const v1::Prediction prediction =
      On(FakeHost("9.0 R580"), MakeArtifact({"sm_149"}));
  EXPECT_NE(Answer(prediction.paths(0)), "native");
  // Beside code that fits it changes nothing.
  EXPECT_EQ(
      Answer(On(FakeHost("9.0 R580"), MakeArtifact({"sm_149 sm_90"})).paths(0)),
      "native");
}

TEST(NewerThanTheTables, AGpuOfTomorrowRunsWhatTheRulesPromise) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  facts.mutable_gpus(0)->mutable_compute_capability()->set_major(14);
  facts.mutable_gpus(0)->mutable_compute_capability()->set_minor(9);
  // Machine code of another major never fits; PTX of a lower target may.
  EXPECT_EQ(Answer(On(facts, MakeArtifact({"sm_90"})).paths(0)), "fails 209");
  const std::string jit =
      Answer(On(facts, MakeArtifact({"compute_90"})).paths(1));
  EXPECT_TRUE(jit == "jit" || jit == "unknown") << jit;
}

}  // namespace
}  // namespace twinpath::compat
