#include "runner/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/status_matchers.h"

namespace twinpath::runner {
namespace {

using ::testing::HasSubstr;

v1::Entry EntryWith(const std::string& name, const std::string& value) {
  v1::Entry entry;
  entry.set_name("e");
  v1::EnvironmentVariable& variable = *entry.add_environment();
  variable.set_name(name);
  variable.set_value(value);
  return entry;
}

TEST(Paths, SevenVariablesSteerTheJit) {
  EXPECT_EQ(JitVariables().size(), 7u);
  EXPECT_TRUE(IsJitVariable("CUDA_CACHE_MAXSIZE"));
  EXPECT_FALSE(IsJitVariable("CUDA_VISIBLE_DEVICES"));
}

TEST(Paths, EntryMayNotSetWhatDecidesTheRun) {
  for (const char* name :
       {"LD_PRELOAD", "LD_LIBRARY_PATH", "CUDA_DISABLE_JIT", "CUDA_CACHE_PATH",
        "CUDA_VISIBLE_DEVICES", "CUDA_LOG_FILE", "CUDA_INJECTION64_PATH",
        "TWINPATH_TRACE_FOLDER", "HOME", "CUDA_MODULE_LOADING"}) {
    EXPECT_THAT(CheckEntryEnvironment(EntryWith(name, "x")),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(name)));
  }
  EXPECT_THAT(CheckEntryEnvironment(EntryWith("OMP_NUM_THREADS", "4")), IsOk());
}

TEST(Paths, EntryVariablesNeedNames) {
  for (const char* name : {"", "1A", "A B", "A=B"}) {
    EXPECT_THAT(CheckEntryEnvironment(EntryWith(name, "x")),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(CheckEntryEnvironment(EntryWith("A", std::string("x\0y", 3))),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// A GPU is named by who asks, unsigned: a zero byte in the name would end
// CUDA_VISIBLE_DEVICES and begin a variable of the caller's choice.
TEST(Paths, AGpusNameBecomesNoOtherVariable) {
  using std::string_literals::operator""s;
  for (const std::string& uuid :
       {"GPU-1\0LD_PRELOAD=/tmp/x.so"s, "GPU-1\0"s, ""s, "GPU-1,GPU-2"s,
        "GPU-1\nA=B"s, "GPU=1"s, "GPU 1"s, "GPU-\xc3\xa9"s,
        std::string(200, 'G')}) {
    v1::RunRequest request;
    request.set_path(v1::PATH_NATIVE);
    request.add_gpu_uuids("GPU-0");
    request.add_gpu_uuids(uuid);
    EXPECT_THAT(RunEnvironment(request, {}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("TP106 no-gpu")));
  }
  v1::RunRequest request;
  request.set_path(v1::PATH_NATIVE);
  request.add_gpu_uuids("GPU-0f1e2d3c-0000-1111-2222-333344445555");
  // MIG instances, with an R470 driver and before.
  request.add_gpu_uuids("MIG-0f1e2d3c-0000-1111-2222-333344445555");
  request.add_gpu_uuids("MIG-GPU-0f1e2d3c-0000-1111-2222-333344445555/13/0");
  EXPECT_THAT(RunEnvironment(request, {}), IsOk());
}

TEST(Paths, NoVariableHoldsAZeroByte) {
  using std::string_literals::operator""s;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{
           {"A", "x\0LD_PRELOAD=y"s},
           {"A\0B"s, "x"},
           {"A=B", "x"},
           {"", "x"}}) {
    v1::RunRequest request;
    request.set_path(v1::PATH_NATIVE);
    v1::EnvironmentVariable& variable = *request.add_experiment_environment();
    variable.set_name(name);
    variable.set_value(value);
    EXPECT_THAT(RunEnvironment(request, {}),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  v1::RunRequest request;
  request.set_path(v1::PATH_PLAIN);
  RunFolders folders;
  folders.cache = "/x\0LD_PRELOAD=y"s;
  EXPECT_THAT(RunEnvironment(request, folders),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Paths, ExperimentVariablesComeOnTopOfThePath) {
  v1::RunRequest request;
  request.set_path(v1::PATH_NATIVE);
  v1::EnvironmentVariable& warm = *request.add_experiment_environment();
  warm.set_name("CUDA_CACHE_PATH");
  warm.set_value("/warm");
  const auto environment = RunEnvironment(request, {});
  ASSERT_THAT(environment, IsOk());
  int found = 0;
  for (const v1::EnvironmentVariable& variable : *environment) {
    found +=
        variable.name() == "CUDA_CACHE_PATH" && variable.value() == "/warm";
    found += variable.name() == "CUDA_CACHE_DISABLE" && variable.value() == "1";
    found += variable.name() == "CUDA_DISABLE_PTX_JIT";
  }
  EXPECT_EQ(found, 3);
}

TEST(Paths, UnknownPathIsRefused) {
  EXPECT_THAT(RunEnvironment(v1::RunRequest(), {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Paths, TimeLimits) {
  v1::Entry entry;
  EXPECT_EQ(TimeLimit(entry, v1::PATH_NATIVE), absl::Seconds(60));
  EXPECT_EQ(TimeLimit(entry, v1::PATH_PLAIN), absl::Seconds(60));
  // Ten times the native limit, but no less than 15 minutes.
  EXPECT_EQ(TimeLimit(entry, v1::PATH_PTX_JIT), absl::Minutes(15));
  entry.mutable_timeout()->set_seconds(600);
  EXPECT_EQ(TimeLimit(entry, v1::PATH_PTX_JIT), absl::Seconds(6000));
  entry.mutable_jit_timeout()->set_seconds(5);
  EXPECT_EQ(TimeLimit(entry, v1::PATH_PTX_JIT), absl::Seconds(5));
  EXPECT_EQ(TimeLimit(entry, v1::PATH_NATIVE), absl::Seconds(600));
}

}  // namespace
}  // namespace twinpath::runner
