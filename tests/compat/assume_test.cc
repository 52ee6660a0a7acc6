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

v1::HostFacts NamedHost(const std::string& words, const std::string& gpu) {
  v1::HostFacts facts = FakeHost(words);
  facts.mutable_gpus(0)->set_name(gpu);
  return facts;
}

// Forward compatibility: data-centre GPUs, GeForce gets 804; a package that is
// not newer than the driver gets 803 (CUDA Compatibility guide).
TEST(Assume, ALibcudaIsAForwardCompatPackage) {
  const std::vector<std::string> ptx = {"compute_80@9.2"};
  const auto plain = [&](const v1::HostFacts& facts, const std::string& word) {
    const v1::HostFacts assumed = Assume(facts, Of({word}));
    return Answer(
        Predict(MakeArtifact(ptx), assumed, assumed.gpus(0), TestTables())
            .paths(2));
  };
  const v1::HostFacts h200 = NamedHost("9.0 R580", "NVIDIA H200");
  EXPECT_EQ(plain(h200, "libcuda=R595"), "jit");
  EXPECT_EQ(plain(h200, "libcuda=595.45.04"), "jit");
  EXPECT_EQ(plain(h200, "libcuda=R590"), "fails 222");
  EXPECT_EQ(plain(h200, "libcuda=R550"), "fails 803");
  EXPECT_EQ(
      plain(NamedHost("12.0 R570", "NVIDIA GeForce RTX 5090"), "libcuda=R595"),
      "fails 804");
  // Some workstation boards are served, and no mark tells which.
  EXPECT_EQ(plain(NamedHost("8.6 R580", "NVIDIA RTX A6000"), "libcuda=R595"),
            "unknown");
  // The package that is there gives way to the one assumed.
  v1::HostFacts with_package = NamedHost("9.0 R535", "NVIDIA H100 80GB HBM3");
  v1::Driver& driver = *with_package.mutable_driver();
  driver.mutable_forward_compat()->mutable_cuda_version()->set_major(13);
  driver.mutable_forward_compat()->add_driver_branches(535);
  driver.set_libcuda_version("580.95.05");
  driver.set_libcuda_path("/usr/local/cuda/compat/libcuda.so.1");
  driver.mutable_cuda_version()->set_major(13);
  driver.mutable_cuda_version()->set_minor(0);
  EXPECT_EQ(plain(with_package, "libcuda=R610"), "jit");
}

// Binary compatibility ends at Tegra parts; sm_101 is the old name of sm_110.
TEST(Assume, ATegraGpuIsAJetson) {
  EXPECT_EQ(Of({"gpu=Thor"}).gpu->number, 110u);
  EXPECT_EQ(Of({"gpu=10.1"}).gpu->number, 110u);
  const v1::HostFacts orin =
      Assume(FakeHost("9.0 R580 aarch64"), Of({"gpu=Orin", "cuda=12.6"}));
  EXPECT_EQ(orin.platform(), v1::PLATFORM_TEGRA);
  EXPECT_EQ(orin.cpu_architecture(), v1::CPU_ARCHITECTURE_AARCH64);
  EXPECT_EQ(orin.driver().cuda_version().minor(), 6u);
  EXPECT_EQ(orin.driver().branch(), "");
  const v1::HostFacts server =
      Assume(FakeHost("8.7 CUDA12.6 aarch64 tegra"), Of({"gpu=H100"}));
  EXPECT_EQ(server.platform(), v1::PLATFORM_STANDARD);
  EXPECT_FALSE(ParseAssumption({"gpu=Orin", "driver=R595"}, TestTables()).ok());
}

TEST(Assume, GpusByTheirNames) {
  for (const auto& [name, number] :
       std::vector<std::pair<std::string, uint32_t>>{{"H200", 90},
                                                     {"nvidia h200", 90},
                                                     {"RTX 5090", 120},
                                                     {"GeForce RTX 4090", 89},
                                                     {"RTX 3090", 86},
                                                     {"GTX 1080", 61},
                                                     {"GTX 1650", 75},
                                                     {"RTX A4500", 86},
                                                     {"RTX PRO 6000", 120},
                                                     {"Jetson Nano", 53},
                                                     {"Jetson Orin Nano", 87},
                                                     {"L40S", 89},
                                                     {"A10", 86},
                                                     {"GB10", 121}}) {
    const auto parsed = ParseAssumption({"gpu=" + name}, TestTables());
    ASSERT_THAT(parsed, IsOk()) << name;
    EXPECT_EQ(parsed->gpu->number, number) << name;
  }
  // Names of several GPUs are none.
  for (const auto& [name, part] :
       std::vector<std::pair<std::string, std::string>>{
           {"RTX", "7.5 ("},
           {"GeForce", "3.0 ("},
           {"Tesla", "6.0 (Tesla P100)"},
           {"Jetson", "5.3 (Jetson Nano)"},
           {"RTX 4000", "8.9 ("},
           {"Nano", "8.7 (Jetson Orin Nano)"}}) {
    const auto parsed = ParseAssumption({"gpu=" + name}, TestTables());
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(part));
  }
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
