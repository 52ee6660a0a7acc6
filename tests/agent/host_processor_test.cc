#include "agent/host_processor.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "compat/conditions.h"
#include "tests/agent/crash.h"
#include "tests/agent/host_processor_fixture.h"

namespace twinpath::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(HostProcessorTest, RunsAndReportsWhatWasThere) {
  in_run_ = [](const std::string& folder, const runner::AttemptHooks& hooks) {
    EXPECT_EQ(Slurp(JoinPath(folder, "check")), "program");
    EXPECT_THAT(ListDirectory(hooks.work_parent), IsOk());
  };
  CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.result);
  const v1::CellResult& result = *outcome.result;
  EXPECT_TRUE(result.complete());
  EXPECT_EQ(result.cell_id(), "cell-1");
  EXPECT_EQ(result.lease_id(), "lease-now") << "the lease it started under";
  EXPECT_EQ(result.finish_time().seconds(), 1'700'000'000);
  EXPECT_FALSE(result.simulated());
  ASSERT_EQ(result.staged_size(), 1);
  EXPECT_EQ(result.staged(0).digest().sha256(), Sha256Of("program").Raw());
  const v1::Conditions conditions = compat::ConditionsOf(Facts());
  EXPECT_EQ(result.conditions_digest().sha256(), conditions.digest().sha256());
  ASSERT_EQ(result.observations_size(), 2);
  for (const v1::Observation& observation : result.observations()) {
    EXPECT_EQ(observation.conditions_before().digest().sha256(),
              conditions.digest().sha256());
    EXPECT_EQ(observation.conditions_after().digest().sha256(),
              conditions.digest().sha256());
    EXPECT_EQ(observation.gpu_uuid(), "GPU-1");
  }
  EXPECT_THAT(control_.progress,
              ElementsAre("fetching 1 file(s)", "native", "plain"));
  // The folder is gone; the journal waits for the spool.
  EXPECT_THAT(Left(), IsEmpty());
  EXPECT_THAT(Journals(), SizeIs(1));
  ASSERT_THAT(outcome.journal->Close(), IsOk());
  EXPECT_THAT(Journals(), IsEmpty());
}

TEST_F(HostProcessorTest, ConditionsThatChangeMeanwhileShow) {
  in_run_ = [this](const std::string&, const runner::AttemptHooks&) {
    facts_now_.mutable_driver()->set_kernel_module_version("590.1");
  };
  const CellOutcome outcome = Process();
  const v1::Observation& observation = outcome.result->observations(0);
  EXPECT_NE(observation.conditions_before().digest().sha256(),
            observation.conditions_after().digest().sha256());
}

// The runs of a toolchain check are judged as others are, which need them.
TEST_F(HostProcessorTest, RunsOfAToolchainCheckHaveTheirConditions) {
  HostProcessorOptions options;
  options.work_directory = JoinPath(temp_.path(), "work");
  options.run_entry = [](const v1::Entry&, const std::vector<v1::Path>&,
                         const std::vector<std::string>&, const std::string&,
                         const runner::AttemptHooks&) {
    v1::CellResult result;
    result.add_observations()->set_ending(v1::ENDING_EXITED);
    result.add_toolchain()->add_runs()->set_path(v1::PATH_NATIVE);
    result.set_complete(true);
    return result;
  };
  HostProcessor processor(options, *cache_, source_, journal_, facts_, clock_);
  const CellOutcome outcome = processor.Process(claimed_, control_);
  ASSERT_TRUE(outcome.result);
  const v1::Observation& run = outcome.result->toolchain(0).runs(0);
  EXPECT_EQ(
      run.conditions_before().digest().sha256(),
      outcome.result->observations(0).conditions_before().digest().sha256());
  EXPECT_FALSE(run.conditions_before().digest().sha256().empty());
  EXPECT_FALSE(run.conditions_after().digest().sha256().empty());
}

TEST_F(HostProcessorTest, ALeaseThatExpiresWhileFetchingStartsNothing) {
  control_.may_start = false;
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.refusal);
  EXPECT_EQ(outcome.refusal->detail(), "too late");
  EXPECT_EQ(runs_, 0);
  EXPECT_THAT(Left(), IsEmpty());
  EXPECT_THAT(Journals(), IsEmpty());
}

TEST_F(HostProcessorTest, AFileTamperedWithBeforeTheRunDecidesTheCell) {
  // Between staging and the last look: the facts are asked for then.
  FactsKeeper facts(
      [this](FactsScope) {
        const std::string work = JoinPath(temp_.path(), "work");
        for (const std::string& file : FilesBelow(work)) {
          Spit(JoinPath(work, file), "PROGRAM", 0755);
        }
        return Facts();
      },
      {}, clock_);
  HostProcessorOptions options;
  options.work_directory = JoinPath(temp_.path(), "work");
  HostProcessor processor(options, *cache_, source_, journal_, facts, clock_);
  const CellOutcome outcome = processor.Process(claimed_, control_);
  ASSERT_TRUE(outcome.result);
  EXPECT_FALSE(control_.started);
  EXPECT_TRUE(outcome.result->complete());
  ASSERT_EQ(outcome.result->staged_size(), 1);
  EXPECT_EQ(outcome.result->staged(0).digest().sha256(),
            Sha256Of("PROGRAM").Raw());
  ASSERT_EQ(outcome.result->observations_size(), 2);
  for (const v1::Observation& observation : outcome.result->observations()) {
    EXPECT_EQ(observation.ending(), v1::ENDING_NOT_STARTED);
    EXPECT_THAT(observation.problem(), HasSubstr("TP405"));
  }
}

TEST_F(HostProcessorTest, AFileTamperedWithBetweenPathsIsNotRun) {
  in_run_ = [](const std::string& folder, const runner::AttemptHooks&) {
    Spit(JoinPath(folder, "check"), "PROGRAM", 0755);
  };
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.result);
  EXPECT_TRUE(outcome.result->complete());
  ASSERT_EQ(outcome.result->observations_size(), 1);
  EXPECT_EQ(outcome.result->observations(0).ending(), v1::ENDING_SKIPPED);
  EXPECT_EQ(outcome.result->staged(0).digest().sha256(),
            Sha256Of("PROGRAM").Raw());
  EXPECT_EQ(outcome.result->problems(0).code(), "TP405");
}

TEST_F(HostProcessorTest, WhatCannotBeFetchedIsAnIncompleteResult) {
  claimed_.lease.mutable_artifact()
      ->mutable_files(0)
      ->mutable_digest()
      ->set_sha256(Sha256Of("never uploaded").Raw());
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.result);
  EXPECT_FALSE(outcome.result->complete());
  EXPECT_EQ(outcome.result->problems(0).code(), "TP115");
  EXPECT_THAT(outcome.result->problems(0).detail(), HasSubstr("check"));
  EXPECT_FALSE(control_.started);
  EXPECT_THAT(Left(), IsEmpty());
}

TEST_F(HostProcessorTest, ACoordinatorThatIsAwayIsNoStartThatFailed) {
  source_.GoAway();
  const CellOutcome outcome = Process();
  EXPECT_FALSE(outcome.result);
  ASSERT_TRUE(outcome.refusal);
  EXPECT_EQ(outcome.refusal->code(), "TP115");
  EXPECT_THAT(outcome.refusal->detail(), HasSubstr("check"));
  EXPECT_FALSE(control_.started);
  EXPECT_THAT(Left(), IsEmpty());
}

TEST_F(HostProcessorTest, AFullDiskIsAnIncompleteResultAndLeavesNothing) {
  AddFile("big", std::string(100'000, 'b'));
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {50'000, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const CellOutcome outcome = Process();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  ASSERT_TRUE(outcome.result);
  EXPECT_FALSE(outcome.result->complete());
  EXPECT_EQ(outcome.result->problems(0).code(), "TP115");
  EXPECT_EQ(runs_, 0);
  EXPECT_THAT(Left(), IsEmpty());
}

TEST_F(HostProcessorTest, AnEntryForMoreGpusThanThereAreIsAnswered) {
  claimed_.lease.mutable_entry()->mutable_gpus()->set_count(4);
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.result);
  EXPECT_TRUE(outcome.result->complete());
  EXPECT_EQ(outcome.result->observations(0).ending(), v1::ENDING_NOT_STARTED);
  EXPECT_EQ(runs_, 0);
}

TEST_F(HostProcessorTest, StoppingInTheMiddleIsInterruptedNotDecided) {
  in_run_ = [this](const std::string&, const runner::AttemptHooks&) {
    control_.stopping = true;
  };
  HostProcessorOptions options;
  options.work_directory = JoinPath(temp_.path(), "work");
  options.run_entry = [this](const v1::Entry&, const std::vector<v1::Path>&,
                             const std::vector<std::string>&,
                             const std::string&,
                             const runner::AttemptHooks& hooks) {
    control_.stopping = true;
    EXPECT_TRUE(hooks.cancelled());
    return v1::CellResult();
  };
  HostProcessor processor(options, *cache_, source_, journal_, facts_, clock_);
  const CellOutcome outcome = processor.Process(claimed_, control_);
  ASSERT_TRUE(outcome.result);
  EXPECT_FALSE(outcome.result->complete());
  EXPECT_EQ(outcome.result->problems(0).code(), "TP307");
}

// The journal as it stands after a kill at each named point.
TEST_F(HostProcessorTest, AKilledAgentAccountsForEveryAttempt) {
  const auto recovered = [this] {
    std::vector<v1::Ending> endings;
    const auto results = journal_.Recover(clock_.Now());
    if (!results.ok()) return endings;
    for (const v1::CellResult& result : *results) {
      EXPECT_FALSE(result.complete());
      for (const v1::Observation& observation : result.observations()) {
        endings.push_back(observation.ending());
      }
      EXPECT_THAT(journal_.Remove(result.result_id()), IsOk());
    }
    return endings;
  };
  const auto run = [this] { (void)Process(); };
  EXPECT_TRUE(CrashAt("staging.staged", 1, run));
  EXPECT_THAT(recovered(), IsEmpty());
  EXPECT_TRUE(CrashAt("worker.before-start", 1, run));
  EXPECT_THAT(recovered(), IsEmpty());
  EXPECT_TRUE(CrashAt("worker.started", 1, run));
  EXPECT_THAT(recovered(), IsEmpty()) << "permission taken, nothing begun";
  EXPECT_TRUE(CrashAt("worker.ran", 1, run));
  EXPECT_THAT(recovered(), ElementsAre(v1::ENDING_INTERRUPTED));
  EXPECT_TRUE(CrashAt("worker.ran", 2, run));
  EXPECT_THAT(recovered(),
              ElementsAre(v1::ENDING_EXITED, v1::ENDING_INTERRUPTED));
}

}  // namespace
}  // namespace twinpath::agent
