#include "compat/assume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status_matchers.h"
#include "compat/predict.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

using ::testing::HasSubstr;

std::string Ask(const std::vector<std::string>& fatbins,
                const v1::HostFacts& facts) {
  return Answers(
      Predict(MakeArtifact(fatbins), facts, facts.gpus(0), TestTables()));
}

Assumption Of(const std::vector<std::string>& words) {
  return ParseAssumption(words, TestTables()).value();
}

// PTX 9.2 is that of CUDA 13.2, which comes with R595.
TEST(Assume, ADriverChangesWhatCompiles) {
  const v1::HostFacts now = FakeHost("9.0 R580");
  const std::vector<std::string> ptx = {"compute_90@9.2"};
  EXPECT_EQ(Ask(ptx, now), "fails 223 | fails 222 | fails 222");
  EXPECT_EQ(Ask(ptx, Assume(now, Of({"driver=R595"}))),
            "fails 223 | jit | jit");
  EXPECT_EQ(Ask(ptx, Assume(now, Of({"driver=595.45.04"}))),
            "fails 223 | jit | jit");
  EXPECT_EQ(Ask(ptx, Assume(now, Of({"cuda=13.2"}))), "fails 223 | jit | jit");
}

// What was measured with the old driver does not hold for the new one.
TEST(Assume, AMeasuredCeilingGoesWithItsDriver) {
  v1::HostFacts now = FakeHost("9.0 R580");
  now.mutable_driver()->mutable_ptx_isa_probe()->set_state(v1::PROBE_STATE_OK);
  now.mutable_driver()->mutable_ptx_isa_ceiling()->set_major(9);
  EXPECT_EQ(Ask({"compute_90@9.2"}, Assume(now, Of({"driver=R595"}))),
            "fails 223 | jit | jit");
}

TEST(Assume, AJetsonTakesNoDriverBranch) {
  v1::HostFacts orin = FakeHost("8.7 CUDA12.6 aarch64 tegra");
  EXPECT_FALSE(Applies(orin, Of({"driver=R595"})));
  EXPECT_EQ(Assume(orin, Of({"driver=R595"})).SerializeAsString(),
            orin.SerializeAsString());
  const v1::HostFacts newer = Assume(orin, Of({"cuda=13.0"}));
  EXPECT_EQ(newer.driver().cuda_version().major(), 13u);
}

TEST(Assume, AnotherGpu) {
  const v1::HostFacts facts = Assume(FakeHost("9.0 R580"), Of({"gpu=B200"}));
  EXPECT_EQ(facts.gpus(0).compute_capability().major(), 10u);
  EXPECT_EQ(Ask({"sm_90 compute_90@8.0"}, facts), "fails 223 | jit | jit");
  EXPECT_EQ(Of({"gpu=sm_121"}).gpu->number, 121u);
  EXPECT_EQ(Of({"gpu=12.1"}).gpu->number, 121u);
}

TEST(Assume, WhatIsNotKnownIsAnErrorThatSaysWhatIs) {
  for (const auto& [word, part] :
       std::vector<std::pair<std::string, std::string>>{
           {"driver=R999", "R580"},
           {"driver=new", "driver=R595"},
           {"cuda=99.0", "cuda="},
           {"gpu=Voodoo2", "9.0"},
           {"kernel=6", "driver=R595"},
           {"driver", "driver"}}) {
    const auto parsed = ParseAssumption({word}, TestTables());
    ASSERT_FALSE(parsed.ok()) << word;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(part));
  }
  EXPECT_FALSE(
      ParseAssumption({"driver=R580", "cuda=13.0"}, TestTables()).ok());
}

// The driver that came with a GPU is that of the first toolkit for it; V100 is
// driven up to R580.
TEST(Assume, WhatDrivesWhat) {
  const Tables& tables = TestTables();
  const auto drives = [&](uint32_t branch, uint32_t gpu) {
    return Drives(*tables.FindDriver(branch), *tables.FindGpu(gpu));
  };
  EXPECT_TRUE(drives(580, 70));
  EXPECT_FALSE(drives(590, 70));
  EXPECT_FALSE(drives(565, 100));
  EXPECT_TRUE(drives(570, 100));
  EXPECT_FALSE(drives(570, 121));
  EXPECT_TRUE(drives(620, 121));
}

}  // namespace
}  // namespace twinpath::compat
