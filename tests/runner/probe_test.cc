// The probe child against drivers that are none (fake_cuda/settings.h).

#include "runner/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"

namespace twinpath::runner {
namespace {

using ::testing::HasSubstr;

std::string DriverPath(const std::string& folder) {
  const char* bin = std::getenv("TWINPATH_BIN_DIR");
  return JoinPath(JoinPath(bin == nullptr ? "." : bin, "fake_drivers"), folder);
}

v1::ProbeResponse Probe(const std::string& folder, const std::string& cuda = "",
                        const std::string& nvml = "",
                        absl::Duration deadline = absl::Minutes(2)) {
  v1::ProbeRequest request;
  request.set_driver(true);
  request.set_ptx_isa_ceiling(true);
  ProbeOptions options;
  options.library_directory = DriverPath(folder);
  if (!cuda.empty())
    options.environment.push_back("TWINPATH_FAKE_CUDA=" + cuda);
  if (!nvml.empty())
    options.environment.push_back("TWINPATH_FAKE_NVML=" + nvml);
  const auto response = ProbeInChild(request, deadline, options);
  EXPECT_THAT(response, IsOk());
  return response.ok() ? *response : v1::ProbeResponse();
}

TEST(Probe, FindsEverythingOfAWorkingDriver) {
  const v1::ProbeResponse response = Probe("full");
  const v1::Driver& driver = response.driver();
  EXPECT_EQ(driver.probe().state(), v1::PROBE_STATE_OK);
  EXPECT_EQ(driver.kernel_module_version(), "580.95.05");
  EXPECT_EQ(driver.cuda_version().major(), 13u);
  EXPECT_EQ(driver.cuda_version().minor(), 0u);
  EXPECT_EQ(driver.ptx_isa_probe().state(), v1::PROBE_STATE_OK);
  EXPECT_EQ(driver.ptx_isa_ceiling().major(), 9u);
  EXPECT_EQ(driver.ptx_isa_ceiling().minor(), 0u);
  EXPECT_EQ(driver.jit_cache_built(), "Apr 29 2026 17:12:06");
  EXPECT_EQ(driver.jit_library().state(), v1::PROBE_STATE_OK);
  EXPECT_FALSE(driver.libcuda_is_stub());
  EXPECT_THAT(driver.libcuda_path(), HasSubstr("/full/libcuda.so.1"));
  const auto digest = Sha256OfFile(DriverPath("full") + "/libcuda.so.1");
  ASSERT_THAT(digest, IsOk());
  EXPECT_EQ(driver.libcuda_digest().sha256(), digest->Raw());
  EXPECT_EQ(response.gpu_probe().state(), v1::PROBE_STATE_OK);
  ASSERT_EQ(response.gpus_size(), 1);
  const v1::Gpu& gpu = response.gpus(0);
  EXPECT_EQ(gpu.uuid(), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
  EXPECT_EQ(gpu.pci_address(), "0000000F:01:00.0");
  EXPECT_EQ(gpu.capability_probe().state(), v1::PROBE_STATE_OK);
  EXPECT_EQ(gpu.compute_capability().major(), 12u);
  EXPECT_EQ(gpu.compute_capability().minor(), 1u);
  EXPECT_EQ(gpu.memory_bytes(), uint64_t{1} << 30);
  EXPECT_TRUE(gpu.integrated());
  EXPECT_EQ(gpu.mig_mode(), v1::MIG_MODE_DISABLED);
  EXPECT_TRUE(gpu.ecc_enabled());
  EXPECT_EQ(gpu.compute_processes(), 2u);
}

TEST(Probe, MemoryIsAbsentWhereNvmlDoesNotReportIt) {
  const v1::ProbeResponse response = Probe("full", "", "integrated");
  ASSERT_EQ(response.gpus_size(), 1);
  EXPECT_FALSE(response.gpus(0).has_memory_bytes());
  EXPECT_FALSE(response.gpus(0).has_ecc_enabled());
  EXPECT_EQ(response.gpus(0).mig_mode(), v1::MIG_MODE_UNSUPPORTED);
}

TEST(Probe, MigInstancesFollowTheirParent) {
  const v1::ProbeResponse response = Probe("full", "count=0", "mig");
  ASSERT_EQ(response.gpus_size(), 2);
  EXPECT_EQ(response.gpus(0).mig_mode(), v1::MIG_MODE_ENABLED);
  EXPECT_EQ(response.gpus(1).uuid(),
            "MIG-11111111-2222-3333-4444-555555555555");
  EXPECT_EQ(response.gpus(1).parent_uuid(), response.gpus(0).uuid());
  EXPECT_EQ(response.gpus(1).compute_capability().major(), 12u);
}

TEST(Probe, WithoutNvmlCudaAloneAnswers) {
  const v1::ProbeResponse response = Probe("cuda-only");
  EXPECT_EQ(response.driver().probe().state(), v1::PROBE_STATE_OK);
  ASSERT_EQ(response.gpus_size(), 1);
  EXPECT_EQ(response.gpus(0).uuid(),
            "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
  EXPECT_EQ(response.gpus(0).compute_capability().major(), 12u);
  EXPECT_EQ(response.driver().jit_library().state(), v1::PROBE_STATE_ABSENT);
  EXPECT_THAT(response.driver().jit_library().error(),
              HasSubstr("libnvidia-ptxjitcompiler.so.1"));
}

TEST(Probe, InitErrorIsReportedWithItsNumberAndText) {
  const v1::ProbeResponse response = Probe("cuda-only", "init=803");
  EXPECT_EQ(response.driver().probe().state(), v1::PROBE_STATE_FAILED);
  EXPECT_EQ(response.driver().probe().cuda_error(), 803u);
  EXPECT_THAT(response.driver().probe().error(),
              HasSubstr("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"));
  EXPECT_EQ(response.gpu_probe().state(), v1::PROBE_STATE_FAILED);
  EXPECT_EQ(response.gpus_size(), 0);
}

TEST(Probe, DriverWithoutDeviceIsSoundAndHasNoGpu) {
  const v1::ProbeResponse response = Probe("cuda-only", "init=100");
  EXPECT_EQ(response.driver().probe().state(), v1::PROBE_STATE_OK);
  EXPECT_EQ(response.gpu_probe().state(), v1::PROBE_STATE_FAILED);
  EXPECT_EQ(response.gpu_probe().cuda_error(), 100u);
}

TEST(Probe, StubIsNamedAndItsVersionNotBelieved) {
  const v1::ProbeResponse response = Probe("cuda-only", "init=34");
  EXPECT_TRUE(response.driver().libcuda_is_stub());
  EXPECT_EQ(response.driver().probe().cuda_error(), 34u);
  EXPECT_FALSE(response.driver().has_cuda_version());
}

TEST(Probe, FailedCapabilityQueryGivesNoNumber) {
  const v1::ProbeResponse response = Probe("full", "attribute=999");
  ASSERT_EQ(response.gpus_size(), 1);
  const v1::Gpu& gpu = response.gpus(0);
  EXPECT_EQ(gpu.capability_probe().state(), v1::PROBE_STATE_FAILED);
  EXPECT_EQ(gpu.capability_probe().cuda_error(), 999u);
  EXPECT_FALSE(gpu.has_compute_capability());
}

TEST(Probe, GpuThatOnlyNvmlListsHasNoCapability) {
  const v1::ProbeResponse response = Probe("full", "count=0");
  ASSERT_EQ(response.gpus_size(), 1);
  EXPECT_EQ(response.gpus(0).capability_probe().state(),
            v1::PROBE_STATE_FAILED);
  EXPECT_FALSE(response.gpus(0).has_compute_capability());
}

TEST(Probe, HungDriverIsReportedAsHung) {
  const v1::ProbeResponse response =
      Probe("cuda-only", "hang", "", absl::Seconds(1));
  EXPECT_EQ(response.driver().probe().state(), v1::PROBE_STATE_HUNG);
  EXPECT_EQ(response.gpu_probe().state(), v1::PROBE_STATE_HUNG);
  EXPECT_EQ(response.gpus_size(), 0);
}

TEST(Probe, CrashingDriverIsReportedAsFailed) {
  const v1::ProbeResponse response = Probe("cuda-only", "crash");
  EXPECT_EQ(response.driver().probe().state(), v1::PROBE_STATE_FAILED);
  EXPECT_THAT(response.driver().probe().error(), HasSubstr("signal 6"));
}

TEST(Probe, DriverThatEndsTheProcessIsReportedAsFailed) {
  // exit 0 without an answer must not read as an empty one.
  const v1::ProbeResponse response = Probe("cuda-only", "exit");
  EXPECT_NE(response.driver().probe().state(), v1::PROBE_STATE_OK);
  EXPECT_NE(response.gpu_probe().state(), v1::PROBE_STATE_OK);
}

TEST(Probe, MissingSymbolsAreNotFatal) {
  const v1::ProbeResponse response = Probe("minimal");
  EXPECT_EQ(response.driver().probe().state(), v1::PROBE_STATE_OK);
  EXPECT_EQ(response.driver().cuda_version().major(), 13u);
  EXPECT_EQ(response.gpu_probe().state(), v1::PROBE_STATE_FAILED);
  EXPECT_THAT(response.gpu_probe().error(), HasSubstr("cuDeviceGetCount"));
}

TEST(Probe, LibraryThatIsNoDriverFails) {
  const v1::ProbeResponse response = Probe("empty");
  EXPECT_EQ(response.driver().probe().state(), v1::PROBE_STATE_FAILED);
  EXPECT_THAT(response.driver().probe().error(), HasSubstr("cuInit"));
}

TEST(Probe, NvmlMismatchDoesNotHideWhatCudaSays) {
  const v1::ProbeResponse response = Probe("full", "", "mismatch");
  EXPECT_EQ(response.gpu_probe().state(), v1::PROBE_STATE_OK);
  ASSERT_EQ(response.gpus_size(), 1);
  EXPECT_EQ(response.gpus(0).mig_mode(), v1::MIG_MODE_UNSPECIFIED);
}

TEST(Probe, CeilingIsMeasuredNotAssumed) {
  const v1::ProbeResponse response = Probe("cuda-only", "ceiling=8.8");
  EXPECT_EQ(response.driver().ptx_isa_ceiling().major(), 8u);
  EXPECT_EQ(response.driver().ptx_isa_ceiling().minor(), 8u);
}

TEST(Probe, WithoutALogThereIsNoCeiling) {
  const v1::ProbeResponse response = Probe("cuda-only", "nolog");
  EXPECT_EQ(response.driver().ptx_isa_probe().state(), v1::PROBE_STATE_FAILED);
  EXPECT_EQ(response.driver().ptx_isa_probe().cuda_error(), 222u);
  EXPECT_FALSE(response.driver().has_ptx_isa_ceiling());
}

}  // namespace
}  // namespace twinpath::runner
