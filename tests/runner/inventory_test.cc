// Container run times, CDI devices and CUPTI of a host made of files.

#include "runner/inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"

namespace twinpath::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Inventory : public ::testing::Test {
 protected:
  void SetUp() override {
    auto root = TempDirectory::Make();
    ASSERT_THAT(root, IsOk());
    root_.emplace(*std::move(root));
  }
  void Put(const std::string& path, const std::string& text,
           uint32_t mode = 0644) {
    const std::string whole = root_->path() + path;
    ASSERT_THAT(MakeDirectories(DirName(whole)), IsOk());
    ASSERT_THAT(WriteFileAtomic(whole, text, mode), IsOk());
  }
  std::optional<TempDirectory> root_;
};

// As nvidia-ctk cdi generate writes it, cut to what matters.
constexpr char kYaml[] = R"(---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
  env:
  - NVIDIA_VISIBLE_DEVICES=void
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: GPU-00010203-0405-0607-0809-0a0b0c0d0e0f
- containerEdits: {}
  name: all
kind: nvidia.com/gpu
)";

TEST_F(Inventory, CdiDevicesOfASpecification) {
  EXPECT_THAT(
      CdiDevicesOf(kYaml, "nvidia.yaml"),
      ElementsAre("nvidia.com/gpu=0",
                  "nvidia.com/gpu=GPU-00010203-0405-0607-0809-0a0b0c0d0e0f",
                  "nvidia.com/gpu=all"));
  EXPECT_THAT(CdiDevicesOf(R"({"cdiVersion": "0.6.0",
                               "kind": "nvidia.com/mig",
                               "devices": [{"name": "0:1",
                                            "containerEdits": {}}]})",
                           "nvidia.json"),
              ElementsAre("nvidia.com/mig=0:1"));
}

TEST_F(Inventory, OtherVendorsAndBrokenSpecificationsAreLeftOut) {
  EXPECT_THAT(CdiDevicesOf("kind: intel.com/gpu\ndevices: [{name: a}]", "x"),
              IsEmpty());
  EXPECT_THAT(
      CdiDevicesOf("kind: evilnvidia.com/gpu\ndevices: [{name: a}]", "x"),
      IsEmpty());
  for (const char* text :
       {"", "[", "kind: nvidia.com/gpu", "kind: nvidia.com/gpu\ndevices: 7",
        "kind: [a]\ndevices: []", "- a", "\x01\x02",
        "kind: nvidia.com/gpu\ndevices: [{name: 'a b'}, {name: [x]}, 7, {}]",
        "a: &a [x]\nkind: nvidia.com/gpu\ndevices: *a"}) {
    EXPECT_THAT(CdiDevicesOf(text, "x"), IsEmpty()) << text;
  }
}

TEST_F(Inventory, CdiDevicesOfBothFoldersEachOnce) {
  Put("/etc/cdi/nvidia.yaml", kYaml);
  Put("/var/run/cdi/nvidia.yaml", kYaml);
  Put("/var/run/cdi/mig.json",
      R"({"kind": "nvidia.com/mig", "devices": [{"name": "0:0"}]})");
  Put("/etc/cdi/notes.txt",
      R"({"kind": "nvidia.com/no", "devices": [{"name": "0"}]})");
  // A reader of a FIFO would wait for ever.
  ASSERT_EQ(mkfifo((root_->path() + "/etc/cdi/trap.yaml").c_str(), 0600), 0);
  EXPECT_THAT(
      CdiDevices(root_->path()),
      ElementsAre("nvidia.com/gpu=0",
                  "nvidia.com/gpu=GPU-00010203-0405-0607-0809-0a0b0c0d0e0f",
                  "nvidia.com/gpu=all", "nvidia.com/mig=0:0"));
}

TEST_F(Inventory, HugeSpecificationsAreNotRead) {
  Put("/etc/cdi/huge.yaml",
      absl::StrCat("kind: nvidia.com/gpu\ndevices: [{name: a}]\n#",
                   std::string(3 << 20, 'x')));
  EXPECT_THAT(CdiDevices(root_->path()), IsEmpty());
  std::string many = "kind: nvidia.com/gpu\ndevices:\n";
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&many, "- name: g", i, "\n");
  Put("/etc/cdi/many.yaml", many);
  EXPECT_EQ(CdiDevices(root_->path()).size(), 1024u);
}

TEST_F(Inventory, VersionsAsProgramsStateThem) {
  EXPECT_EQ(VersionInText("podman version 4.9.4-rhel\n"), "4.9.4-rhel");
  EXPECT_EQ(VersionInText("Docker version 28.2.2, build 0df2f22\n"), "28.2.2");
  EXPECT_EQ(VersionInText("runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1\n"),
            "1.1.5+ds1");
  EXPECT_EQ(VersionInText("crun version 1.14.1\n"), "1.14.1");
  EXPECT_EQ(VersionInText("NVIDIA Container Toolkit CLI version 1.17.8\n"),
            "1.17.8");
  EXPECT_EQ(VersionInText("no version here"), "");
  EXPECT_EQ(VersionInText(""), "");
}

TEST_F(Inventory, RuntimesOnThePathWithTheirVersions) {
  Put("/bin/podman", "#!/bin/sh\necho podman version 5.1.2\n", 0755);
  Put("/bin/runc", "#!/bin/sh\nexit 3\n", 0755);
  Put("/bin/docker", "not executable", 0644);
  Put("/late/podman", "#!/bin/sh\necho podman version 1.0\n", 0755);
  const auto runtimes =
      FindOciRuntimes(absl::StrCat("relative:", root_->path(),
                                   "/bin:", root_->path(), "/late:/nowhere"),
                      absl::Seconds(30));
  ASSERT_EQ(runtimes.size(), 2u);
  EXPECT_EQ(runtimes[0].name(), "podman");
  EXPECT_EQ(runtimes[0].version(), "5.1.2");
  EXPECT_EQ(runtimes[0].path(), root_->path() + "/bin/podman");
  // One that does not answer is there all the same.
  EXPECT_EQ(runtimes[1].name(), "runc");
  EXPECT_EQ(runtimes[1].version(), "");
}

TEST_F(Inventory, CuptiOfTheNewestToolkitTheDriverIsNewEnoughFor) {
  v1::HostFacts facts;
  facts.mutable_driver()->mutable_cuda_version()->set_major(12);
  facts.mutable_driver()->mutable_cuda_version()->set_minor(8);
  for (const char* version : {"11.8", "12.6", "13.0"}) {
    v1::Toolkit& toolkit = *facts.add_toolkits();
    toolkit.set_path(absl::StrCat("/usr/local/cuda-", version));
    toolkit.set_nvcc_version(absl::StrCat(version, ".20"));
    Put(absl::StrCat(toolkit.path(), "/extras/CUPTI/lib64/libcupti.so.2025.1"),
        "");
    Put(absl::StrCat(toolkit.path(), "/extras/CUPTI/lib64/libcupti.so.",
                     std::string(version).substr(0, 2)),
        "");
  }
  EXPECT_EQ(FindCupti(root_->path(), facts, {"/usr/lib/libcupti.so.11"}),
            "/usr/local/cuda-12.6/extras/CUPTI/lib64/libcupti.so.12");
  facts.mutable_driver()->mutable_cuda_version()->set_major(11);
  facts.mutable_driver()->mutable_cuda_version()->set_minor(4);
  EXPECT_EQ(FindCupti(root_->path(), facts,
                      {"/usr/lib/libcudart.so.11", "/usr/lib/libcupti.so.11"}),
            "/usr/lib/libcupti.so.11");
  facts.clear_toolkits();
  EXPECT_EQ(FindCupti(root_->path(), facts, {}), "");
}

}  // namespace
}  // namespace twinpath::runner
