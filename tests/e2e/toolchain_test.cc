// twinpath check --toolchain and inspect --witness, as typed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status_matchers.h"
#include "cli/json.h"
#include "tests/e2e/fake_gpu_host.h"
#include "tests/e2e/fleet.h"
#include "twinpath/v1/cli.pb.h"

namespace twinpath::e2e {
namespace {

using ::testing::HasSubstr;

class ToolchainCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
    ASSERT_THAT(folder, IsOk());
    folder_.emplace(*std::move(folder));
  }
  CliResult Cli(const std::vector<std::string>& args) {
    return RunCli(args, "127.0.0.1:1", folder_->path(), "");
  }
  std::optional<TempDirectory> folder_;
};

TEST_F(ToolchainCommand, WrongUseIsSaid) {
  struct Case {
    std::vector<std::string> args;
    std::string says;
  };
  for (const Case& one : std::vector<Case>{
           {{"check", "--toolchain", "app"}, "takes no FILE"},
           {{"check", "--target", "sm_90", "app"}, "needs --toolchain"},
           {{"check"}, "FILE is required"},
           {{"check", "--toolchain", "--target", "nine"}, "--target"},
           {{"check", "--toolchain", "--gpu", "a b"}, "--gpu"},
           {{"check", "--toolchain", "--gpu", "GPU-1", "--target", "sm_90"},
            "one of them"}}) {
    const CliResult result = Cli(one.args);
    EXPECT_EQ(result.exit_code, 2) << one.says;
    EXPECT_THAT(result.err, HasSubstr(one.says));
  }
}

TEST_F(ToolchainCommand, ToolkitThatIsNotThereFails) {
  const CliResult result = Cli({"check", "--toolchain", "--toolkit",
                                "/nowhere/cuda", "--target", "sm_90"});
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("TP132"));
  EXPECT_THAT(result.out, HasSubstr("/nowhere/cuda/bin/nvcc does not exist"));
}

TEST_F(ToolchainCommand, GpuOfNobodyIsNoNumber) {
  const CliResult result = Cli(
      {"check", "--toolchain", "--gpu", "GPU-of-nobody", "--format", "json"});
  EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
  v1::ToolchainOutput output;
  ASSERT_THAT(cli::FromJson(result.out, "out", &output), IsOk());
  EXPECT_EQ(output.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  ASSERT_EQ(output.checks_size(), 1);
  EXPECT_EQ(output.checks(0).gpu_uuid(), "GPU-of-nobody");
  EXPECT_FALSE(output.checks(0).has_compute_capability());
  ASSERT_EQ(output.checks(0).steps_size(), 1);
  EXPECT_EQ(output.checks(0).steps(0).name(), "gpu");
}

TEST_F(ToolchainCommand, RealToolkitSaysWhatItLacks) {
  if (access("/usr/local/cuda/bin/nvcc", X_OK) != 0) {
    GTEST_SKIP() << "no nvcc in /usr/local/cuda";
  }
  // A target of 2014 that no toolkit has had since 12.0.
  const CliResult result =
      Cli({"check", "--toolchain", "--toolkit", "/usr/local/cuda/bin/nvcc",
           "--target", "sm_35"});
  if (result.exit_code == 3) {
    EXPECT_THAT(result.out, HasSubstr("TP114"));
    GTEST_SKIP() << "no sandbox on this machine";
  }
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("TP110"));
  EXPECT_THAT(result.out, HasSubstr("does not list sm_35"));
}

// A GPU that is none (fake_gpu_host.h) and the real nvcc, in the real sandbox:
// everything but what a kernel would do.
class ToolchainOnFakeGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access("/usr/local/cuda/bin/nvcc", X_OK) != 0) {
      GTEST_SKIP() << "no nvcc in /usr/local/cuda";
    }
  }
  // The one check on a host with this GPU.
  static v1::ToolchainCheck Check(const std::string& gpu, int exit_code) {
    const absl::StatusOr<FakeGpuHost> host = FakeGpuHost::Make(gpu);
    if (!host.ok()) {
      // Nothing to look at; the caller skips.
      return {};
    }
    const CliResult result =
        host->Run("twinpath", {"check", "--toolchain", "--toolkit",
                               "/usr/local/cuda", "--format", "json"});
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    v1::ToolchainOutput output;
    EXPECT_THAT(cli::FromJson(result.out, "out", &output), IsOk());
    EXPECT_EQ(output.checks_size(), 1);
    return output.checks_size() == 1 ? output.checks(0) : v1::ToolchainCheck();
  }
};

TEST_F(ToolchainOnFakeGpu, BuiltInspectedAndRunOnBothPaths) {
  const v1::ToolchainCheck check = Check("gpu=9.0,processes=0", 1);
  if (check.steps().empty()) GTEST_SKIP() << "no fake GPU on this machine";
  ASSERT_EQ(check.steps_size(), 8);
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(check.steps(i).reasons().empty()) << check.steps(i).name();
  }
  EXPECT_EQ(check.target().number(), 90u);
  // The CUDA runtime asks that driver for more than it has, and says so.
  EXPECT_EQ(check.steps(6).name(), "native");
  EXPECT_EQ(check.steps(6).exit_code(), 1);
  EXPECT_EQ(check.steps(7).name(), "ptx-jit");
  ASSERT_EQ(check.runs_size(), 2);
  EXPECT_EQ(check.runs(0).sandbox(), "bubblewrap");
  EXPECT_THAT(check.runs(0).stderr().head(), HasSubstr("CUDA error"));
  EXPECT_FALSE(check.holds());
}

TEST_F(ToolchainOnFakeGpu, GpuOlderThanTheToolkitStopsBeforeCompiling) {
  const v1::ToolchainCheck check = Check("gpu=3.5,processes=0", 1);
  if (check.steps().empty()) GTEST_SKIP() << "no fake GPU on this machine";
  ASSERT_EQ(check.steps_size(), 3);
  EXPECT_EQ(check.steps(2).name(), "targets");
  ASSERT_EQ(check.steps(2).reasons_size(), 1);
  EXPECT_EQ(check.steps(2).reasons(0).code(), "TP110");
}

TEST_F(ToolchainOnFakeGpu, FailedQueryStopsBeforeAnyTool) {
  const v1::ToolchainCheck check = Check("gpu=9.0 attribute=999", 3);
  if (check.steps().empty()) GTEST_SKIP() << "no fake GPU on this machine";
  ASSERT_EQ(check.steps_size(), 1);
  EXPECT_EQ(check.steps(0).reasons(0).code(), "TP107");
  EXPECT_FALSE(check.has_compute_capability());
  EXPECT_FALSE(check.has_target());
}

}  // namespace
}  // namespace twinpath::e2e
