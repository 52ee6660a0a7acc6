// The pieces of the toolchain check that start nothing.

#include "runner/toolchain_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace twinpath::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::Target Target(uint32_t number) {
  v1::Target target;
  target.set_number(number);
  target.set_suffix(v1::TARGET_SUFFIX_NONE);
  return target;
}

v1::Gpu Gpu(const std::string& uuid, uint32_t major, uint32_t minor) {
  v1::Gpu gpu;
  gpu.set_uuid(uuid);
  gpu.set_name("NVIDIA Test");
  gpu.mutable_capability_probe()->set_state(v1::PROBE_STATE_OK);
  gpu.mutable_compute_capability()->set_major(major);
  gpu.mutable_compute_capability()->set_minor(minor);
  return gpu;
}

v1::ProbeResponse Works() {
  v1::ProbeResponse probe;
  probe.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_OK);
  probe.mutable_gpu_probe()->set_state(v1::PROBE_STATE_OK);
  return probe;
}

TEST(GpusToCheck, TargetIsTheQueriedCapability) {
  v1::ProbeResponse probe = Works();
  *probe.add_gpus() = Gpu("GPU-1", 12, 1);
  const auto gpus = GpusToCheck(probe, {}, false);
  ASSERT_THAT(gpus, SizeIs(1));
  EXPECT_EQ(gpus[0].target.number(), 121u);
  EXPECT_EQ(ToolchainTargetName(gpus[0].target, false), "sm_121");
  EXPECT_EQ(ToolchainTargetName(gpus[0].target, true), "compute_121");
  EXPECT_THAT(gpus[0].reasons, IsEmpty());
}

TEST(GpusToCheck, FailedQueryGivesNoNumber) {
  v1::ProbeResponse probe = Works();
  v1::Gpu& gpu = *probe.add_gpus() = Gpu("GPU-1", 9, 0);
  gpu.mutable_capability_probe()->set_state(v1::PROBE_STATE_FAILED);
  gpu.mutable_capability_probe()->set_error("cuDeviceGetAttribute: 999");
  gpu.mutable_capability_probe()->set_cuda_error(999);
  const auto gpus = GpusToCheck(probe, {}, false);
  ASSERT_THAT(gpus, SizeIs(1));
  EXPECT_EQ(gpus[0].target.number(), 0u);
  EXPECT_EQ(gpus[0].compute_capability.major(), 0u);
  ASSERT_THAT(gpus[0].reasons, SizeIs(1));
  EXPECT_EQ(gpus[0].reasons[0].code(), "TP107");
  EXPECT_EQ(gpus[0].reasons[0].cuda_error(), 999u);
}

TEST(GpusToCheck, FaultsOfTheDriverAreToldApart) {
  const auto code = [](v1::ProbeState state, uint32_t error) {
    v1::ProbeResponse probe;
    probe.mutable_driver()->mutable_probe()->set_state(state);
    probe.mutable_driver()->mutable_probe()->set_cuda_error(error);
    const auto gpus = GpusToCheck(probe, {}, false);
    return gpus.size() == 1 && gpus[0].reasons.size() == 1
               ? gpus[0].reasons[0].code()
               : "none";
  };
  EXPECT_EQ(code(v1::PROBE_STATE_ABSENT, 0), "TP101");
  EXPECT_EQ(code(v1::PROBE_STATE_FAILED, 999), "TP102");
  EXPECT_EQ(code(v1::PROBE_STATE_HUNG, 0), "TP103");
  EXPECT_EQ(code(v1::PROBE_STATE_FAILED, 803), "TP104");
  EXPECT_EQ(code(v1::PROBE_STATE_FAILED, 34), "TP105");
  EXPECT_EQ(code(v1::PROBE_STATE_FAILED, 100), "TP106");
  EXPECT_EQ(code(v1::PROBE_STATE_UNSPECIFIED, 0), "TP102");
}

TEST(GpusToCheck, GpusThatNvmlListsAndCudaDoesNotAreNone) {
  v1::ProbeResponse probe = Works();
  *probe.add_gpus() = Gpu("GPU-1", 9, 0);
  probe.mutable_gpu_probe()->set_state(v1::PROBE_STATE_FAILED);
  probe.mutable_gpu_probe()->set_cuda_error(100);
  const auto gpus = GpusToCheck(probe, {"GPU-1"}, false);
  ASSERT_THAT(gpus, SizeIs(1));
  EXPECT_EQ(gpus[0].target.number(), 0u);
  ASSERT_THAT(gpus[0].reasons, SizeIs(1));
  EXPECT_EQ(gpus[0].reasons[0].code(), "TP106");
}

TEST(GpusToCheck, NamedOnesOnlyAndAnUnknownOneSaysSo) {
  v1::ProbeResponse probe = Works();
  *probe.add_gpus() = Gpu("GPU-1", 9, 0);
  *probe.add_gpus() = Gpu("GPU-2", 8, 6);
  const auto gpus = GpusToCheck(probe, {"GPU-2", "GPU-3"}, true);
  ASSERT_THAT(gpus, SizeIs(2));
  EXPECT_EQ(gpus[0].target.number(), 86u);
  ASSERT_THAT(gpus[1].reasons, SizeIs(1));
  EXPECT_EQ(gpus[1].reasons[0].code(), "TP106");
}

TEST(GpusToCheck, OneOfEachModelAndInstancesInPlaceOfTheirParent) {
  v1::ProbeResponse probe = Works();
  *probe.add_gpus() = Gpu("GPU-1", 9, 0);
  *probe.add_gpus() = Gpu("GPU-2", 9, 0);
  v1::Gpu& parent = *probe.add_gpus() = Gpu("GPU-3", 10, 0);
  parent.set_mig_mode(v1::MIG_MODE_ENABLED);
  v1::Gpu& instance = *probe.add_gpus() = Gpu("MIG-1", 10, 0);
  instance.set_mig_mode(v1::MIG_MODE_ENABLED);
  instance.set_parent_uuid("GPU-3");
  const auto gpus = GpusToCheck(probe, {}, true);
  ASSERT_THAT(gpus, SizeIs(2));
  EXPECT_EQ(gpus[0].uuid, "GPU-1");
  EXPECT_EQ(gpus[1].uuid, "MIG-1");
  EXPECT_THAT(GpusToCheck(probe, {}, false), SizeIs(3));
}

TEST(LookUpTarget, MissingNamesTheRangeAndNeverAnOlderNumber) {
  v1::Toolkit toolkit;
  toolkit.set_path("/usr/local/cuda-12.4");
  toolkit.set_nvcc_version("12.4.131");
  for (const uint32_t number : {80u, 90u, 120u}) {
    *toolkit.add_targets() = Target(number);
  }
  EXPECT_TRUE(LookUpTarget(toolkit, Target(90)).code().empty());
  const v1::Reason reason = LookUpTarget(toolkit, Target(121));
  EXPECT_EQ(reason.code(), "TP110");
  EXPECT_EQ(reason.detail(),
            "nvcc 12.4.131 in /usr/local/cuda-12.4 does not list sm_121; it "
            "lists sm_80 sm_90 sm_120");
}

TEST(CompileArguments, AskForMachineCodeAndPtxExplicitly) {
  EXPECT_THAT(
      CompileArguments("/opt/cuda/bin/nvcc", Target(121), "check.cu", "check"),
      ElementsAre("/opt/cuda/bin/nvcc", "--verbose", "-cudart", "static",
                  "-gencode", "arch=compute_121,code=sm_121", "-gencode",
                  "arch=compute_121,code=compute_121", "-o", "check",
                  "check.cu"));
}

// Lines of nvcc 13.0.88 --verbose.
TEST(HostCompilerOf, TheOneThatPreprocesses) {
  EXPECT_EQ(HostCompilerOf("#$ _HERE_=/usr/local/cuda/bin\n"
                           "#$ gcc -D__CUDA_ARCH_LIST__=900 -E -x c++ ...\n"
                           "#$ cudafe++ --c++17\n"),
            "gcc");
  EXPECT_EQ(HostCompilerOf("#$ \"/opt/gcc 13/bin/g++\" -D__CUDACC__ -E -x c++"),
            "/opt/gcc 13/bin/g++");
  EXPECT_EQ(HostCompilerOf("nvcc fatal : no input\n"), "");
}

v1::Image Image(v1::ImageKind kind, uint32_t number, bool kernel = true) {
  v1::Image image;
  image.set_kind(kind);
  *image.mutable_target() = Target(number);
  if (kind == v1::IMAGE_KIND_PTX) image.mutable_ptx_isa()->set_major(9);
  if (kernel) image.add_kernels()->set_name("k");
  return image;
}

std::vector<std::string> Built(const std::vector<v1::Image>& images) {
  v1::FileReport report;
  report.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
  report.mutable_elf()->set_cpu_architecture(v1::CPU_ARCHITECTURE_AARCH64);
  v1::Fatbin& fatbin = *report.add_fatbins();
  for (const v1::Image& image : images) *fatbin.add_images() = image;
  std::vector<std::string> details;
  for (const v1::Reason& reason :
       CheckBuilt(report, Target(90), "k", v1::CPU_ARCHITECTURE_AARCH64)) {
    EXPECT_EQ(reason.code(), "TP133");
    details.push_back(reason.detail());
  }
  return details;
}

TEST(CheckBuilt, BothKindsWithTheKernelAndNothingElse) {
  const v1::Image sass = Image(v1::IMAGE_KIND_SASS, 90);
  const v1::Image ptx = Image(v1::IMAGE_KIND_PTX, 90);
  EXPECT_THAT(Built({sass, ptx}), IsEmpty());
  // The device link leaves an image of that target without kernels.
  EXPECT_THAT(Built({Image(v1::IMAGE_KIND_SASS, 90, false), sass, ptx}),
              IsEmpty());
  EXPECT_THAT(Built({}), ElementsAre("the file holds no device code at all"));
  EXPECT_THAT(Built({sass}), ElementsAre("no PTX for compute_90"));
  EXPECT_THAT(Built({ptx}), ElementsAre("no machine code for sm_90"));
  EXPECT_THAT(Built({Image(v1::IMAGE_KIND_SASS, 90, false), ptx}),
              ElementsAre("the machine code for sm_90 lacks the kernel k"));
  EXPECT_THAT(Built({sass, Image(v1::IMAGE_KIND_PTX, 90, false)}),
              ElementsAre("the PTX for compute_90 lacks the entry k"));
  EXPECT_THAT(Built({sass, ptx, Image(v1::IMAGE_KIND_SASS, 75)}),
              ElementsAre("it holds what was not asked for: sm_75"));
  EXPECT_THAT(
      Built({Image(v1::IMAGE_KIND_SASS, 80), Image(v1::IMAGE_KIND_PTX, 80)}),
      ElementsAre("no machine code for sm_90", "no PTX for compute_90",
                  "it holds what was not asked for: PTX for "
                  "compute_80, sm_80"));
}

TEST(CheckBuilt, HostHalfOfAnotherCpu) {
  v1::FileReport report;
  report.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
  report.mutable_elf()->set_cpu_architecture(v1::CPU_ARCHITECTURE_X86_64);
  v1::Fatbin& fatbin = *report.add_fatbins();
  *fatbin.add_images() = Image(v1::IMAGE_KIND_SASS, 90);
  *fatbin.add_images() = Image(v1::IMAGE_KIND_PTX, 90);
  const auto reasons =
      CheckBuilt(report, Target(90), "k", v1::CPU_ARCHITECTURE_AARCH64);
  ASSERT_THAT(reasons, SizeIs(1));
  EXPECT_THAT(reasons[0].detail(), HasSubstr("another CPU"));
}

TEST(CheckCheckRun, ExitCodeAndSuccessLineBothCount) {
  const auto code = [](const v1::Observation& run) {
    const auto reasons = CheckCheckRun(run, "PASS");
    return reasons.empty() ? std::string() : reasons[0].code();
  };
  v1::Observation run;
  EXPECT_EQ(code(run), "TP306");
  run.set_ending(v1::ENDING_EXITED);
  EXPECT_EQ(code(run), "TP303");
  run.mutable_stdout()->set_head("PASS\n");
  EXPECT_EQ(code(run), "");
  run.set_exit_code(2);
  EXPECT_EQ(code(run), "TP302");
  run.set_ending(v1::ENDING_SIGNALED);
  EXPECT_EQ(code(run), "TP305");
  run.set_ending(v1::ENDING_TIMED_OUT);
  EXPECT_EQ(code(run), "TP304");
  run.set_ending(v1::ENDING_NOT_STARTED);
  run.set_problem("TP114 sandbox-unavailable: no bwrap");
  EXPECT_EQ(code(run), "TP114");
}

TEST(CheckJitProof, FilesOfThisDriver) {
  v1::Observation proof;
  EXPECT_THAT(CheckJitProof(proof), SizeIs(1));
  v1::CacheEvidence& cache = *proof.mutable_cache();
  cache.set_observed(true);
  cache.set_files(2);
  EXPECT_THAT(CheckJitProof(proof), IsEmpty());
  // Another compiler's entries prove nothing of the driver.
  cache.set_driver_built("Apr 29 2026 17:12:06");
  cache.add_writers()->set_built("Jan  1 2026 00:00:00");
  EXPECT_THAT(CheckJitProof(proof), SizeIs(1));
  cache.add_writers()->set_built("Apr 29 2026 17:12:06");
  EXPECT_THAT(CheckJitProof(proof), IsEmpty());
}

}  // namespace
}  // namespace twinpath::runner
