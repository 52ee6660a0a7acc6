#include "runner/sequence.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "tests/runner/run_fixture.h"

namespace twinpath::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<v1::Path>& AllPaths() {
  static const auto* const paths = new std::vector<v1::Path>{
      v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN};
  return *paths;
}

class Sequence : public RunFixture {
 protected:
  v1::CellResult RunAll(const std::vector<std::string>& arguments,
                        const AttemptHooks& hooks) const {
    AttemptHooks untraced = hooks;
    untraced.can_trace = [] { return false; };
    return RunEntry(Request(arguments).entry(), AllPaths(), {"GPU-1"},
                    artifact_->path(), untraced);
  }
};

TEST_F(Sequence, RunsPathsInOrderAndRepeatsForcedJitAsProof) {
  const v1::CellResult result = RunAll({"driver"}, {});
  EXPECT_TRUE(result.complete());
  EXPECT_EQ(result.result_id().size(), 32u);
  ASSERT_EQ(result.observations_size(), 4);
  EXPECT_EQ(result.observations(0).path(), v1::PATH_NATIVE);
  EXPECT_EQ(result.observations(1).path(), v1::PATH_PTX_JIT);
  EXPECT_FALSE(result.observations(1).jit_proof());
  EXPECT_FALSE(result.observations(1).cache().observed());
  EXPECT_EQ(result.observations(2).path(), v1::PATH_PTX_JIT);
  EXPECT_TRUE(result.observations(2).jit_proof());
  EXPECT_TRUE(result.observations(2).cache().observed());
  EXPECT_EQ(result.observations(2).cache().files(), 2u);
  EXPECT_EQ(result.observations(3).path(), v1::PATH_PLAIN);
  EXPECT_EQ(result.observations(3).gpu_uuid(), "GPU-1");
}

TEST_F(Sequence, FailedForcedJitIsNotRepeated) {
  const v1::CellResult result = RunAll({"exit", "1"}, {});
  EXPECT_TRUE(result.complete());
  EXPECT_EQ(result.observations_size(), 3);
}

TEST_F(Sequence, ExpectedExitCodeCountsAsSuccess) {
  v1::Entry entry = Request({"exit", "3"}).entry();
  entry.set_expected_exit(3);
  const v1::CellResult result =
      RunEntry(entry, {v1::PATH_PTX_JIT}, {}, artifact_->path(), {});
  EXPECT_EQ(result.observations_size(), 2);
}

TEST_F(Sequence, HooksSurroundEveryAttempt) {
  std::vector<std::string> events;
  AttemptHooks hooks;
  hooks.can_trace = [] { return false; };
  hooks.before = [&](const v1::RunRequest& request) {
    EXPECT_EQ(request.attempt_id().size(), 32u);
    events.push_back("before " + request.attempt_id());
    return absl::OkStatus();
  };
  hooks.after = [&](const v1::Observation& observation) {
    events.push_back("after " + observation.attempt_id());
  };
  hooks.conditions = [] {
    v1::Conditions conditions;
    conditions.add_lines("boot=1");
    return conditions;
  };
  const v1::CellResult result =
      RunEntry(Request({"exit", "0"}).entry(), {v1::PATH_NATIVE}, {},
               artifact_->path(), hooks);
  ASSERT_EQ(result.observations_size(), 1);
  const std::string id = result.observations(0).attempt_id();
  EXPECT_THAT(events, ElementsAre("before " + id, "after " + id));
  EXPECT_EQ(result.observations(0).conditions_before().lines(0), "boot=1");
  EXPECT_EQ(result.observations(0).conditions_after().lines(0), "boot=1");
}

TEST_F(Sequence, AttemptThatCannotBeRecordedIsNotStarted) {
  AttemptHooks hooks;
  hooks.before = [](const v1::RunRequest&) {
    return absl::ResourceExhaustedError("no space for the journal");
  };
  const v1::CellResult result = RunAll({"exit", "0"}, hooks);
  EXPECT_FALSE(result.complete());
  ASSERT_EQ(result.observations_size(), 1);
  EXPECT_EQ(result.observations(0).ending(), v1::ENDING_SKIPPED);
  EXPECT_THAT(result.observations(0).problem(), HasSubstr("no space"));
}

TEST_F(Sequence, CancelledSequenceIsIncomplete) {
  AttemptHooks hooks;
  hooks.cancelled = [] { return true; };
  const v1::CellResult result = RunAll({"sleep"}, hooks);
  EXPECT_FALSE(result.complete());
  ASSERT_EQ(result.observations_size(), 1);
  EXPECT_EQ(result.observations(0).ending(), v1::ENDING_SKIPPED);
}

// A toolchain check runs its program inside one attempt; what is said of the
// host around the attempt holds for these runs, which are judged as any other.
TEST_F(Sequence, RunsOfAToolchainCheckGetTheirSurroundings) {
  v1::Entry entry;
  entry.set_name("toolchain");
  entry.set_kind(v1::ENTRY_KIND_TOOLCHAIN);
  AttemptHooks hooks;
  hooks.jit_cache_built = "Apr 29 2026 17:12:06";
  int looks = 0;
  hooks.conditions = [&] {
    v1::Conditions conditions;
    conditions.add_lines(++looks == 1 ? "before" : "after");
    return conditions;
  };
  hooks.run = [](const v1::RunRequest&, absl::Duration,
                 const std::function<bool()>&) {
    v1::RunResponse response;
    response.mutable_observation()->set_ending(v1::ENDING_EXITED);
    v1::ToolchainCheck& check = *response.add_toolchain();
    check.add_runs()->set_path(v1::PATH_NATIVE);
    check.add_runs()->mutable_cache()->set_observed(true);
    return response;
  };
  const v1::CellResult result =
      RunEntry(entry, AllPaths(), {"GPU-1"}, artifact_->path(), hooks);
  ASSERT_EQ(result.observations_size(), 1);
  ASSERT_EQ(result.toolchain_size(), 1);
  for (const v1::Observation& run : result.toolchain(0).runs()) {
    EXPECT_EQ(run.conditions_before().lines(0), "before");
    EXPECT_EQ(run.conditions_after().lines(0), "after");
  }
  EXPECT_FALSE(result.toolchain(0).runs(0).has_cache());
  EXPECT_EQ(result.toolchain(0).runs(1).cache().driver_built(),
            "Apr 29 2026 17:12:06");
}

// What a host's runs print, by path and attempt, and whether plain compiles.
struct Printing {
  std::string native;
  std::string forced;
  bool plain_compiles = true;
  bool traces = true;
};

std::vector<v1::Path> UntracedRuns(const v1::Entry& entry,
                                   const Printing& printing,
                                   const std::string& artifact_dir) {
  AttemptHooks hooks;
  hooks.can_trace = [&] { return printing.traces; };
  hooks.run = [&](const v1::RunRequest& request, absl::Duration,
                  const std::function<bool()>&) {
    v1::RunResponse response;
    v1::Observation& run = *response.mutable_observation();
    run.set_path(request.path());
    run.set_jit_proof(request.jit_proof());
    run.set_traced(request.traced());
    run.set_ending(v1::ENDING_EXITED);
    const bool forced = request.path() == v1::PATH_PTX_JIT;
    run.mutable_stdout()->mutable_digest()->set_sha256(
        Sha256Of(forced ? printing.forced : printing.native).Raw());
    v1::OutputFile& file = *run.add_files();
    file.set_name("out");
    *file.mutable_content() = run.stdout();
    if (request.jit_proof() || request.path() == v1::PATH_PLAIN) {
      run.mutable_cache()->set_observed(true);
      run.mutable_cache()->set_files(forced || printing.plain_compiles ? 2 : 0);
    }
    return response;
  };
  const v1::CellResult result =
      RunEntry(entry, AllPaths(), {"GPU-1"}, artifact_dir, hooks);
  EXPECT_TRUE(result.complete());
  std::vector<v1::Path> paths;
  for (const v1::Observation& run : result.observations()) {
    if (!run.traced() && !run.jit_proof()) paths.push_back(run.path());
  }
  return paths;
}

// Where plain compiled nobody knows whether native prints the same twice.
TEST_F(Sequence, NativeIsRunAgainWhereADifferenceMayBeATime) {
  const v1::Entry entry = Request({"driver"}).entry();
  const auto runs = [&](const v1::Entry& of, const Printing& printing) {
    return UntracedRuns(of, printing, artifact_->path());
  };
  const auto again = ElementsAre(v1::PATH_NATIVE, v1::PATH_PTX_JIT,
                                 v1::PATH_PLAIN, v1::PATH_NATIVE);
  const auto once =
      ElementsAre(v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN);
  EXPECT_THAT(runs(entry, {"3 ms", "905 ms"}), again);
  EXPECT_THAT(runs(entry, {"3 ms", "905 ms", true, false}), again);
  // Equal results, and a plain run of the same code.
  EXPECT_THAT(runs(entry, {"42", "42"}), once);
  EXPECT_THAT(runs(entry, {"3 ms", "905 ms", false}), once);
  // What a rule or a comparison says settles it.
  v1::Entry expects = entry;
  expects.mutable_expected_output()->set_contains("ms");
  EXPECT_THAT(runs(expects, {"3 ms", "905 ms"}), once);
  v1::Entry compares = entry;
  compares.mutable_compare();
  EXPECT_THAT(runs(compares, {"3 ms", "905 ms"}), once);
  // A file that no rule judges.
  expects.add_expected_files()->set_name("out");
  EXPECT_THAT(runs(expects, {"3 ms", "905 ms"}), again);
  expects.mutable_expected_files(0)->mutable_content()->set_contains("ms");
  EXPECT_THAT(runs(expects, {"3 ms", "905 ms"}), once);
}

// A run that ended well and printed what no other path does.
v1::RunResponse ExitedByPath(const v1::RunRequest& request) {
  v1::RunResponse response;
  v1::Observation& run = *response.mutable_observation();
  run.set_path(request.path());
  run.set_jit_proof(request.jit_proof());
  run.set_ending(v1::ENDING_EXITED);
  run.mutable_stdout()->mutable_digest()->set_sha256(
      absl::StrCat(request.path()));
  return response;
}

TEST_F(Sequence, NativeIsRunAgainWherePlainIsNotRun) {
  int native = 0;
  AttemptHooks hooks;
  hooks.can_trace = [] { return false; };
  hooks.run = [&](const v1::RunRequest& request, absl::Duration,
                  const std::function<bool()>&) {
    native += request.path() == v1::PATH_NATIVE ? 1 : 0;
    return ExitedByPath(request);
  };
  const v1::CellResult result =
      RunEntry(Request({"driver"}).entry(), {v1::PATH_NATIVE, v1::PATH_PTX_JIT},
               {"GPU-1"}, artifact_->path(), hooks);
  EXPECT_TRUE(result.complete());
  EXPECT_EQ(native, 2);
}

// The result is whole without the repeat.
TEST_F(Sequence, ANativeRepeatThatDoesNotEndIsLeftOut) {
  enum class What { kCancelled, kRefused, kInterrupted, kNotStarted, kChanged };
  const auto run = [&](What what) {
    int native = 0;
    AttemptHooks hooks;
    hooks.can_trace = [] { return false; };
    const auto at_repeat = [&](What now) { return native == 1 && what == now; };
    bool forced = false;
    hooks.cancelled = [&] { return forced && at_repeat(What::kCancelled); };
    hooks.before = [&](const v1::RunRequest& request) {
      if (request.path() != v1::PATH_NATIVE) return absl::OkStatus();
      if (at_repeat(What::kRefused)) return absl::InternalError("no space");
      if (at_repeat(What::kChanged)) return absl::DataLossError("TP405 other");
      return absl::OkStatus();
    };
    hooks.run = [&](const v1::RunRequest& request, absl::Duration,
                    const std::function<bool()>&) {
      v1::RunResponse response = ExitedByPath(request);
      v1::Observation& seen = *response.mutable_observation();
      if (request.path() != v1::PATH_NATIVE) {
        forced = request.jit_proof();
        return response;
      }
      if (at_repeat(What::kInterrupted)) {
        seen.set_ending(v1::ENDING_INTERRUPTED);
      } else if (at_repeat(What::kNotStarted)) {
        seen.set_ending(v1::ENDING_NOT_STARTED);
        seen.set_problem("TP114 sandbox-unavailable");
      }
      ++native;
      return response;
    };
    v1::CellResult result = RunEntry(Request({"driver"}).entry(),
                                     {v1::PATH_NATIVE, v1::PATH_PTX_JIT},
                                     {"GPU-1"}, artifact_->path(), hooks);
    EXPECT_TRUE(forced);
    return result;
  };
  for (const What what : {What::kCancelled, What::kRefused, What::kInterrupted,
                          What::kNotStarted}) {
    const v1::CellResult result = run(what);
    EXPECT_TRUE(result.complete()) << static_cast<int>(what);
    EXPECT_EQ(result.problems_size(), 0) << result.ShortDebugString();
    EXPECT_EQ(result.observations_size(), 3) << result.ShortDebugString();
  }
  const v1::CellResult changed = run(What::kChanged);
  EXPECT_FALSE(changed.complete());
  EXPECT_EQ(changed.observations_size(), 4);
  EXPECT_THAT(changed.observations(3).problem(), HasSubstr("TP405"));
}

TEST_F(Sequence, WorkFoldersAreRemoved) {
  AttemptHooks hooks;
  hooks.work_parent = work_->path();
  std::string seen;
  hooks.before = [&](const v1::RunRequest& request) {
    seen = request.work_directory();
    return absl::OkStatus();
  };
  RunAll({"driver"}, hooks);
  EXPECT_THAT(seen, HasSubstr(work_->path()));
  EXPECT_THAT(ListDirectory(work_->path()), IsOkAndHolds(ElementsAre()));
}

}  // namespace
}  // namespace twinpath::runner
