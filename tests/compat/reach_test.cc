#include "compat/reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compat/target.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Reach Of(const v1::ArtifactReport& report) {
  return ReachOf(report, Predictor(report), TestTables());
}

v1::Reach Of(const std::vector<std::string>& fatbins) {
  return Of(MakeArtifact(fatbins));
}

std::string Point(const v1::DriverPoint& point) {
  if (point.branch() != 0) return absl::StrCat("R", point.branch());
  return TwoPart::From(point.cuda_version()).ToString();
}

const v1::GpuReach& Gpu(const v1::Reach& reach, uint32_t number) {
  for (const v1::GpuReach& gpu : reach.gpus()) {
    if (CapabilityNumber(gpu.compute_capability()) == number) return gpu;
  }
  ADD_FAILURE() << "no GPU " << number;
  static const v1::GpuReach none;
  return none;
}

// "R520-R575 fails 222; R580-R620 jit" of plain runs.
std::string Cells(const v1::Reach& reach, uint32_t number) {
  std::string out;
  for (const v1::ReachCell& cell : Gpu(reach, number).cells()) {
    absl::StrAppend(&out, out.empty() ? "" : "; ", Point(cell.first()), "-",
                    Point(cell.last()), " ", Answer(cell.paths(2)));
  }
  return out;
}

// GPUs by the best they get.
std::map<v1::Outcome, std::vector<std::string>> ByBest(const v1::Reach& reach) {
  std::map<v1::Outcome, std::vector<std::string>> out;
  for (const v1::GpuReach& gpu : reach.gpus()) {
    out[gpu.best()].push_back(
        CapabilityName(CapabilityNumber(gpu.compute_capability())));
  }
  return out;
}

// Machine code serves its major from its minor up, PTX everything above, Tegra
// parts are islands (CUDA Programming Guide, compute-capability appendix).
TEST(Reach, ListsOfGpusFollowFromTheImages) {
  auto lists = ByBest(Of({"sm_90 compute_90@9.0"}));
  EXPECT_THAT(lists[v1::OUTCOME_NATIVE], ElementsAre("9.0"));
  EXPECT_THAT(lists[v1::OUTCOME_JIT],
              ElementsAre("10.0", "10.3", "10.7", "12.0"));
  // A file for x86-64 does not start on Arm, whatever its device code: GB10 and
  // the Jetsons.
  EXPECT_THAT(lists[v1::OUTCOME_FAILS],
              ElementsAre("3.0", "3.2", "3.5", "3.7", "5.0", "5.2", "5.3",
                          "6.0", "6.1", "6.2", "7.0", "7.2", "7.5", "8.0",
                          "8.6", "8.7", "8.9", "11.0", "12.1"));
}

// FLAMEGPU/FLAMEGPU2#1019: a gap in the middle of the list.
TEST(Reach, AGapInTheMiddle) {
  const v1::Reach reach = Of({"sm_86 sm_90 compute_120@9.0"});
  EXPECT_EQ(Cells(reach, 80), "R450-R620 fails 209");
  EXPECT_EQ(Cells(reach, 86), "R455-R620 native");
  EXPECT_EQ(Cells(reach, 100), "R570-R620 fails 209");
  EXPECT_EQ(Cells(reach, 120), "R570-R575 fails 222; R580-R620 jit");
}

// CUDA 13.2 writes PTX 9.2, which R595 is the first to take (release notes);
// NVIDIA/nvbandwidth#61.
TEST(Reach, PtxOfANewToolkitStartsWithItsDriver) {
  EXPECT_EQ(Cells(Of({"compute_90@9.2"}), 90),
            "R520-R590 fails 222; R595-R620 jit");
}

// V100 ends with R580, the first driver of CUDA 13 and PTX 9.0.
TEST(Reach, V100IsCappedAtR580) {
  const v1::Reach reach = Of({"compute_70@9.1"});
  EXPECT_EQ(Cells(reach, 70), "R410-R580 fails 222");
  EXPECT_EQ(Point(Gpu(reach, 70).last_driver()), "R580");
  EXPECT_EQ(Gpu(reach, 70).best(), v1::OUTCOME_FAILS);
  ASSERT_EQ(reach.findings_size(), 1);
  EXPECT_EQ(reach.findings(0).code(), "TP250");
  EXPECT_THAT(reach.findings(0).detail(), HasSubstr("7.0"));
  EXPECT_THAT(reach.findings(0).detail(), HasSubstr("R580"));
  EXPECT_EQ(Cells(Of({"sm_70"}), 70), "R410-R580 native");
}

TEST(Reach, NoPtxMeansTheNextMajorFails) {
  const v1::Reach reach = Of({"sm_80 sm_90"});
  ASSERT_EQ(reach.findings_size(), 1);
  EXPECT_EQ(reach.findings(0).code(), "TP226");
  EXPECT_THAT(reach.findings(0).detail(), HasSubstr("209"));
  EXPECT_THAT(reach.findings(0).fix(),
              HasSubstr("arch=compute_90,code=compute_90"));
  // PTX of an architecture-specific target goes nowhere else.
  EXPECT_EQ(Of({"sm_90a compute_90a"}).findings_size(), 1);
  EXPECT_EQ(Of({"sm_90 compute_90"}).findings_size(), 0);
}

TEST(Reach, PartOfTheFatbinsWithoutPtxIsCounted) {
  const v1::Reach reach = Of({"sm_80 compute_80", "sm_80", "sm_80 compute_80"});
  ASSERT_EQ(reach.findings_size(), 1);
  EXPECT_THAT(reach.findings(0).detail(), HasSubstr("1 fatbin"));
}

// microsoft/onnxruntime-genai PR #2371: lists differ by CPU.
TEST(Reach, AnArmFileIsAskedForArmHosts) {
  v1::FileReport file = MakeFile("app", {"sm_80 sm_90 sm_121"});
  file.mutable_elf()->set_cpu_architecture(v1::CPU_ARCHITECTURE_AARCH64);
  const v1::Reach reach = Of(MakeArtifactOf({file}));
  EXPECT_EQ(Gpu(reach, 90).cpu_architecture(), v1::CPU_ARCHITECTURE_AARCH64);
  EXPECT_EQ(Gpu(reach, 90).best(), v1::OUTCOME_NATIVE);
  EXPECT_EQ(Cells(reach, 121), "R575-R620 native");
}

// Jetsons have no driver branch: JetPack ties the driver to a CUDA version.
TEST(Reach, TegraIsAskedByCudaVersion) {
  v1::FileReport file = MakeFile("app", {"sm_87"});
  file.mutable_elf()->set_cpu_architecture(v1::CPU_ARCHITECTURE_AARCH64);
  EXPECT_EQ(Cells(Of(MakeArtifactOf({file})), 87), "11.4-13.5 native");
}

TEST(Reach, AFileWithoutDeviceCodeReachesNothing) {
  const v1::Reach reach = Of(MakeArtifact({}));
  for (const v1::GpuReach& gpu : reach.gpus()) {
    EXPECT_EQ(gpu.oldest_native().branch(), 0u);
    EXPECT_NE(gpu.best(), v1::OUTCOME_NATIVE);
  }
  EXPECT_EQ(reach.findings_size(), 0);
}

}  // namespace
}  // namespace twinpath::compat
