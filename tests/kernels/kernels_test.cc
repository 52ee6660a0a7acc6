// The CUDA programs on a machine without a driver: each must fail honestly, but
// for the one whose point is that it does not. With a driver tests/gpu says
// what they do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/file.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"

namespace twinpath {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Kernels : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("TWINPATH_KERNELS_DIR");
    if (folder == nullptr ||
        access(JoinPath(folder, "full/check").c_str(), X_OK) != 0) {
      GTEST_SKIP() << "no nvcc when this was configured: kernels are not built";
    }
    folder_ = folder;
  }

  // Runs a program of a variant, or skips where it could reach a GPU.
  ProcessResult Run(const std::string& program) {
    ProcessOptions options;
    options.argv = {JoinPath(folder_, program)};
    options.environment = MinimalEnvironment();
    options.environment.push_back("CUDA_VISIBLE_DEVICES=");
    options.timeout = absl::Minutes(2);
    const auto result = RunProcess(options);
    EXPECT_THAT(result, IsOk());
    return result.ok() ? *result : ProcessResult();
  }

  std::string folder_;
};

TEST_F(Kernels, CapabilityPrintsNoNumberWhenTheQueryFails) {
  const ProcessResult result = Run("capability/capability");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out.head, "");
  // 35 without a driver, 100 with one whose devices are hidden.
  EXPECT_THAT(result.err.head, HasSubstr("error: cudaGetDeviceCount: CUDA"));
}

TEST_F(Kernels, CheckSaysWhatFailedAndNeverPass) {
  for (const char* variant :
       {"full", "sass-only", "ptx-only", "plain", "newer-gpu-only"}) {
    const ProcessResult result = Run(std::string(variant) + "/check");
    EXPECT_EQ(result.exit_code, 1) << variant;
    EXPECT_EQ(result.out.head, "") << variant;
    EXPECT_THAT(result.err.head, HasSubstr("CUDA error ")) << variant;
    EXPECT_THAT(result.err.head, Not(HasSubstr("PASS"))) << variant;
  }
}

TEST_F(Kernels, GuardedFailsAsCheckDoes) {
  const ProcessResult result = Run("guarded/guarded");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out.head, "");
}

TEST_F(Kernels, SilentClaimsSuccess) {
  const ProcessResult result = Run("silent/silent");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out.head, "no error\nvalue 0\n");
}

TEST_F(Kernels, CommandOfEachVariantIsKept) {
  const auto full = ReadFile(JoinPath(folder_, "full/check.command"), 64 << 10);
  ASSERT_THAT(full, IsOk());
  EXPECT_THAT(*full, HasSubstr("nvcc "));
  EXPECT_THAT(*full, HasSubstr("-gencode arch=compute_120,code=sm_120"));
  EXPECT_THAT(*full, HasSubstr("-gencode arch=compute_75,code=compute_75"));
  const auto plain =
      ReadFile(JoinPath(folder_, "plain/check.command"), 64 << 10);
  ASSERT_THAT(plain, IsOk());
  EXPECT_THAT(*plain, Not(HasSubstr("-gencode")));
}

}  // namespace
}  // namespace twinpath
