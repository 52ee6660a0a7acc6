// The environment that a run's process really has, seen from inside, with every
// JIT variable exported in the parent.

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runner/paths.h"
#include "tests/runner/run_fixture.h"

namespace twinpath::runner {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class Environment : public RunFixture {
 protected:
  void SetUp() override {
    RunFixture::SetUp();
    if (IsSkipped()) return;
    for (const absl::string_view name : JitVariables()) {
      setenv(std::string(name).c_str(), "1", 1);
    }
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    setenv("CUDA_INJECTION64_PATH", "/nowhere.so", 1);
  }
  void TearDown() override {
    for (const absl::string_view name : JitVariables()) {
      unsetenv(std::string(name).c_str());
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("CUDA_INJECTION64_PATH");
  }

  // The variables every path has.
  std::map<std::string, std::string> Common() const {
    return {{"PATH",
             "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
            {"LANG", "C.UTF-8"},
            {"HOME", JoinPath(work_->path(), "home")},
            {"TMPDIR", "/tmp"},
            {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
            {"CUDA_VISIBLE_DEVICES", "GPU-1234"},
            {"CUDA_LOG_FILE", JoinPath(work_->path(), "driver.log")}};
  }

  // Runs and compares what the process saw with Common() and `more`.
  void ExpectVariables(v1::Path path, bool jit_proof,
                       const std::map<std::string, std::string>& more) {
    v1::RunRequest request = Request({"environment"}, path);
    request.set_jit_proof(jit_proof);
    request.add_gpu_uuids("GPU-1234");
    ExpectVariables(request, more);
  }
  void ExpectVariables(const v1::RunRequest& request,
                       const std::map<std::string, std::string>& more) {
    const v1::Observation run = Run(request);
    ASSERT_EQ(run.ending(), v1::ENDING_EXITED) << run.ShortDebugString();
    std::vector<std::string> seen =
        absl::StrSplit(run.stdout().head(), '\n', absl::SkipEmpty());
    std::sort(seen.begin(), seen.end());
    std::map<std::string, std::string> variables = Common();
    for (const auto& [name, value] : more) variables[name] = value;
    std::vector<std::string> expected;
    for (const auto& [name, value] : variables) {
      expected.push_back(absl::StrCat(name, "=", value));
    }
    std::sort(expected.begin(), expected.end());
    EXPECT_THAT(seen, ElementsAreArray(expected));
    std::vector<std::string> recorded;
    for (const v1::EnvironmentVariable& variable : run.environment()) {
      recorded.push_back(absl::StrCat(variable.name(), "=", variable.value()));
    }
    std::sort(recorded.begin(), recorded.end());
    EXPECT_THAT(recorded, ElementsAreArray(expected));
  }
};

TEST_F(Environment, NativeForbidsCompilingAndTheCache) {
  ExpectVariables(v1::PATH_NATIVE, false,
                  {{"CUDA_DISABLE_PTX_JIT", "1"}, {"CUDA_CACHE_DISABLE", "1"}});
}

TEST_F(Environment, PtxJitForcesCompilingWithoutTheCache) {
  ExpectVariables(v1::PATH_PTX_JIT, false,
                  {{"CUDA_FORCE_PTX_JIT", "1"}, {"CUDA_CACHE_DISABLE", "1"}});
}

TEST_F(Environment, JitProofHasAnEmptyCacheInsteadOfTheSwitch) {
  ExpectVariables(v1::PATH_PTX_JIT, true,
                  {{"CUDA_FORCE_PTX_JIT", "1"},
                   {"CUDA_CACHE_PATH", JoinPath(work_->path(), "cache")}});
}

TEST_F(Environment, PlainHasNothingButAnEmptyCache) {
  ExpectVariables(v1::PATH_PLAIN, false,
                  {{"CUDA_CACHE_PATH", JoinPath(work_->path(), "cache")}});
}

TEST_F(Environment, HoldsTheEntrysOwnVariables) {
  v1::RunRequest request = Request({"environment"});
  request.add_gpu_uuids("GPU-1234");
  v1::EnvironmentVariable& own = *request.mutable_entry()->add_environment();
  own.set_name("MODEL");
  own.set_value("large\nname");
  const v1::Observation run = Run(request);
  EXPECT_THAT(run.stdout().head(), HasSubstr("MODEL=large\nname\n"));
}

TEST_F(Environment, BareHoldsOnlyTheExperimentsVariables) {
  v1::RunRequest request = Request({"environment"}, v1::PATH_UNSPECIFIED);
  request.set_bare_environment(true);
  request.add_gpu_uuids("GPU-1234");
  v1::EnvironmentVariable& variable = *request.add_experiment_environment();
  variable.set_name("CUDA_FORCE_JIT");
  variable.set_value("1");
  ExpectVariables(request, {{"CUDA_FORCE_JIT", "1"}});
}

TEST_F(Environment, AnEntryMayNotSetASwitch) {
  v1::RunRequest request = Request({"environment"});
  v1::EnvironmentVariable& own = *request.mutable_entry()->add_environment();
  own.set_name("CUDA_FORCE_PTX_JIT");
  own.set_value("0");
  const v1::Observation run = Run(request);
  EXPECT_EQ(run.ending(), v1::ENDING_NOT_STARTED);
  EXPECT_THAT(run.problem(), HasSubstr("CUDA_FORCE_PTX_JIT"));
}

}  // namespace
}  // namespace twinpath::runner
