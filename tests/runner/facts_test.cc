#include "runner/facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "runner/driver_files.h"

namespace twinpath::runner {
namespace {

using ::testing::ElementsAreArray;

class Facts : public ::testing::Test {
 protected:
  void SetUp() override {
    auto root = TempDirectory::Make();
    ASSERT_THAT(root, IsOk());
    root_.emplace(*std::move(root));
  }
  void Put(const std::string& path, const std::string& text) {
    const std::string whole = root_->path() + path;
    ASSERT_THAT(MakeDirectories(DirName(whole)), IsOk());
    ASSERT_THAT(WriteFileAtomic(whole, text), IsOk());
  }
  std::optional<TempDirectory> root_;
};

TEST_F(Facts, OperatingSystemFromOsRelease) {
  Put("/etc/os-release",
      "PRETTY_NAME=\"Ubuntu 24.04.3 LTS\"\nNAME=\"Ubuntu\"\n"
      "VERSION_ID=\"24.04\"\nID=ubuntu\nID_LIKE=debian\n");
  Put("/proc/sys/kernel/osrelease", "6.17.0-1008-nvidia\n");
  const v1::OperatingSystem os = ReadOperatingSystem(root_->path());
  EXPECT_EQ(os.id(), "ubuntu");
  EXPECT_EQ(os.version_id(), "24.04");
  EXPECT_EQ(os.pretty_name(), "Ubuntu 24.04.3 LTS");
  EXPECT_EQ(os.kernel_release(), "6.17.0-1008-nvidia");
}

TEST_F(Facts, MachineIdIsHashedUnderAPrefix) {
  Put("/etc/machine-id", "0123456789abcdef0123456789abcdef\n");
  EXPECT_EQ(
      HashedMachineId(root_->path()),
      Sha256Of("twinpath machine-id\n0123456789abcdef0123456789abcdef").Hex());
  EXPECT_EQ(HashedMachineId(root_->path() + "/nowhere"), "");
}

TEST_F(Facts, PlatformIsStandardWithoutFurtherMarks) {
  EXPECT_EQ(DetectPlatform(root_->path(), {}), v1::PLATFORM_STANDARD);
  v1::ProbeResponse spark;
  spark.add_gpus()->set_name("NVIDIA GB10");
  EXPECT_EQ(DetectPlatform(root_->path(), spark), v1::PLATFORM_STANDARD);
}

TEST_F(Facts, PlatformTegraByFileFamilyOrGpuName) {
  v1::ProbeResponse thor;
  thor.add_gpus()->set_name("NVIDIA Thor");
  EXPECT_EQ(DetectPlatform(root_->path(), thor), v1::PLATFORM_TEGRA);
  v1::ProbeResponse orin;
  orin.add_gpus()->set_name("Orin (nvgpu)");
  EXPECT_EQ(DetectPlatform(root_->path(), orin), v1::PLATFORM_TEGRA);
  Put("/sys/devices/soc0/family", "Tegra\n");
  EXPECT_EQ(DetectPlatform(root_->path(), {}), v1::PLATFORM_TEGRA);
}

TEST_F(Facts, PlatformWslByItsLibrary) {
  Put("/usr/lib/wsl/lib/libdxcore.so", "");
  EXPECT_EQ(DetectPlatform(root_->path(), {}), v1::PLATFORM_WSL);
}

TEST_F(Facts, BranchOfAVersion) {
  EXPECT_EQ(DriverBranch("580.95.05"), "R580");
  EXPECT_EQ(DriverBranch("610.43"), "R610");
  EXPECT_EQ(DriverBranch(""), "");
  EXPECT_EQ(DriverBranch("unknown"), "");
}

TEST_F(Facts, OfAHostWithAFakeDriver) {
  const char* bin = std::getenv("TWINPATH_BIN_DIR");
  ASSERT_NE(bin, nullptr);
  Put("/etc/environment", "CUDA_FORCE_PTX_JIT=1\n");
  Put("/proc/sys/kernel/random/boot_id",
      "11111111-2222-3333-4444-555555555555\n");
  FactsOptions options;
  options.root = root_->path();
  options.version = "1.2.3";
  options.libraries = false;
  options.use_process_environment = false;
  options.environment = {"CUDA_CACHE_DISABLE=1"};
  options.probe.library_directory = JoinPath(bin, "fake_drivers/full");
  // Device nodes and libraries are looked at in the probe, which sees this
  // host's: here one of a driver is there and the others are not.
  Put("/dev/nvidiactl", "");
  const v1::HostFacts facts = CollectFacts(options);
  const std::vector<std::string> missing = MissingNodes(/*root=*/"");
  EXPECT_THAT(facts.driver().missing_nodes(), ElementsAreArray(missing));
  EXPECT_EQ(facts.agent_version(), "1.2.3");
  EXPECT_EQ(facts.boot_id(), "11111111-2222-3333-4444-555555555555");
  EXPECT_EQ(facts.driver().branch(), "R580");
  ASSERT_EQ(facts.gpus_size(), 1);
  ASSERT_EQ(facts.leaks_size(), 2);
  EXPECT_EQ(facts.leaks(0).origin(), "process");
  EXPECT_EQ(facts.leaks(1).origin(), "/etc/environment");
  EXPECT_EQ(facts.leaks(1).line(), 1u);
  EXPECT_FALSE(facts.simulated());
  EXPECT_GT(facts.collected_time().seconds(), 0);
}

TEST_F(Facts, WithoutADriverTheProbeSaysSoAndNothingIsMadeUp) {
  const char* bin = std::getenv("TWINPATH_BIN_DIR");
  ASSERT_NE(bin, nullptr);
  FactsOptions options;
  options.root = root_->path();
  options.libraries = false;
  options.use_process_environment = false;
  options.probe.library_directory = JoinPath(bin, "fake_drivers/empty");
  const v1::HostFacts facts = CollectFacts(options);
  EXPECT_NE(facts.driver().probe().state(), v1::PROBE_STATE_OK);
  EXPECT_FALSE(facts.driver().probe().error().empty());
  EXPECT_EQ(facts.gpus_size(), 0);
  EXPECT_FALSE(facts.driver().has_cuda_version());
}

}  // namespace
}  // namespace twinpath::runner
