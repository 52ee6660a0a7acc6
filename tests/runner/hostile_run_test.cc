// What programs, hosts and users do to a run, through the real runner. Others
// stand where they belong: fork bomb, memory, ignored SIGTERM, daemonised
// children (run_limits_test.cc), output flood, links and FIFOs in place of
// files (run_test.cc), every JIT variable in the parent (environment_test.cc).

#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runner/device_watch.h"
#include "runner/leaks.h"
#include "runner/paths.h"
#include "runner/sequence.h"
#include "tests/runner/run_fixture.h"

namespace twinpath::runner {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// What a CUDA driver does with its cache, as measured on an H200
// (docs/gpu-runs.md): what the cache holds is taken also with compilation
// disabled, unless the cache is off.
constexpr char kDriverWithCache[] = R"(#!/bin/sh
cache=${CUDA_CACHE_PATH:-$HOME/.nv/ComputeCache}
if [ "$CUDA_CACHE_DISABLE" != 1 ] && [ -e "$cache/kernel" ]; then
  echo taken from the cache; exit 0
fi
if [ "$CUDA_DISABLE_PTX_JIT" = 1 ]; then
  echo error 223; exit 1
fi
if [ "$CUDA_CACHE_DISABLE" != 1 ]; then
  mkdir -p "$cache" && echo machine code > "$cache/kernel"
fi
echo compiled
)";

class HostileRun : public RunFixture {
 protected:
  v1::RunRequest Script(const std::string& text,
                        v1::Path path = v1::PATH_PLAIN) {
    EXPECT_THAT(
        WriteFileAtomic(JoinPath(artifact_->path(), "script"), text, 0755),
        IsOk());
    v1::RunRequest request = Request({}, path);
    request.mutable_entry()->set_command(0, "script");
    return request;
  }
  // With a work folder of its own, so that a test may run several.
  v1::Observation RunAnew(v1::RunRequest request) {
    auto work = TempDirectory::Make();
    EXPECT_THAT(work, IsOk());
    request.set_work_directory(work->path());
    return Run(request);
  }
};

class WarmCache : public HostileRun {
 protected:
  void SetUp() override {
    HostileRun::SetUp();
    if (IsSkipped()) return;
    warm_ = JoinPath(artifact_->path(), "warm");
    ASSERT_THAT(MakeDirectories(warm_, 0755), IsOk());
    ASSERT_THAT(WriteFileAtomic(JoinPath(warm_, "kernel"), "code", 0644),
                IsOk());
  }
  std::string warm_;
};

// The hole itself, so that the next test proves something.
TEST_F(WarmCache, PassesWhereOnlyCompilationIsDisabled) {
  v1::RunRequest request = Script(kDriverWithCache, v1::PATH_UNSPECIFIED);
  request.set_bare_environment(true);
  for (const auto& [name, value] :
       {std::pair<std::string, std::string>{"CUDA_DISABLE_PTX_JIT", "1"},
        {"CUDA_CACHE_PATH", warm_}}) {
    v1::EnvironmentVariable& variable = *request.add_experiment_environment();
    variable.set_name(name);
    variable.set_value(value);
  }
  const v1::Observation run = RunAnew(request);
  EXPECT_EQ(run.exit_code(), 0);
  EXPECT_EQ(run.stdout().head(), "taken from the cache\n");
}

TEST_F(WarmCache, DoesNotReachTheNativePath) {
  // Warm wherever a daemon or its user could have left it.
  setenv("CUDA_CACHE_PATH", warm_.c_str(), 1);
  const std::string home = JoinPath(artifact_->path(), "home");
  ASSERT_THAT(MakeDirectories(JoinPath(home, ".nv"), 0755), IsOk());
  ASSERT_EQ(symlink(warm_.c_str(), JoinPath(home, ".nv/ComputeCache").c_str()),
            0);
  const char* before = std::getenv("HOME");
  const std::string old = before == nullptr ? "/" : before;
  setenv("HOME", home.c_str(), 1);
  const v1::Observation native =
      RunAnew(Script(kDriverWithCache, v1::PATH_NATIVE));
  const v1::Observation plain =
      RunAnew(Script(kDriverWithCache, v1::PATH_PLAIN));
  setenv("HOME", old.c_str(), 1);
  unsetenv("CUDA_CACHE_PATH");
  EXPECT_EQ(native.exit_code(), 1);
  EXPECT_EQ(native.stdout().head(), "error 223\n");
  std::vector<std::string> switches;
  for (const v1::EnvironmentVariable& variable : native.environment()) {
    if (IsJitVariable(variable.name())) {
      switches.push_back(absl::StrCat(variable.name(), "=", variable.value()));
    }
  }
  EXPECT_THAT(switches, ::testing::UnorderedElementsAre(
                            "CUDA_DISABLE_PTX_JIT=1", "CUDA_CACHE_DISABLE=1"));
  // And the plain path starts cold, which shows that it compiled.
  EXPECT_EQ(plain.stdout().head(), "compiled\n");
  EXPECT_EQ(plain.cache().files(), 1u);
}

TEST_F(HostileRun, CacheFolderTheProgramDeletesIsNotObserved) {
  for (const char* text :
       {"#!/bin/sh\nrm -r \"$CUDA_CACHE_PATH\"\n",
        "#!/bin/sh\nrm -r \"$CUDA_CACHE_PATH\"; mkdir \"$CUDA_CACHE_PATH\"\n",
        "#!/bin/sh\nmv \"$CUDA_CACHE_PATH\" \"$HOME/elsewhere\"\n",
        "#!/bin/sh\nrm -r \"$CUDA_CACHE_PATH\"; : > \"$CUDA_CACHE_PATH\"\n"}) {
    const v1::Observation run = RunAnew(Script(text));
    ASSERT_EQ(run.ending(), v1::ENDING_EXITED) << run.ShortDebugString();
    // Where the program may not do it, the folder is there and empty.
    if (run.exit_code() == 0) {
      EXPECT_FALSE(run.cache().observed()) << text;
    }
    EXPECT_EQ(run.cache().files(), 0u);
  }
}

TEST_F(HostileRun, ReadOnlyHomeOfTheUserDoesNotMatter) {
  const std::string home = JoinPath(artifact_->path(), "read-only");
  ASSERT_THAT(MakeDirectories(home, 0555), IsOk());
  const char* before = std::getenv("HOME");
  const std::string old = before == nullptr ? "/" : before;
  setenv("HOME", home.c_str(), 1);
  const v1::Observation run = RunAnew(
      Script("#!/bin/sh\necho x > \"$HOME/file\" && cat \"$HOME/file\"\n"));
  setenv("HOME", old.c_str(), 1);
  EXPECT_EQ(run.exit_code(), 0) << run.stderr().head();
  EXPECT_EQ(run.stdout().head(), "x\n");
}

TEST_F(HostileRun, ProgramThatTakesAwayItsOwnFolders) {
  const v1::Observation run =
      RunAnew(Script("#!/bin/sh\nchmod 0 \"$HOME\" \"$CUDA_CACHE_PATH\"\n"
                     "echo done\n"));
  ASSERT_EQ(run.ending(), v1::ENDING_EXITED) << run.ShortDebugString();
  EXPECT_EQ(run.stdout().head(), "done\n");
}

// LD_AUDIT that cannot load, a library to preload that is not there, JIT
// switches and injection: a run has none of them and says nothing of them.
TEST_F(HostileRun, WhatTheRunnersOwnEnvironmentHoldsReachesNoRun) {
  std::vector<std::string> environment;
  std::vector<std::string> names = {"LD_AUDIT",
                                    "LD_PRELOAD",
                                    "LD_BIND_NOW",
                                    "LD_DEBUG",
                                    "CUDA_INJECTION64_PATH",
                                    "NVTX_INJECTION64_PATH",
                                    "CUDA_VISIBLE_DEVICES"};
  for (const absl::string_view name : JitVariables()) {
    names.emplace_back(name);
  }
  std::vector<std::string> seen_as_leaks;
  for (const std::string& name : names) {
    const std::string value =
        absl::StartsWith(name, "LD_") || absl::StrContains(name, "INJECTION")
            ? "/nowhere/audit.so"
            : "1";
    environment.push_back(absl::StrCat(name, "=", value));
    // Not of this process, which has read what concerns its loader already;
    // its children see them.
    if (name != "LD_DEBUG") setenv(name.c_str(), value.c_str(), 1);
  }
  const v1::Observation run = RunAnew(Request({"environment"}));
  for (const std::string& name : names) unsetenv(name.c_str());
  ASSERT_EQ(run.ending(), v1::ENDING_EXITED) << run.ShortDebugString();
  EXPECT_EQ(run.exit_code(), 0);
  EXPECT_EQ(run.stderr().head(), "");
  EXPECT_THAT(run.stdout().head(), Not(HasSubstr("LD_")));
  EXPECT_THAT(run.stdout().head(), Not(HasSubstr("nowhere")));
  EXPECT_THAT(run.stdout().head(), Not(HasSubstr("CUDA_FORCE")));
  EXPECT_THAT(run.stdout().head(), Not(HasSubstr("CUDA_DISABLE")));
  // And doctor finds them.
  for (const v1::EnvironmentLeak& leak : LeaksOfEnvironment(environment)) {
    seen_as_leaks.push_back(leak.variable());
  }
  for (const std::string& name : names) {
    if (name == "LD_BIND_NOW" || name == "LD_DEBUG") continue;
    EXPECT_THAT(seen_as_leaks, ::testing::Contains(name));
  }
}

// Finds the program of a run among this process's descendants; 0: not there.
pid_t FindProgram() {
  const auto names = ListDirectory("/proc");
  if (!names.ok()) return 0;
  for (const std::string& name : *names) {
    int pid = 0;
    if (!absl::SimpleAtoi(name, &pid) || pid == getpid()) continue;
    const auto command =
        ReadFile(absl::StrCat("/proc/", pid, "/cmdline"), 4096);
    if (!command.ok()) continue;
    const std::vector<std::string> words = absl::StrSplit(*command, '\0');
    if (words.size() >= 2 && absl::EndsWith(words[0], kTestProgram) &&
        words[1] == "sleep") {
      return pid;
    }
  }
  return 0;
}

// A tracer holds the dead program, as a driver call that does not return holds
// a dying one: SIGKILL was sent, and it is not gone.
TEST_F(HostileRun, SigkillThatTakesItsTimeIsReportedAndEndsAllTheSame) {
  // So that a tracer that is no ancestor would do, too (Yama).
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  std::atomic<bool> over = false;
  std::atomic<int> held = 0;
  std::string why;
  std::thread tracer([&] {
    pid_t pid = 0;
    while (!over && (pid = FindProgram()) == 0) usleep(10'000);
    if (pid == 0) return;
    if (ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) {
      why = std::strerror(errno);
      return;
    }
    held = pid;
    while (!over) usleep(10'000);
    // Only now its parent may see that it is dead.
    waitpid(pid, nullptr, __WALL);
  });
  v1::RunRequest request = Request({"sleep"});
  request.mutable_entry()->mutable_timeout()->set_seconds(2);
  const v1::Observation run = Run(request);
  over = true;
  tracer.join();
  if (held == 0) GTEST_SKIP() << "the program cannot be traced here: " << why;
  EXPECT_EQ(run.ending(), v1::ENDING_TIMED_OUT) << run.ShortDebugString();
  EXPECT_THAT(run.problem(), AnyOf(StartsWith("hung"), std::string()));
}

// A GPU that falls off the bus while the program runs, which sees nothing of
// it.
TEST_F(HostileRun, FaultOfTheGpuIsSeenBesideTheRun) {
  ProbeOptions probe;
  const char* bin = std::getenv("TWINPATH_BIN_DIR");
  probe.library_directory =
      JoinPath(bin == nullptr ? "." : bin, "fake_drivers/full");
  probe.environment = {
      "TWINPATH_FAKE_NVML=gpu=9.0,processes=0,temperature=55;nvmlXid=79"};
  AttemptHooks hooks;
  hooks.watch = WatchesOf(probe);
  const std::string uuid = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f";
  const v1::CellResult result =
      RunEntry(Request({"exit", "0"}).entry(), {v1::PATH_NATIVE}, {uuid},
               artifact_->path(), hooks);
  ASSERT_GE(result.observations_size(), 1);
  const v1::Observation& run = result.observations(0);
  EXPECT_EQ(run.exit_code(), 0);
  ASSERT_EQ(run.devices().xids_size(), 1) << run.devices().ShortDebugString();
  EXPECT_EQ(run.devices().xids(0).xid(), 79u);
  EXPECT_EQ(run.devices().xids(0).gpu(), uuid);
  EXPECT_EQ(run.devices().before(0).temperature(), 55u);
  EXPECT_EQ(run.devices().after(0).compute_processes(), 0u);
}

}  // namespace
}  // namespace twinpath::runner
