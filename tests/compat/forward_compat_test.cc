// Forward-compatibility packages on hosts. The lists are those of the packages
// 12.9 (575.57.08), 13.0 and 13.1 (590.44.01) as NVIDIA's container toolkit
// tests them (NVIDIA/nvidia-container-toolkit#1784).

#include "compat/forward_compat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compat/host_check.h"
#include "compat/predict.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

using ::testing::HasSubstr;

v1::ForwardCompatNote Note(uint32_t major, uint32_t minor,
                           const std::vector<uint32_t>& branches) {
  v1::ForwardCompatNote note;
  note.mutable_cuda_version()->set_major(major);
  note.mutable_cuda_version()->set_minor(minor);
  note.mutable_driver_branches()->Add(branches.begin(), branches.end());
  return note;
}

v1::ForwardCompatNote Cuda131() {
  return Note(13, 1, {535, 550, 570, 575, 580, 590});
}

// A host where the loader finds the package's libcuda. Made up, so that nothing
// was started.
v1::HostFacts Host(const std::string& words, const std::string& gpu,
                   const v1::ForwardCompatNote& note,
                   const std::string& version) {
  v1::HostFacts facts = FakeHost(words);
  facts.set_simulated(true);
  facts.mutable_gpus(0)->set_name(gpu);
  v1::Driver& driver = *facts.mutable_driver();
  *driver.mutable_forward_compat() = note;
  driver.set_libcuda_version(version);
  driver.clear_cuda_version();
  return facts;
}

// "native | jit | native" of code with a CUDA 13.1 runtime and PTX 9.1.
std::string Answer131(const v1::HostFacts& facts, std::string* code = nullptr) {
  v1::ArtifactReport report = MakeArtifact({"sm_80 compute_80@9.1"});
  report.mutable_files(0)->mutable_elf()->mutable_cudart()->set_major(13);
  const v1::Prediction prediction =
      Predict(report, facts, facts.gpus(0), TestTables());
  if (code != nullptr && prediction.paths(1).reasons_size() > 0) {
    *code = prediction.paths(1).reasons(0).code();
  }
  return Answers(prediction);
}

TEST(ForwardCompat, RaisesVersionAndPtxCeiling) {
  const v1::HostFacts facts =
      Host("9.0 R535", "NVIDIA H100 80GB HBM3", Cuda131(), "590.44.01");
  const HostView view = LookAtHost(facts, facts.gpus(0), TestTables());
  EXPECT_FALSE(view.blocker.has_value());
  ASSERT_TRUE(view.cuda.has_value());
  EXPECT_EQ(view.cuda->ToString(), "13.1");
  EXPECT_EQ(view.ptx_ceiling.ToString(), "9.1");
  EXPECT_EQ(Answer131(facts), "fails 223 | jit | jit");
  // The driver's own: runtime 13 on CUDA 12.2.
  EXPECT_EQ(Answer131(FakeHost("9.0 R535")), "fails 35 | fails 35 | fails 35");
}

TEST(ForwardCompat, BranchMustBeListed) {
  std::string code;
  // 545 was a new-feature branch and is not in the list.
  EXPECT_EQ(
      Answer131(Host("9.0 R545", "NVIDIA H100 PCIe", Cuda131(), "590.44.01"),
                &code),
      "fails 803 | fails 803 | fails 803");
  EXPECT_EQ(code, "TP121");
}

// NVIDIA-NeMo/labs-molt#44: a package of 580 on a 595 host.
TEST(ForwardCompat, OlderThanTheDriverIs803) {
  const auto note = Note(13, 0, {535, 550, 570, 575, 580});
  const v1::HostFacts facts =
      Host("9.0 R595", "NVIDIA H100 80GB HBM3", note, "580.173.02");
  const CompatDecision decision = DecideForwardCompat(
      note, "580.173.02", facts, facts.gpus(0), TestTables());
  EXPECT_EQ(decision.answer, CompatAnswer::kRefused);
  EXPECT_EQ(decision.reason.cuda_error(), 803u);
  EXPECT_THAT(decision.reason.detail(),
              HasSubstr("older than the driver R595"));
}

// QuipNetwork/quip-miner#24: RTX 3060, driver 570.
TEST(ForwardCompat, GeForceIs804) {
  std::string code;
  EXPECT_EQ(Answer131(Host("8.6 R570", "NVIDIA GeForce RTX 3060", Cuda131(),
                           "590.44.01"),
                      &code),
            "fails 804 | fails 804 | fails 804");
  EXPECT_EQ(code, "TP121");
}

// No list by name is published for these.
TEST(ForwardCompat, BoardsNobodyListsAreUnknown) {
  for (const char* gpu :
       {"NVIDIA GB10", "NVIDIA RTX A6000", "Quadro RTX 8000"}) {
    std::string code;
    EXPECT_EQ(Answer131(Host("8.6 R580", gpu, Cuda131(), "590.44.01"), &code),
              "unknown | unknown | unknown")
        << gpu;
    EXPECT_EQ(code, "TP124") << gpu;
  }
}

TEST(ForwardCompat, DataCentreBoardsByName) {
  for (const char* gpu :
       {"Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-80GB", "NVIDIA L40S",
        "NVIDIA H100 PCIe", "NVIDIA GH200 480GB", "NVIDIA B200", "Tesla T4",
        "NVIDIA A10G"}) {
    EXPECT_EQ(Answer131(Host("8.6 R550", gpu, Cuda131(), "590.44.01")),
              "native | jit | native")
        << gpu;
  }
}

// Orin's note states a version alone; it must be newer than the driver's.
TEST(ForwardCompat, TegraGoesByVersion) {
  v1::HostFacts facts = FakeHost("8.7 CUDA12.6 aarch64 tegra");
  facts.mutable_gpus(0)->set_name("Orin (nvgpu)");
  facts.mutable_driver()->set_kernel_module_version("540.4.0");
  const auto decide = [&facts](uint32_t major, uint32_t minor) {
    return DecideForwardCompat(Note(major, minor, {}), "", facts, facts.gpus(0),
                               TestTables());
  };
  EXPECT_EQ(decide(12, 8).answer, CompatAnswer::kWorks);
  EXPECT_EQ(decide(12, 6).answer, CompatAnswer::kRefused);
  EXPECT_EQ(decide(12, 4).reason.cuda_error(), 803u);
}

// The same where the package is what the loader finds, as on a simulated host:
// the driver's own version is that of its branch then.
TEST(ForwardCompat, AVersionAloneMustBeNewerThanTheDriverInUseToo) {
  const auto answer = [](uint32_t minor) {
    return Answer131(
        Host("9.0 R590", "NVIDIA H100 80GB HBM3", Note(13, minor, {}), ""));
  };
  EXPECT_EQ(answer(0), "fails 803 | fails 803 | fails 803");
  EXPECT_EQ(answer(1), "fails 803 | fails 803 | fails 803");
  EXPECT_EQ(answer(2), "fails 223 | jit | jit");
}

TEST(ForwardCompat, WhatAnsweredTheProbeWorks) {
  v1::HostFacts facts =
      Host("8.6 R545", "NVIDIA RTX A6000", Cuda131(), "590.44.01");
  facts.set_simulated(false);
  facts.mutable_driver()->mutable_cuda_version()->set_major(13);
  facts.mutable_driver()->mutable_cuda_version()->set_minor(1);
  EXPECT_EQ(Answer131(facts), "native | jit | native");
  // And what did not is no half-done upgrade.
  facts.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_FAILED);
  facts.mutable_driver()->mutable_probe()->set_cuda_error(804);
  std::string code;
  EXPECT_EQ(Answer131(facts, &code), "fails 804 | fails 804 | fails 804");
  EXPECT_EQ(code, "TP121");
}

TEST(ForwardCompat, BrokenNotesAreUnknown) {
  v1::ForwardCompatNote note;
  note.set_problem("the note's description is no JSON object");
  std::string code;
  EXPECT_EQ(
      Answer131(Host("9.0 R535", "NVIDIA H100 PCIe", note, "590.44.01"), &code),
      "unknown | unknown | unknown");
  EXPECT_EQ(code, "TP124");
}

// A WSL host's kernel half is Windows' driver; a package explains a difference.
TEST(DriverHalves, DifferWithoutAReason) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  v1::Driver& driver = *facts.mutable_driver();
  driver.set_libcuda_version("580.200.01");
  EXPECT_FALSE(DriverHalvesDiffer(facts));
  driver.set_libcuda_version("580.95.05");
  EXPECT_TRUE(DriverHalvesDiffer(facts));
  *driver.mutable_forward_compat() = Cuda131();
  EXPECT_FALSE(DriverHalvesDiffer(facts));
  driver.clear_forward_compat();
  facts.set_platform(v1::PLATFORM_WSL);
  EXPECT_FALSE(DriverHalvesDiffer(facts));
  facts.set_platform(v1::PLATFORM_STANDARD);
  driver.set_libcuda_version("1.1");
  EXPECT_FALSE(DriverHalvesDiffer(facts));
}

// NVIDIA/gpu-operator#2685: ready by every other check, and no uvm node.
TEST(DeviceNodes, MissingOnesExplainAFailedProbe) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  facts.mutable_driver()->add_missing_nodes("/dev/nvidia-uvm");
  const auto first = [](const v1::HostFacts& host) {
    const HostView view = LookAtHost(host, host.gpus(0), TestTables());
    return view.blocker ? view.blocker->reason.code() : "";
  };
  // The probe went well: they are not needed here.
  EXPECT_EQ(first(facts), "");
  facts.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_FAILED);
  facts.mutable_driver()->mutable_probe()->set_cuda_error(999);
  EXPECT_EQ(first(facts), "TP113");
  facts.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_OK);
  facts.mutable_gpu_probe()->set_state(v1::PROBE_STATE_ABSENT);
  EXPECT_EQ(first(facts), "TP113");
}

}  // namespace
}  // namespace twinpath::compat
