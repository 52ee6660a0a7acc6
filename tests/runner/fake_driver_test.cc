// The probe against whatever a driver can be made to answer: every error of the
// table at every call it makes, GPUs of several models, instances, lost ones,
// drivers that lack calls (fake_cuda/settings.h).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "runner/probe.h"
#include "tests/runner/known_errors.h"
#include "tests/runner/load_fixture.h"

namespace twinpath::runner {
namespace {

using ::testing::HasSubstr;

v1::ProbeResponse Ask(const std::string& words,
                      const std::string& variant = "full") {
  v1::ProbeRequest request;
  request.set_driver(true);
  request.set_ptx_isa_ceiling(true);
  ProbeOptions options;
  options.library_directory = JoinPath(TestVariable("TWINPATH_BIN_DIR"),
                                       absl::StrCat("fake_drivers/", variant));
  options.environment = {absl::StrCat("TWINPATH_FAKE_CUDA=", words)};
  const auto response = ProbeInChild(request, absl::Minutes(2), options);
  EXPECT_THAT(response, IsOk());
  return response.ok() ? *response : v1::ProbeResponse();
}

TEST(FakeDriver, EveryErrorOfTheTableAtTheStart) {
  std::set<int> seen;
  for (const KnownError& error : KnownErrors()) {
    if (!seen.insert(error.code).second) continue;
    const v1::ProbeResponse response =
        Ask(absl::StrCat("cuInit=", error.code), "cuda-only");
    EXPECT_EQ(response.gpu_probe().state(), v1::PROBE_STATE_FAILED);
    EXPECT_EQ(response.gpu_probe().cuda_error(),
              static_cast<uint32_t>(error.code));
    EXPECT_THAT(response.gpu_probe().error(), HasSubstr(error.name));
    EXPECT_EQ(response.gpus_size(), 0);
  }
  EXPECT_GT(seen.size(), 100u);
}

// What fails behind the start leaves what is known, and no number for what is
// not.
TEST(FakeDriver, AnErrorAtAnyLaterCall) {
  for (const char* call :
       {"cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet",
        "cuDeviceGetUuid_v2", "cuDeviceGetName", "cuDeviceGetAttribute",
        "cuDeviceTotalMem_v2", "cuDeviceGetPCIBusId",
        "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuModuleLoadDataEx",
        "cuModuleUnload"}) {
    const v1::ProbeResponse response =
        Ask(absl::StrCat("gpu=9.0 ", call, "=999"));
    EXPECT_EQ(response.driver().probe().state(), v1::PROBE_STATE_OK) << call;
    for (const v1::Gpu& gpu : response.gpus()) {
      EXPECT_EQ(gpu.has_compute_capability(),
                gpu.capability_probe().state() == v1::PROBE_STATE_OK)
          << call;
    }
    if (call == std::string("cuModuleLoadDataEx")) {
      EXPECT_FALSE(response.driver().has_ptx_isa_ceiling());
      EXPECT_EQ(response.driver().ptx_isa_probe().cuda_error(), 999u);
    }
  }
}

TEST(FakeDriver, GpusOfSeveralModels) {
  const v1::ProbeResponse response =
      Ask("gpu=9.0,name=NVIDIA_H200,memory=143771 "
          "gpu=12.1,name=NVIDIA_GB10,integrated");
  ASSERT_EQ(response.gpus_size(), 2);
  EXPECT_EQ(response.gpus(0).name(), "NVIDIA H200");
  EXPECT_EQ(response.gpus(0).compute_capability().major(), 9u);
  EXPECT_EQ(response.gpus(0).memory_bytes(), uint64_t{143771} << 20);
  EXPECT_EQ(response.gpus(1).name(), "NVIDIA GB10");
  EXPECT_EQ(response.gpus(1).compute_capability().minor(), 1u);
  EXPECT_FALSE(response.gpus(1).has_memory_bytes());
  EXPECT_TRUE(response.gpus(1).integrated());
}

TEST(FakeDriver, MigWithAndWithoutInstances) {
  v1::ProbeResponse response = Ask("gpu=9.0,mig=2");
  ASSERT_EQ(response.gpus_size(), 3);
  EXPECT_EQ(response.gpus(0).mig_mode(), v1::MIG_MODE_ENABLED);
  for (const int i : {1, 2}) {
    EXPECT_EQ(response.gpus(i).parent_uuid(), response.gpus(0).uuid());
    EXPECT_EQ(response.gpus(i).compute_capability().major(), 9u);
  }
  response = Ask("gpu=9.0,mig=0");
  ASSERT_EQ(response.gpus_size(), 1);
  EXPECT_EQ(response.gpus(0).mig_mode(), v1::MIG_MODE_ENABLED);
}

TEST(FakeDriver, ALostGpuDoesNotHideTheOther) {
  const v1::ProbeResponse response = Ask("gpu=9.0,lost gpu=9.0");
  ASSERT_GE(response.gpus_size(), 2);
  int without = 0;
  int with = 0;
  for (const v1::Gpu& gpu : response.gpus()) {
    ++(gpu.has_compute_capability() ? with : without);
  }
  EXPECT_GE(with, 1);
  EXPECT_GE(without, 1);
}

TEST(FakeDriver, ADriverWithoutNewerCallsIsAsked) {
  const v1::ProbeResponse response = Ask("gpu=8.0", "old");
  ASSERT_EQ(response.gpus_size(), 1);
  EXPECT_EQ(response.gpus(0).compute_capability().major(), 8u);
  EXPECT_EQ(response.driver().ptx_isa_ceiling().major(), 9u);
}

}  // namespace
}  // namespace twinpath::runner
