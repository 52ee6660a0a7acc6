#include "runner/toolkit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>

#include "base/file.h"
#include "base/status_matchers.h"

namespace twinpath::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ToolkitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto root = TempDirectory::Make();
    ASSERT_THAT(root, IsOk());
    root_.emplace(*std::move(root));
  }
  // Puts an nvcc that is a shell script into `folder` below the root.
  std::string Put(const std::string& folder, const std::string& script) {
    const std::string bin = root_->path() + folder + "/bin";
    EXPECT_THAT(MakeDirectories(bin), IsOk());
    EXPECT_THAT(WriteFileAtomic(bin + "/nvcc", "#!/bin/sh\n" + script, 0755),
                IsOk());
    EXPECT_THAT(WriteFileAtomic(bin + "/nvcc.profile", "TOP=..\n"), IsOk());
    return root_->path() + folder;
  }
  std::optional<TempDirectory> root_;
};

TEST_F(ToolkitTest, VersionFromNvccsText) {
  EXPECT_EQ(
      NvccVersionOf("nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) "
                    "2005-2025 NVIDIA Corporation\nBuilt on "
                    "Wed_Aug_20_01:58:59_PM_PDT_2025\nCuda compilation tools, "
                    "release 13.0, V13.0.88\nBuild "
                    "cuda_13.0.r13.0/compiler.36424714_0\n"),
      "13.0.88");
  EXPECT_EQ(NvccVersionOf("nothing"), "");
}

TEST_F(ToolkitTest, TargetsFromNvccsList) {
  const auto targets = TargetsOf("sm_75\nsm_90a\nsm_120f\n\nnoise\nsm_x\n");
  ASSERT_EQ(targets.size(), 3u);
  EXPECT_EQ(targets[0].number(), 75u);
  EXPECT_EQ(targets[0].suffix(), v1::TARGET_SUFFIX_NONE);
  EXPECT_EQ(targets[1].suffix(), v1::TARGET_SUFFIX_ARCH);
  EXPECT_EQ(targets[2].number(), 120u);
  EXPECT_EQ(targets[2].suffix(), v1::TARGET_SUFFIX_FAMILY);
}

TEST_F(ToolkitTest, FindsEachFolderOnce) {
  const std::string a = Put("/usr/local/cuda-13.0", "");
  const std::string b = Put("/opt/cuda", "");
  ASSERT_EQ(symlink("cuda-13.0", (root_->path() + "/usr/local/cuda").c_str()),
            0);
  EXPECT_THAT(
      FindToolkits(root_->path(), {"PATH=" + b + "/bin", "CUDA_HOME=" + a}),
      ElementsAre(b, a));
}

TEST_F(ToolkitTest, ScriptThatOnlyCallsNvccIsNoToolkit) {
  const std::string wrapper = Put("/opt/wrapper", "");
  ASSERT_EQ(unlink((wrapper + "/bin/nvcc.profile").c_str()), 0);
  EXPECT_THAT(FindToolkits(root_->path(), {"PATH=" + wrapper + "/bin"}),
              ElementsAre());
}

TEST_F(ToolkitTest, AsksVersionAndTargets) {
  const std::string folder =
      Put("/cuda",
          "case $1 in --version) echo 'tools, release 12.8, V12.8.61';; "
          "--list-gpu-code) echo sm_90; echo sm_121;; esac\n");
  const v1::Toolkit toolkit = AskToolkit(folder, absl::Minutes(1));
  EXPECT_EQ(toolkit.probe().state(), v1::PROBE_STATE_OK);
  EXPECT_EQ(toolkit.nvcc_version(), "12.8.61");
  ASSERT_EQ(toolkit.targets_size(), 2);
  EXPECT_EQ(toolkit.targets(1).number(), 121u);
}

TEST_F(ToolkitTest, FailingNvccIsReportedWithoutTargets) {
  const std::string folder = Put("/cuda", "echo broken >&2; exit 3\n");
  const v1::Toolkit toolkit = AskToolkit(folder, absl::Minutes(1));
  EXPECT_EQ(toolkit.probe().state(), v1::PROBE_STATE_FAILED);
  EXPECT_THAT(toolkit.probe().error(), HasSubstr("broken"));
  EXPECT_EQ(toolkit.targets_size(), 0);
}

TEST_F(ToolkitTest, NvccWithoutAListIsNoSuccess) {
  const std::string folder = Put("/cuda", "echo 'release 9.0, V9.0.1'\n");
  EXPECT_EQ(AskToolkit(folder, absl::Minutes(1)).probe().state(),
            v1::PROBE_STATE_FAILED);
}

TEST_F(ToolkitTest, HangingNvccIsReportedAsHung) {
  const std::string folder = Put("/cuda", "exec sleep 100000\n");
  EXPECT_EQ(AskToolkit(folder, absl::Milliseconds(200)).probe().state(),
            v1::PROBE_STATE_HUNG);
}

}  // namespace
}  // namespace twinpath::runner
