// How often the model answers `unknown` for five real libraries, on all GPUs
// of the tables with all drivers a host with such a GPU can have. The libraries
// are kept as what their fatbins hold (data/libraries), as `inspect` reported.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "compat/predict.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

struct Kept {
  std::string name;
  bool arm = false;
  v1::ArtifactReport report;
};

Kept Load(const std::string& name) {
  Kept library;
  library.name = name;
  const auto text =
      ReadFile(absl::StrCat(std::getenv("TWINPATH_SOURCE_DIR"),
                            "/tests/compat/data/libraries/", name, ".txt"),
               1 << 20);
  EXPECT_TRUE(text.ok()) << text.status();
  if (!text.ok()) return library;
  std::vector<std::string> fatbins;
  std::vector<std::string> ways;
  uint32_t cudart = 0;
  std::string compiler;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::MaxSplits(' ', 2));
    if (words[0] == "cpu") {
      library.arm = words[1] == "aarch64";
    } else if (words[0] == "cudart") {
      EXPECT_TRUE(absl::SimpleAtoi(words[1], &cudart));
    } else if (words[0] == "compiler") {
      compiler = std::string(words[1]);
    } else {
      uint32_t count = 0;
      EXPECT_TRUE(absl::SimpleAtoi(words[0], &count)) << line;
      for (uint32_t i = 0; i < count; ++i) {
        fatbins.emplace_back(words[2]);
        ways.emplace_back(words[1]);
      }
    }
  }
  v1::FileReport file = MakeFile(name, fatbins);
  for (int i = 0; i < file.fatbins_size(); ++i) {
    const std::string& way = ways[static_cast<size_t>(i)];
    v1::Fatbin& fatbin = *file.mutable_fatbins(i);
    fatbin.set_bare(way == "bare");
    if (way != "reg") {
      fatbin.set_registration(v1::REGISTRATION_SELF_LOADED);
    }
  }
  file.mutable_elf()->set_cpu_architecture(
      library.arm ? v1::CPU_ARCHITECTURE_AARCH64 : v1::CPU_ARCHITECTURE_X86_64);
  if (cudart != 0) file.mutable_elf()->mutable_cudart()->set_major(cudart);
  if (!compiler.empty()) {
    v1::RuntimeCompiler& uses = *file.add_runtime_compilers();
    uses.set_name(compiler);
    uses.set_evidence("libnvrtc.so.13");
  }
  *library.report.add_files() = std::move(file);
  return library;
}

// Hosts for a CPU: every GPU that is a product, on every branch; Tegra parts
// are in AArch64 boards alone, and their CUDA versions are JetPack's.
std::vector<std::string> HostsFor(bool arm) {
  const std::map<uint32_t, std::vector<std::string>> jetpack = {
      {53, {"10.2"}},
      {62, {"10.2"}},
      {72, {"10.2", "11.4", "12.2"}},
      {87, {"11.4", "12.2", "12.6", "12.9", "13.2", "13.4"}},
      {110, {"13.0", "13.2", "13.4"}}};
  std::vector<std::string> hosts;
  for (const GpuRow& gpu : TestTables().gpus()) {
    if (gpu.renamed_to != 0 || gpu.products.empty()) continue;
    const std::string device =
        absl::StrCat(gpu.number / 10, ".", gpu.number % 10);
    if (gpu.tegra()) {
      const auto it = jetpack.find(gpu.number);
      if (!arm || it == jetpack.end()) continue;
      for (const std::string& cuda : it->second) {
        hosts.push_back(absl::StrCat(device, " CUDA", cuda, " aarch64 tegra"));
      }
      continue;
    }
    for (const DriverRow& driver : TestTables().drivers()) {
      hosts.push_back(
          absl::StrCat(device, " R", driver.branch, arm ? " aarch64" : ""));
    }
  }
  return hosts;
}

TEST(UnknownRate, OfFiveLibrariesIsAtMostThreePercent) {
  size_t all = 0;
  size_t unknown = 0;
  for (const char* name :
       {"libtorch_cuda.so", "libcublasLt.so.13", "libcufft.so.12",
        "libnccl.so.2", "libcudnn_engines_precompiled.so.9"}) {
    const Kept library = Load(name);
    ASSERT_GT(library.report.files_size(), 0);
    const Predictor predictor(library.report);
    PredictOptions options;
    options.max_kernels = 0;
    size_t here = 0;
    size_t unknown_here = 0;
    for (const std::string& words : HostsFor(library.arm)) {
      const v1::HostFacts facts = FakeHost(words);
      const v1::Prediction prediction =
          predictor.Predict(facts, facts.gpus(0), TestTables(), options);
      for (const v1::PathPrediction& path : prediction.paths()) {
        ++here;
        if (path.outcome() != v1::OUTCOME_UNKNOWN) continue;
        ++unknown_here;
        EXPECT_FALSE(path.settled_by().empty()) << name << " on " << words;
      }
    }
    all += here;
    unknown += unknown_here;
    RecordProperty(absl::StrCat("unknown_", name),
                   absl::StrCat(unknown_here, " of ", here));
    std::printf("%s: unknown %zu of %zu\n", name, unknown_here, here);
  }
  std::printf("all: unknown %zu of %zu, %.2f %%\n", unknown, all,
              100.0 * static_cast<double>(unknown) / static_cast<double>(all));
  EXPECT_LE(unknown * 100, all * 3) << unknown << " of " << all;
}

}  // namespace
}  // namespace twinpath::compat
