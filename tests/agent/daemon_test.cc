// The installed program: its options, its signals, what it is linked with, and
// what is left when it is killed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"
#include "runner/paths.h"
#include "tests/agent/fake_coordinator.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

using Kind = v1::AgentMessage;

std::string AgentProgram() {
  const char* folder = std::getenv("TWINPATH_BIN_DIR");
  return JoinPath(folder == nullptr ? "." : folder, "twinpath-agent");
}

// A running agent; killed when this dies.
class Daemon {
 public:
  Daemon(const std::vector<std::string>& arguments,
         std::vector<std::string> environment) {
    std::vector<std::string> argv = {AgentProgram()};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const auto pointers = [](std::vector<std::string>& words) {
      std::vector<char*> all;
      for (std::string& word : words) all.push_back(word.data());
      all.push_back(nullptr);
      return all;
    };
    // Not fork: this process has gRPC's threads.
    EXPECT_EQ(posix_spawn(&pid_, argv[0].c_str(), nullptr, nullptr,
                          pointers(argv).data(), pointers(environment).data()),
              0);
  }
  ~Daemon() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
  }
  pid_t pid() const { return pid_; }
  void Signal(int number) { kill(pid_, number); }
  // Waits for its end: exit code, or minus the signal.
  int Wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

class DaemonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(AgentProgram().c_str(), X_OK) != 0) {
      GTEST_SKIP() << "no twinpath-agent in TWINPATH_BIN_DIR";
    }
    Spit(JoinPath(temp_.path(), "token"), "token-1\n");
  }
  std::vector<std::string> Arguments(const std::string& state = "state") const {
    return {"--state",           JoinPath(temp_.path(), state),
            "--coordinator",     coordinator_.address(),
            "--join-token-file", JoinPath(temp_.path(), "token"),
            "--simulate",        "dgx-spark",
            "--host-name",       "sim-1"};
  }
  static std::vector<std::string> Environment(
      std::vector<std::string> more = {}) {
    more.push_back("PATH=/usr/bin:/bin");
    return more;
  }
  v1::Lease Lease(const std::string& cell) {
    v1::Lease lease;
    lease.set_id("lease-" + cell);
    lease.set_cell_id(cell);
    EXPECT_TRUE(coordinator_.AwaitCount(Kind::kFacts, 1));
    lease.set_gpu_uuid(
        coordinator_.Kind(Kind::kFacts)[0].facts().gpus(0).uuid());
    lease.mutable_start_within()->set_seconds(600);
    lease.add_paths(v1::PATH_NATIVE);
    return lease;
  }
  absl::StatusOr<ProcessResult> Run(std::vector<std::string> arguments) {
    ProcessOptions options;
    options.argv = {AgentProgram()};
    options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
    options.environment = Environment();
    options.timeout = absl::Minutes(2);
    return RunProcess(options);
  }

  const TempDirectory temp_ = MakeTemp();
  FakeCoordinator coordinator_;
};

TEST_F(DaemonTest, SigtermEndsItCleanly) {
  Daemon daemon(Arguments(), Environment());
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kHeartbeat, 1));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

// I11: no driver library, and no way to load one.
TEST_F(DaemonTest, LoadsNoDriverLibrary) {
  Daemon daemon(Arguments(), Environment());
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kFacts, 1));
  std::ifstream file(absl::StrCat("/proc/", daemon.pid(), "/maps"));
  std::stringstream maps;
  maps << file.rdbuf();
  EXPECT_THAT(maps.str(), HasSubstr("twinpath-agent"));
  EXPECT_THAT(maps.str(), Not(AnyOf(HasSubstr("libcuda"), HasSubstr("nvidia"),
                                    HasSubstr("libnvml"))));
  ProcessOptions options;
  options.argv = {"readelf", "--wide", "--dynamic", "--dyn-syms",
                  AgentProgram()};
  options.environment = Environment();
  options.head_bytes = 16 << 20;
  const absl::StatusOr<ProcessResult> elf = RunProcess(options);
  if (!elf.ok()) GTEST_SKIP() << "readelf (binutils) is not installed";
  EXPECT_THAT(elf->out.head, HasSubstr("(NEEDED)"));
  EXPECT_THAT(elf->out.head,
              Not(AnyOf(HasSubstr("libcuda"), HasSubstr("libnvidia"))));
  EXPECT_THAT(elf->out.head, Not(HasSubstr(" dlopen")));
}

// I9: switches in its own environment are a finding of the host.
TEST_F(DaemonTest, ReportsSwitchesSetInItsEnvironment) {
  Daemon daemon(Arguments(),
                Environment({"CUDA_FORCE_PTX_JIT=1", "CUDA_CACHE_DISABLE=0"}));
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kFacts, 1));
  std::vector<std::string> leaks;
  const v1::HostFacts facts = coordinator_.Kind(Kind::kFacts)[0].facts();
  for (const v1::EnvironmentLeak& leak : facts.leaks()) {
    if (leak.origin() == "process") leaks.push_back(leak.variable());
  }
  EXPECT_THAT(leaks, Contains("CUDA_FORCE_PTX_JIT"));
  EXPECT_THAT(leaks, Not(Contains("CUDA_CACHE_DISABLE")));
}

// All of them at once, and an auditor that the loader cannot load.
TEST_F(DaemonTest, ReportsEverySwitchOfItsEnvironment) {
  std::vector<std::string> environment = {"LD_AUDIT=/nowhere/audit.so",
                                          "LD_PRELOAD=/nowhere/preload.so"};
  std::vector<std::string> names = {"LD_AUDIT", "LD_PRELOAD"};
  for (const absl::string_view name : runner::JitVariables()) {
    environment.push_back(absl::StrCat(name, "=1"));
    names.emplace_back(name);
  }
  Daemon daemon(Arguments(), Environment(environment));
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kFacts, 1));
  std::vector<std::string> leaks;
  const v1::HostFacts facts = coordinator_.Kind(Kind::kFacts)[0].facts();
  for (const v1::EnvironmentLeak& leak : facts.leaks()) {
    if (leak.origin() == "process") leaks.push_back(leak.variable());
  }
  EXPECT_THAT(leaks, ::testing::IsSupersetOf(names));
}

// The host's owner has the last word: no leases, said at once, and over a
// restart.
TEST_F(DaemonTest, PauseIsToldAtOnceAndHoldsOverARestart) {
  const auto refusals = [this] {
    std::vector<std::string> reasons;
    for (const v1::AgentMessage& message :
         coordinator_.Kind(Kind::kHeartbeat)) {
      reasons.push_back(message.heartbeat().refuses_leases()
                            ? message.heartbeat().refusal_reason()
                            : "");
    }
    return reasons;
  };
  const std::string state = JoinPath(temp_.path(), "state");
  {
    Daemon daemon(Arguments(), Environment());
    ASSERT_TRUE(coordinator_.AwaitCount(Kind::kFacts, 1));
    ASSERT_TRUE(coordinator_.AwaitCount(Kind::kHeartbeat, 1));
    const auto paused =
        Run({"pause", "--state", state, "--for", "2h", "training", "run"});
    ASSERT_THAT(paused, IsOk());
    EXPECT_EQ(paused->exit_code, 0) << paused->err.head;
    EXPECT_THAT(paused->out.head, HasSubstr("training run"));
    ASSERT_TRUE(coordinator_.AwaitCount(Kind::kFacts, 2));
    EXPECT_TRUE(coordinator_.Kind(Kind::kFacts)[1].facts().paused());
    ASSERT_TRUE(coordinator_.AwaitCount(Kind::kHeartbeat, 2));
    EXPECT_THAT(refusals().back(), HasSubstr("TP138 host-paused"));
    EXPECT_THAT(refusals().back(), HasSubstr("training run"));
  }
  const size_t before = coordinator_.Kind(Kind::kFacts).size();
  Daemon daemon(Arguments(), Environment());
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kFacts, before + 1));
  EXPECT_TRUE(coordinator_.Kind(Kind::kFacts)[before].facts().paused());
  const auto resumed = Run({"resume", "--state", state});
  ASSERT_THAT(resumed, IsOk());
  EXPECT_EQ(resumed->out.head, "resumed\n");
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kFacts, before + 2));
  EXPECT_FALSE(coordinator_.Kind(Kind::kFacts)[before + 1].facts().paused());
}

TEST_F(DaemonTest, PauseThatCannotBeMadeIsSaid) {
  const auto nowhere = Run({"--state", "/nonexistent/state", "pause"});
  ASSERT_THAT(nowhere, IsOk());
  EXPECT_EQ(nowhere->exit_code, 2);
  EXPECT_THAT(nowhere->err.head, HasSubstr("--state"));
  const auto length =
      Run({"--state", temp_.path(), "pause", "--for", "tomorrow"});
  ASSERT_THAT(length, IsOk());
  EXPECT_EQ(length->exit_code, 2);
  EXPECT_THAT(length->err.head, HasSubstr("no length of time"));
}

TEST_F(DaemonTest, ASecondAgentIsKeptOutOfTheStateFolder) {
  Daemon daemon(Arguments(), Environment());
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kFacts, 1));
  const auto second = Run(Arguments());
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->exit_code, 2);
  EXPECT_THAT(second->err.head, HasSubstr("in use by another agent"));
}

TEST_F(DaemonTest, MistakesExitTwoAndSayWhatToDo) {
  const std::string state = JoinPath(temp_.path(), "other");
  struct Case {
    std::vector<std::string> arguments;
    std::string said;
  };
  for (const Case& c : std::vector<Case>{
           {{"--no-such-flag"}, "no-such-flag"},
           {{"--state", state, "--coordinator", "10.0.0.1:1"}, "loopback"},
           {{"--state", state}, "--join-token-file"},
           {{"--state", state, "--simulate", "dgx-sparc"}, "dgx-spark"},
           {{"--state", state, "--config", "/nonexistent.yaml"},
            "nonexistent.yaml"},
           {{"--state", state, "--label", "novalue"}, "key=value"}}) {
    const auto result = Run(c.arguments);
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->exit_code, 2) << c.said;
    EXPECT_THAT(result->err.head, HasSubstr(c.said));
  }
}

TEST_F(DaemonTest, OnceFactsPrintsJson) {
  const auto result = Run({"--once-facts", "--simulate", "dgx-spark"});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->exit_code, 0) << result->err.head;
  EXPECT_THAT(result->out.head, HasSubstr("\"simulated\": true"));
}

// Killed at each point between a cell's end and its acknowledgement, and
// started again: one result arrives, the same however often.
TEST_F(DaemonTest, KilledAnywhereItLosesNoResultAndMakesNoSecond) {
  int number = 0;
  for (const std::string point :
       {"worker.before-spool", "spool.before-write", "spool.written",
        "worker.spooled", "session.before-result", "spool.before-remove",
        "spool.removed"}) {
    const std::string cell = absl::StrCat("cell-", ++number);
    const auto results = [&] {
      std::vector<std::string> ids;
      for (const v1::AgentMessage& message : coordinator_.Kind(Kind::kResult)) {
        if (message.result().cell_id() == cell) {
          ids.push_back(message.result().result_id());
        }
      }
      return ids;
    };
    const size_t hellos = coordinator_.Count(Kind::kHello);
    {
      Daemon daemon(Arguments(),
                    Environment({absl::StrCat("TWINPATH_CRASH_AT=", point)}));
      ASSERT_TRUE(coordinator_.AwaitCount(Kind::kHello, hellos + 1));
      const v1::Lease lease = Lease(cell);
      ASSERT_TRUE(
          coordinator_.Await([&] { return coordinator_.SendLease(lease); }));
      EXPECT_EQ(daemon.Wait(), -SIGKILL) << point;
    }
    Daemon daemon(Arguments(), Environment());
    ASSERT_TRUE(coordinator_.AwaitCount(Kind::kHello, hellos + 2));
    const auto held = [&] {
      std::vector<std::string> cells;
      const auto all = coordinator_.Kind(Kind::kHello);
      for (const std::string& id : all.back().hello().held_cell_ids()) {
        cells.push_back(id);
      }
      return cells;
    }();
    if (point == "worker.before-spool" || point == "spool.before-write") {
      // It never was in the spool: the coordinator sees that the cell is not
      // held, and leases it again.
      EXPECT_THAT(held, Not(Contains(cell))) << point;
      const v1::Lease lease = Lease(cell);
      ASSERT_TRUE(
          coordinator_.Await([&] { return coordinator_.SendLease(lease); }));
    }
    ASSERT_TRUE(coordinator_.Await([&] { return !results().empty(); }))
        << point;
    ASSERT_TRUE(coordinator_.Await([&] {
      return FilesBelow(JoinPath(temp_.path(), "state/spool")).empty();
    })) << point;
    for (const std::string& id : results()) EXPECT_EQ(id, results()[0]);
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
  }
}

}  // namespace
}  // namespace twinpath::agent
