#include "compat/host_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compat/reason.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

using ::testing::ElementsAre;

HostRules AllGpus() {
  return {[](const v1::HostFacts& facts) {
            std::vector<const v1::Gpu*> gpus;
            for (const v1::Gpu& gpu : facts.gpus()) gpus.push_back(&gpu);
            return gpus;
          },
          [](const v1::HostFacts&) {
            return std::vector<v1::Reason>{MakeReason("TP106", "none")};
          }};
}

v1::HostFacts Named(const std::string& name, const std::string& words) {
  v1::HostFacts facts = FakeHost(words);
  facts.set_host_name(name);
  facts.set_machine_id(name);
  facts.set_boot_id(name);
  for (v1::Gpu& gpu : *facts.mutable_gpus()) {
    gpu.set_uuid(absl::StrCat("GPU-", name));
  }
  return facts;
}

// Adds a second GPU.
v1::HostFacts WithGpu(v1::HostFacts facts, uint32_t major, uint32_t minor) {
  v1::Gpu& gpu = *facts.add_gpus();
  gpu = facts.gpus(0);
  gpu.set_uuid(absl::StrCat(gpu.uuid(), "-2"));
  gpu.mutable_compute_capability()->set_major(major);
  gpu.mutable_compute_capability()->set_minor(minor);
  gpu.set_name("other");
  return facts;
}

FleetPrediction Of(const std::vector<std::string>& fatbins,
                   const std::vector<v1::HostFacts>& hosts,
                   const Assumption* assumption = nullptr) {
  const v1::ArtifactReport report = MakeArtifact(fatbins);
  const HostRules rules = AllGpus();
  return PredictFleet(Predictor(report), hosts, rules, assumption,
                      TestTables());
}

TEST(PredictFleet, EqualHostsAreOneGroupAndOneQuestion) {
  std::vector<v1::HostFacts> hosts;
  for (int i = 0; i < 500; ++i) {
    hosts.push_back(Named(absl::StrCat("n", i), "9.0 R580"));
  }
  hosts.push_back(Named("old", "9.0 R525"));
  const FleetPrediction fleet = Of({"compute_90@9.0"}, hosts);
  EXPECT_EQ(fleet.asked, 2u);
  ASSERT_EQ(fleet.groups.size(), 2u);
  EXPECT_EQ(fleet.groups[0].group.hosts(), 500u);
  EXPECT_EQ(fleet.groups[0].group.gpus(), 500u);
  EXPECT_EQ(fleet.groups[0].group.host_names_size(), 100);
  EXPECT_EQ(Answer(fleet.groups[0].group.paths(2)), "jit");
  EXPECT_THAT(fleet.groups[1].group.host_names(), ElementsAre("old"));
  EXPECT_EQ(Answer(fleet.groups[1].group.paths(2)), "fails 222");
  EXPECT_THAT(fleet.groups_of_host[500], ElementsAre(1u));
}

// ollama/ollama#12341: two different cards in one host; the one that loses is
// named by its UUID.
TEST(PredictFleet, MixedHostsAreJudgedGpuByGpu) {
  const FleetPrediction fleet =
      Of({"sm_86"}, {WithGpu(Named("desk", "8.6 R580"), 6, 1)});
  ASSERT_EQ(fleet.groups.size(), 2u);
  EXPECT_TRUE(fleet.groups[0].group.mixed());
  EXPECT_EQ(Answer(fleet.groups[0].group.paths(2)), "native");
  EXPECT_EQ(Answer(fleet.groups[1].group.paths(2)), "fails 209");
  EXPECT_THAT(fleet.groups[1].group.gpu_uuids(), ElementsAre("GPU-desk-2"));
  EXPECT_THAT(fleet.groups_of_host[0], ElementsAre(0u, 1u));
}

TEST(PredictFleet, AHostWithoutGpuSaysWhy) {
  v1::HostFacts facts = Named("login", "9.0 R580");
  facts.clear_gpus();
  const FleetPrediction fleet = Of({"sm_90"}, {facts});
  ASSERT_EQ(fleet.groups.size(), 1u);
  EXPECT_EQ(fleet.groups[0].group.paths_size(), 0);
  EXPECT_EQ(fleet.groups[0].group.problems(0).code(), "TP106");
  EXPECT_EQ(fleet.asked, 0u);
}

TEST(PredictFleet, AnAssumptionGivesBothAnswers) {
  const Assumption assumption =
      ParseAssumption({"driver=R595"}, TestTables()).value();
  const FleetPrediction fleet = Of(
      {"compute_70@9.2"},
      {Named("a", "9.0 R580"), Named("b", "7.0 R580"), Named("c", "9.0 R595")},
      &assumption);
  ASSERT_EQ(fleet.groups.size(), 3u);
  EXPECT_EQ(Answer(fleet.groups[0].group.paths(2)), "fails 222");
  EXPECT_EQ(Answer(fleet.groups[0].after[2]), "jit");
  // R595 no longer drives a V100.
  EXPECT_EQ(fleet.groups[1].after[2].reasons(0).code(), "TP117");
  EXPECT_EQ(Answer(fleet.groups[2].after[2]), "jit");
}

// B200 came with CUDA 12.8 and R570.
TEST(PredictFleet, AnAssumedDriverOlderThanTheGpuDoesNotDriveIt) {
  const Assumption assumption =
      ParseAssumption({"driver=R550"}, TestTables()).value();
  const FleetPrediction fleet =
      Of({"sm_100"}, {Named("b200", "10.0 R580")}, &assumption);
  ASSERT_EQ(fleet.groups[0].after.size(), 3u);
  EXPECT_EQ(fleet.groups[0].after[2].outcome(), v1::OUTCOME_FAILS);
  EXPECT_EQ(fleet.groups[0].after[2].reasons(0).code(), "TP251");
}

// GB10 came with CUDA 12.9, B200 with 12.8. A package over the kernel module
// "does not add GPUs" (CUDA Compatibility guide).
TEST(PredictFleet, AForwardCompatPackageAddsNoGpu) {
  const Assumption package =
      ParseAssumption({"driver=R535", "libcuda=R595"}, TestTables()).value();
  v1::HostFacts b200 = Named("b200", "10.0 R580");
  b200.mutable_gpus(0)->set_name("NVIDIA B200");
  v1::HostFacts h100 = Named("h100", "9.0 R580");
  h100.mutable_gpus(0)->set_name("NVIDIA H100 80GB HBM3");
  const FleetPrediction fleet = Of({"sm_100 sm_90"}, {b200, h100}, &package);
  ASSERT_EQ(fleet.groups.size(), 2u);
  EXPECT_EQ(Answer(fleet.groups[0].after[2]), "fails 100");
  EXPECT_EQ(fleet.groups[0].after[2].reasons(0).code(), "TP251");
  EXPECT_THAT(fleet.groups[0].after[2].reasons(0).detail(),
              ::testing::HasSubstr("CUDA 12.2 "));
  EXPECT_EQ(Answer(fleet.groups[1].after[2]), "native");
  const Assumption other_gpu =
      ParseAssumption({"gpu=12.1", "driver=R535", "libcuda=R595"}, TestTables())
          .value();
  EXPECT_EQ(Answer(Of({"sm_121"}, {b200}, &other_gpu).groups[0].after[2]),
            "fails 100");
}

v1::HostFacts Showing(v1::HostFacts facts, const std::string& devices) {
  Leak(facts, "CUDA_VISIBLE_DEVICES", devices);
  return facts;
}

// A file with one host's UUID copied to another: the list is cut at an entry
// that names no device (Programming Guide), and without one a program gets 100
// (measured, docs/gpu-runs.md).
TEST(PredictFleet, ACopiedListOfUuidsServesOneHost) {
  const FleetPrediction fleet =
      Of({"sm_90"}, {Showing(Named("first", "9.0 R580"), "GPU-first"),
                     Showing(Named("second", "9.0 R580"), "GPU-first"),
                     Showing(Named("third", "9.0 R580"), "GPU-first")});
  ASSERT_EQ(fleet.groups.size(), 2u);
  EXPECT_THAT(fleet.groups[0].group.host_names(), ElementsAre("first"));
  EXPECT_EQ(Answer(fleet.groups[0].group.paths(2)), "native");
  EXPECT_THAT(fleet.groups[1].group.host_names(),
              ElementsAre("second", "third"));
  EXPECT_EQ(Answer(fleet.groups[1].group.paths(2)), "fails 100");
  EXPECT_EQ(fleet.asked, 2u);
}

TEST(PredictFleet, AHiddenGpuIsNoneOfThoseShown) {
  v1::HostFacts facts = WithGpu(Named("two", "9.0 R580"), 9, 0);
  facts.mutable_gpus(1)->set_name(facts.gpus(0).name());
  EXPECT_EQ(Of({"sm_90"}, {facts}).groups.size(), 1u);
  const FleetPrediction fleet = Of({"sm_90"}, {Showing(facts, "1")});
  ASSERT_EQ(fleet.groups.size(), 2u);
  EXPECT_TRUE(HasReason(fleet.groups[0].group.paths(2), "TP123"));
  EXPECT_FALSE(HasReason(fleet.groups[1].group.paths(2), "TP123"));
}

TEST(ClassKey, OnlyIdentityIsLeftOut) {
  const auto key = [](const v1::HostFacts& facts) {
    return ClassKey(facts, TestTables());
  };
  EXPECT_EQ(key(Named("a", "9.0 R580")), key(Named("b", "9.0 R580")));
  EXPECT_NE(key(Named("a", "9.0 R580")), key(Named("a", "9.0 R575")));
  EXPECT_NE(key(Named("a", "9.0 R580")),
            key(Named("a", "9.0 R580 no-jit-library")));
}

TEST(ClassKey, AUuidCountsWhereAVariableNamesIt) {
  const auto key = [](const std::string& name, const std::string& devices) {
    return ClassKey(Showing(Named(name, "9.0 R580"), devices), TestTables());
  };
  EXPECT_NE(key("first", "GPU-first"), key("second", "GPU-first"));
  EXPECT_EQ(key("second", "GPU-first"), key("third", "GPU-first"));
  EXPECT_EQ(key("first", "0"), key("second", "0"));
}

}  // namespace
}  // namespace twinpath::compat
