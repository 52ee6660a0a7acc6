// Installed CUDA libraries, inspected and predicted: none may be red on a GPU
// it supports. Skips by name what is not installed.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "compat/predict.h"
#include "compat/reason.h"
#include "inspect/inspect.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

std::string FindLibrary(const std::string& name) {
  std::vector<std::string> folders = {
      "/usr/local/cuda/lib64", "/usr/local/cuda/lib",
      "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"};
  if (const char* home = std::getenv("CUDA_HOME")) {
    folders.insert(folders.begin(), absl::StrCat(home, "/lib64"));
  }
  for (const std::string& folder : folders) {
    const std::string path = JoinPath(folder, name);
    if (OpenRegularFile(path).ok()) return path;
  }
  return "";
}

struct Library {
  const char* name;
  // Size of the release for which gaps were counted with other means: fatbins
  // with nothing for 9.0 and for 12.1 (docs/gpu-runs.md). 0: not counted.
  uint64_t bytes = 0;
  int gaps_90 = 0;
  int gaps_121 = 0;
};

void PrintTo(const Library& library, std::ostream* out) {
  *out << library.name;
}

class Libraries : public ::testing::TestWithParam<Library> {};

TEST_P(Libraries, AreNotRedOnGpusTheySupport) {
  const std::string path = FindLibrary(GetParam().name);
  if (path.empty()) GTEST_SKIP() << GetParam().name << " is not installed";
  auto fd = OpenRegularFile(path);
  ASSERT_TRUE(fd.ok()) << fd.status();
  inspect::InspectOptions options;
  options.digest = false;
  auto file = inspect::InspectDescriptor(fd->get(), GetParam().name, options);
  ASSERT_TRUE(file.ok()) << file.status();
  v1::ArtifactReport report;
  *report.add_files() = *std::move(file);
  const bool arm =
      report.files(0).elf().cpu_architecture() == v1::CPU_ARCHITECTURE_AARCH64;
  const Predictor predictor(report);
  for (const char* capability :
       {"7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1"}) {
    const v1::HostFacts facts =
        FakeHost(absl::StrCat(capability, " R580", arm ? " aarch64" : ""));
    const v1::Prediction prediction =
        predictor.Predict(facts, facts.gpus(0), TestTables());
    const v1::PathPrediction& native = prediction.paths(0);
    const v1::PathPrediction& plain = prediction.paths(2);
    std::string reasons;
    for (const v1::Reason& reason : plain.reasons()) {
      absl::StrAppend(&reasons, "\n    ", DescribeReason(reason));
    }
    EXPECT_EQ(native.outcome(), v1::OUTCOME_NATIVE) << capability << reasons;
    EXPECT_TRUE(plain.outcome() == v1::OUTCOME_NATIVE ||
                plain.outcome() == v1::OUTCOME_JIT)
        << capability << reasons;
    if (report.files(0).size_bytes() == GetParam().bytes) {
      const std::string name = capability;
      if (name == "9.0") {
        EXPECT_EQ(prediction.files(0).gaps_size(), GetParam().gaps_90);
      }
      if (name == "12.1") {
        EXPECT_EQ(prediction.files(0).gaps_size(), GetParam().gaps_121);
      }
    }
    // Their gaps are deliberate, never "forgotten".
    EXPECT_FALSE(HasReason(plain, "TP221")) << capability << reasons;
    RecordProperty(absl::StrCat("answers_", capability), Answers(prediction));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Installed, Libraries,
    ::testing::Values(
        Library{"libcublas.so.13", 54177976, 2, 1},
        Library{"libcublasLt.so.13"}, Library{"libcudnn_ops.so.9"},
        Library{"libcudnn_adv.so.9"}, Library{"libcudnn_cnn.so.9"},
        Library{"libcudnn_engines_precompiled.so.9"},
        Library{"libcudnn_engines_runtime_compiled.so.9"},
        Library{"libnccl.so.2", 217995896, 4, 4}, Library{"libcufft.so.12"},
        Library{"libcusparse.so.12"}, Library{"libcusolver.so.12"},
        Library{"libcurand.so.10"}));

}  // namespace
}  // namespace twinpath::compat
