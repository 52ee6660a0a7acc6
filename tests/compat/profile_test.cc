#include "compat/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/file.h"
#include "base/status_matchers.h"
#include "compat/host_answer.h"
#include "compat/host_check.h"
#include "compat/tables.h"
#include "compat/target.h"
#include "tests/compat/fake_host.h"

namespace twinpath::compat {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

TEST(Profile, TheNamedHostsExist) {
  const auto names = ListProfiles();
  ASSERT_THAT(names, IsOk());
  EXPECT_THAT(*names, IsSupersetOf({"dgx-spark", "h200", "gh200", "b200",
                                    "b300", "l40s", "a100", "h100", "rtx-5090",
                                    "t4", "jetson-thor", "h200-r550",
                                    "l40s-r535", "a100-r470"}));
}

// All of them load, agree with the tables and are marked.
TEST(Profile, AllAreSound) {
  const auto names = ListProfiles();
  ASSERT_THAT(names, IsOk());
  std::set<std::string> uuids;
  for (const std::string& name : *names) {
    SCOPED_TRACE(name);
    const auto facts = LoadProfile(name);
    ASSERT_THAT(facts, IsOk());
    EXPECT_TRUE(facts->simulated());
    EXPECT_EQ(facts->profile(), name);
    EXPECT_EQ(facts->host_name(), name);
    ASSERT_GT(facts->gpus_size(), 0);
    for (const v1::Gpu& gpu : facts->gpus()) {
      EXPECT_TRUE(uuids.insert(gpu.uuid()).second) << gpu.uuid();
      EXPECT_EQ(gpu.uuid().size(), 40u);
      const GpuRow* row =
          TestTables().FindGpu(CapabilityNumber(gpu.compute_capability()));
      ASSERT_NE(row, nullptr);
      EXPECT_EQ(row->tegra(), facts->platform() == v1::PLATFORM_TEGRA);
    }
    // Nothing was measured on a profile.
    EXPECT_NE(facts->driver().ptx_isa_probe().state(), v1::PROBE_STATE_OK);
    if (facts->platform() != v1::PLATFORM_STANDARD) continue;
    const auto version =
        DriverVersion::Parse(facts->driver().kernel_module_version());
    ASSERT_TRUE(version.has_value());
    const DriverRow* driver = TestTables().FindDriver(version->branch());
    ASSERT_NE(driver, nullptr);
    EXPECT_EQ(driver->cuda, TwoPart::From(facts->driver().cuda_version()));
  }
}

TEST(Profile, DgxSpark) {
  const auto facts = LoadProfile("dgx-spark");
  ASSERT_THAT(facts, IsOk());
  EXPECT_EQ(facts->cpu_architecture(), v1::CPU_ARCHITECTURE_AARCH64);
  EXPECT_EQ(facts->platform(), v1::PLATFORM_STANDARD);
  ASSERT_EQ(facts->gpus_size(), 1);
  EXPECT_EQ(facts->gpus(0).name(), "NVIDIA GB10");
  EXPECT_EQ(CapabilityNumber(facts->gpus(0).compute_capability()), 121u);
  EXPECT_FALSE(facts->gpus(0).has_memory_bytes());
  EXPECT_EQ(LoadProfile("h200")->gpus_size(), 8);
}

TEST(Profile, HostsWithADriverOfTheirOwnKind) {
  const auto wsl = LoadProfile("wsl-rtx-4090");
  ASSERT_THAT(wsl, IsOk());
  EXPECT_EQ(wsl->platform(), v1::PLATFORM_WSL);
  EXPECT_FALSE(DriverHalvesDiffer(*wsl));

  const auto half = LoadProfile("a100-half-upgraded");
  ASSERT_THAT(half, IsOk());
  EXPECT_TRUE(DriverHalvesDiffer(*half));
  EXPECT_EQ(
      LookAtHost(*half, half->gpus(0), TestTables()).blocker->reason.code(),
      "TP104");

  const auto compat = LoadProfile("h100-r535-compat");
  ASSERT_THAT(compat, IsOk());
  EXPECT_FALSE(DriverHalvesDiffer(*compat));
  const HostView view = LookAtHost(*compat, compat->gpus(0), TestTables());
  EXPECT_FALSE(view.blocker.has_value());
  EXPECT_EQ(view.cuda->ToString(), "13.1");
  EXPECT_EQ(view.ptx_ceiling.ToString(), "9.1");

  const auto mig = LoadProfile("h100-mig");
  ASSERT_THAT(mig, IsOk());
  ASSERT_EQ(mig->gpus_size(), 3);
  const auto usable = UsableGpus(*mig);
  ASSERT_EQ(usable.size(), 2u);
  EXPECT_EQ(usable[0]->name(), "NVIDIA H100 80GB HBM3 MIG 3g.40gb");
  EXPECT_THAT(usable[0]->uuid(), HasSubstr("MIG-"));
  EXPECT_FALSE(LookAtHost(*mig, *usable[0], TestTables()).blocker.has_value());
}

TEST(Profile, UuidsNeverChange) {
  EXPECT_EQ(LoadProfile("h200")->gpus(0).uuid(),
            LoadProfile("h200")->gpus(0).uuid());
}

TEST(Profile, MistakesAreNamed) {
  EXPECT_THAT(LoadProfile("h20"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("h200")));
  auto dir = TempDirectory::Make();
  ASSERT_THAT(dir, IsOk());
  const std::string path = JoinPath(dir->path(), "mine.yaml");
  ASSERT_THAT(WriteFileAtomic(path,
                              "profile: mine\nsummary: x\nsource: [y]\n"
                              "host: {cpu: arm, platform: standard, os: a, "
                              "os_version: b, kernel: c}\n"
                              "driver: {version: new, libcuda: l, cuda: 13}\n"
                              "gpus: []\nmemory: 1\n"),
              IsOk());
  const auto facts = LoadProfile(path);
  EXPECT_THAT(facts, StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr("mine.yaml:4")));
  const std::string text(facts.status().message());
  EXPECT_THAT(text, HasSubstr("aarch64"));
  EXPECT_THAT(text, HasSubstr("expected a driver version"));
  EXPECT_THAT(text, HasSubstr("expected a version"));
  EXPECT_THAT(text, HasSubstr("at least one GPU"));
  EXPECT_THAT(text, HasSubstr("memory"));
}

}  // namespace
}  // namespace twinpath::compat
