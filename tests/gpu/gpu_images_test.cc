// gpu_images against a driver that is none: equal answers pass, a wrong one and
// a dying driver are named.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace twinpath::gpu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFacts[] = R"({
  "cpuArchitecture": "CPU_ARCHITECTURE_X86_64",
  "driver": {
    "kernelModuleVersion": "580.95.05", "branch": "R580",
    "cudaVersion": {"major": 13},
    "probe": {"state": "PROBE_STATE_OK"},
    "jitLibrary": {"state": "PROBE_STATE_OK"},
    "ptxIsaProbe": {"state": "PROBE_STATE_OK"},
    "ptxIsaCeiling": {"major": 9}},
  "gpuProbe": {"state": "PROBE_STATE_OK"},
  "gpus": [{"uuid": "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", "name": "NVIDIA Fake",
            "computeCapability": {"major": 9},
            "capabilityProbe": {"state": "PROBE_STATE_OK"}}]})";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class GpuImages : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TempDirectory::Make();
    ASSERT_TRUE(folder.ok()) << folder.status();
    folder_ = std::make_unique<TempDirectory>(*std::move(folder));
    facts_ = JoinPath(folder_->path(), "facts.json");
    ASSERT_TRUE(WriteFileAtomic(facts_, kFacts, 0644).ok());
  }

  ProcessResult Run(const std::string& mode,
                    const std::vector<std::string>& files) {
    const std::string bin = Environment("TWINPATH_BIN_DIR");
    ProcessOptions options;
    options.argv = {JoinPath(bin, "gpu_images"),
                    "--facts",
                    facts_,
                    "--workers",
                    "2",
                    "--seconds",
                    "240",
                    "--json",
                    JoinPath(folder_->path(), "out.json")};
    for (const std::string& file : files) options.argv.push_back(file);
    options.environment = {
        absl::StrCat("LD_LIBRARY_PATH=",
                     JoinPath(bin, "fake_drivers/cuda-only")),
        absl::StrCat("TWINPATH_LIBEXEC=", bin),
        absl::StrCat("TWINPATH_TABLES=", Environment("TWINPATH_SOURCE_DIR"),
                     "/compat/tables"),
        absl::StrCat("TWINPATH_FAKE_CUDA=gpu=9.0,memory=8192 ", mode)};
    options.timeout = absl::Seconds(300);
    const auto ran = RunProcess(options);
    EXPECT_TRUE(ran.ok()) << ran.status();
    return ran.ok() ? *ran : ProcessResult();
  }

  // Variants of the check program that the build made; empty without nvcc.
  std::vector<std::string> Kernels() {
    std::vector<std::string> found;
    const std::string kernels =
        JoinPath(Environment("TWINPATH_BIN_DIR"), "../kernels");
    for (const char* name :
         {"full/check", "sass-only/check", "ptx-only/check", "plain/check",
          "newer-gpu-only/check", "silent/silent"}) {
      const std::string path = JoinPath(kernels, name);
      if (access(path.c_str(), R_OK) == 0) found.push_back(path);
    }
    return found;
  }

  std::unique_ptr<TempDirectory> folder_;
  std::string facts_;
};

TEST_F(GpuImages, EqualAnswersPass) {
  const std::vector<std::string> files = Kernels();
  if (files.empty()) GTEST_SKIP() << "no nvcc: no check programs";
  const ProcessResult ran = Run("", files);
  EXPECT_EQ(ran.exit_code, 0) << ran.out.head << ran.err.head;
  EXPECT_THAT(ran.out.head, HasSubstr("NVIDIA Fake, compute capability 9.0"));
  EXPECT_THAT(ran.out.head, Not(HasSubstr("different | ")));
}

TEST_F(GpuImages, ADyingDriverIsNamedAndTheRestStillTried) {
  const std::vector<std::string> files = Kernels();
  if (files.empty()) GTEST_SKIP() << "no nvcc: no check programs";
  const ProcessResult ran = Run("image:sm_90=crash", {files[0]});
  EXPECT_THAT(ran.out.head, HasSubstr("died"));
  EXPECT_THAT(ran.out.head, HasSubstr("signal 6"));
  EXPECT_THAT(ran.out.head, HasSubstr("| native |"));
}

TEST_F(GpuImages, ADriverThatDoesNotStart) {
  const std::vector<std::string> files = Kernels();
  if (files.empty()) GTEST_SKIP() << "no nvcc: no check programs";
  const ProcessResult ran = Run("cuInit=999", {files[0]});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.err.head, HasSubstr("the driver does not start"));
}

// A real library: every kind of target, PTX for newer GPUs, sm_90a.
TEST_F(GpuImages, ALibrary) {
  std::string library;
  for (const char* folder : {"/usr/local/cuda/lib64", "/usr/local/cuda/lib",
                             "/usr/lib/x86_64-linux-gnu"}) {
    const std::string path = JoinPath(folder, "libcublas.so.13");
    if (access(path.c_str(), R_OK) == 0) library = path;
  }
  if (library.empty()) GTEST_SKIP() << "libcublas.so.13 is not installed";
  const ProcessResult ran = Run("", {library});
  EXPECT_EQ(ran.exit_code, 0) << ran.out.head << ran.err.head;
}

TEST_F(GpuImages, AWrongAnswerIsADifference) {
  const std::string library = "/usr/local/cuda/lib64/libcublasLt.so.13";
  if (access(library.c_str(), R_OK) != 0) {
    GTEST_SKIP() << library << " is not installed";
  }
  const ProcessResult ran = Run("image:sm_90a=209", {library});
  EXPECT_EQ(ran.exit_code, 1) << ran.out.head << ran.err.head;
  EXPECT_THAT(ran.out.head, HasSubstr("| different | sm_90a"));
}

}  // namespace
}  // namespace twinpath::gpu
