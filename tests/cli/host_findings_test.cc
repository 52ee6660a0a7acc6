#include "cli/host_findings.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace twinpath::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::HostFacts Facts(const std::string& text) {
  v1::HostFacts facts;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &facts));
  return facts;
}

std::vector<std::string> Codes(const v1::HostFacts& facts) {
  std::vector<std::string> codes;
  for (const v1::Finding& finding : HostFindings(facts)) {
    codes.push_back(finding.reason().code());
  }
  return codes;
}

constexpr char kGood[] = R"pb(
  host_name: "spark-01"
  driver {
    probe { state: PROBE_STATE_OK }
    kernel_module_version: "580.95.05"
    libcuda_version: "580.95.05"
    jit_library { state: PROBE_STATE_OK }
  }
  gpu_probe { state: PROBE_STATE_OK }
  gpus {
    uuid: "GPU-1"
    name: "NVIDIA GB10"
    capability_probe { state: PROBE_STATE_OK }
    compute_capability { major: 12 minor: 1 }
  }
)pb";

TEST(HostFindings, AGoodHostHasNone) {
  EXPECT_THAT(Codes(Facts(kGood)), IsEmpty());
  EXPECT_THAT(WhyNoGpu(Facts(kGood)), IsEmpty());
}

TEST(HostFindings, NoDriver) {
  EXPECT_THAT(Codes(Facts(R"pb(
                driver { probe { state: PROBE_STATE_ABSENT error: "gone" } }
                gpu_probe { state: PROBE_STATE_ABSENT })pb")),
              ElementsAre("TP101"));
}

TEST(HostFindings, HalvesThatDifferByErrorCode) {
  // CUDA error 803: system driver mismatch.
  const v1::HostFacts facts = Facts(R"pb(
    driver {
      probe { state: PROBE_STATE_FAILED error: "cuInit" cuda_error: 803 }
    })pb");
  EXPECT_THAT(Codes(facts), ElementsAre("TP104"));
}

TEST(HostFindings, HalvesThatDifferByVersion) {
  v1::HostFacts facts = Facts(kGood);
  facts.mutable_driver()->set_libcuda_version("580.65.06");
  EXPECT_THAT(Codes(facts), ElementsAre("TP104"));
}

// As an H200 host with driver 580.159.04 reported it.
TEST(HostFindings, ANoteInTheDriversOwnLibraryIsNoPackage) {
  v1::HostFacts facts = Facts(kGood);
  facts.mutable_driver()->mutable_forward_compat()->add_driver_branches(580);
  EXPECT_THAT(Codes(facts), IsEmpty());
  facts.mutable_driver()->set_libcuda_version("590.44.01");
  EXPECT_THAT(Codes(facts), ElementsAre("TP120"));
}

TEST(HostFindings, AHungDriver) {
  EXPECT_THAT(
      Codes(Facts(R"pb(driver { probe { state: PROBE_STATE_HUNG } })pb")),
      ElementsAre("TP103"));
}

TEST(HostFindings, DriverWithoutGpu) {
  EXPECT_THAT(Codes(Facts(R"pb(driver {
                                 probe { state: PROBE_STATE_OK }
                                 jit_library { state: PROBE_STATE_OK }
                               })pb")),
              ElementsAre("TP106"));
}

TEST(HostFindings, ACapabilityThatCannotBeReadIsNoNumber) {
  v1::HostFacts facts = Facts(kGood);
  facts.mutable_gpus(0)->mutable_capability_probe()->set_state(
      v1::PROBE_STATE_FAILED);
  EXPECT_THAT(Codes(facts), ElementsAre("TP107"));
  EXPECT_EQ(WhyNoGpu(facts).size(), 1u);
}

TEST(HostFindings, ToolkitWithoutTheGpusTarget) {
  v1::HostFacts facts = Facts(kGood);
  v1::Toolkit& toolkit = *facts.add_toolkits();
  toolkit.set_nvcc_version("12.4.131");
  toolkit.mutable_probe()->set_state(v1::PROBE_STATE_OK);
  toolkit.add_targets()->set_number(90);
  const std::vector<v1::Finding> findings = HostFindings(facts);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].reason().code(), "TP110");
  EXPECT_THAT(findings[0].reason().detail(), HasSubstr("sm_121"));
  toolkit.add_targets()->set_number(121);
  EXPECT_THAT(Codes(facts), IsEmpty());
}

TEST(HostFindings, ErrorsComeBeforeWarnings) {
  v1::HostFacts facts = Facts(kGood);
  v1::EnvironmentLeak& leak = *facts.add_leaks();
  leak.set_variable("CUDA_DISABLE_PTX_JIT");
  leak.set_value("1");
  leak.set_origin("/etc/environment");
  leak.set_line(3);
  facts.mutable_driver()->mutable_jit_library()->set_state(
      v1::PROBE_STATE_ABSENT);
  EXPECT_THAT(Codes(facts), ElementsAre("TP108", "TP109"));
}

// A GPU in MIG mode offers CUDA no device; its instances do.
TEST(RunnableGpus, InstancesInsteadOfTheirParent) {
  v1::HostFacts facts;
  const auto add = [&facts](const std::string& uuid, const std::string& name) {
    v1::Gpu& gpu = *facts.add_gpus();
    gpu.set_uuid(uuid);
    gpu.set_name(name);
    gpu.mutable_compute_capability()->set_major(9);
    gpu.mutable_capability_probe()->set_state(v1::PROBE_STATE_OK);
    return &gpu;
  };
  add("GPU-a", "H100")->set_mig_mode(v1::MIG_MODE_ENABLED);
  for (const char* uuid : {"MIG-1", "MIG-2"}) {
    v1::Gpu* const instance = add(uuid, "H100 MIG 1g.10gb");
    instance->set_mig_mode(v1::MIG_MODE_ENABLED);
    instance->set_parent_uuid("GPU-a");
  }
  add("GPU-b", "H100");
  const auto uuids = [&facts](bool all) {
    std::vector<std::string> out;
    for (const v1::Gpu* gpu : RunnableGpus(facts, all)) {
      out.push_back(gpu->uuid());
    }
    return out;
  };
  EXPECT_EQ(uuids(false), (std::vector<std::string>{"MIG-1", "GPU-b"}));
  EXPECT_EQ(uuids(true), (std::vector<std::string>{"MIG-1", "MIG-2", "GPU-b"}));
  EXPECT_TRUE(HasMigInstances(facts, facts.gpus(0)));
  EXPECT_FALSE(HasMigInstances(facts, facts.gpus(3)));
}

}  // namespace
}  // namespace twinpath::cli
