// The whole agent in this process against a fake coordinator over loopback.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/agent.h"
#include "agent/environment.h"
#include "agent/journal.h"
#include "agent/spool.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "runner/sandbox.h"
#include "tests/agent/fake_coordinator.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Kind = v1::AgentMessage;

v1::HostFacts Profile() {
  v1::HostFacts facts;
  facts.set_profile("test-host");
  facts.set_simulated(true);
  facts.set_cpu_architecture(v1::CPU_ARCHITECTURE_AARCH64);
  facts.mutable_gpu_probe()->set_state(v1::PROBE_STATE_OK);
  v1::Gpu& gpu = *facts.add_gpus();
  gpu.set_uuid("GPU-1");
  gpu.mutable_capability_probe()->set_state(v1::PROBE_STATE_OK);
  gpu.mutable_compute_capability()->set_major(12);
  return facts;
}

class AgentGrpcTest : public ::testing::Test {
 protected:
  AgentGrpcTest() {
    Spit(JoinPath(temp_.path(), "token"), "token-1\n");
    options_.state_directory = JoinPath(temp_.path(), "state");
    options_.coordinator = coordinator_.address();
    options_.join_token_file = JoinPath(temp_.path(), "token");
    options_.host_name = "sim-1";
    options_.profile = Profile();
    options_.backoff.first = absl::Milliseconds(20);
    options_.backoff.slow = absl::Milliseconds(40);
    options_.backoff.taken_over = absl::Milliseconds(40);
  }
  ~AgentGrpcTest() override { (void)StopAgent(); }

  void StartAgent() {
    stop_ = false;
    thread_ = std::thread([this] {
      status_ = RunAgent(
          options_, notify_, [this] { return stop_.load(); },
          absl::Milliseconds(20));
    });
  }
  absl::Status StopAgent() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return status_;
  }
  // The GPU's UUID as the agent reported it.
  std::string Gpu() {
    EXPECT_TRUE(coordinator_.AwaitCount(Kind::kFacts, 1));
    return coordinator_.Kind(Kind::kFacts)[0].facts().gpus(0).uuid();
  }
  v1::Lease Lease(const std::string& cell) {
    v1::Lease lease;
    lease.set_id("lease-" + cell);
    lease.set_cell_id(cell);
    lease.set_gpu_uuid(Gpu());
    lease.mutable_entry()->set_name("smoke");
    lease.mutable_start_within()->set_seconds(600);
    lease.add_paths(v1::PATH_NATIVE);
    v1::PathPrediction& prediction = *lease.add_predictions();
    prediction.set_path(v1::PATH_NATIVE);
    prediction.set_outcome(v1::OUTCOME_NATIVE);
    return lease;
  }
  std::string SpoolFolder() const {
    return JoinPath(options_.state_directory, "spool");
  }

  const TempDirectory temp_ = MakeTemp();
  FakeCoordinator coordinator_;
  AgentOptions options_;
  const Notify notify_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
  absl::Status status_;
};

TEST_F(AgentGrpcTest, EnrolsOnceSaysHelloAndFactsAndEndsCleanly) {
  options_.labels = {"site=lab"};
  StartAgent();
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kFacts, 1));
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kHeartbeat, 1));
  EXPECT_THAT(StopAgent(), IsOk());

  ASSERT_EQ(coordinator_.enrolments().size(), 1u);
  const v1::EnrolRequest enrolment = coordinator_.enrolments()[0];
  EXPECT_EQ(enrolment.host_name(), "sim-1");
  EXPECT_TRUE(enrolment.simulated());
  EXPECT_THAT(enrolment.labels(), ElementsAre("site=lab"));
  EXPECT_THAT(enrolment.machine_id(), ::testing::SizeIs(64));

  const v1::HostFacts facts = coordinator_.Kind(Kind::kFacts)[0].facts();
  EXPECT_TRUE(facts.simulated());
  EXPECT_EQ(facts.machine_id(), enrolment.machine_id());
  const v1::Hello hello = coordinator_.Kind(Kind::kHello)[0].hello();
  EXPECT_EQ(hello.boot_id(), facts.boot_id());

  // The identity is kept: a second start needs no token.
  options_.join_token_file.clear();
  StartAgent();
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kHello, 2));
  EXPECT_THAT(StopAgent(), IsOk());
  EXPECT_EQ(coordinator_.enrolments().size(), 1u);
}

TEST_F(AgentGrpcTest, AnswersALeaseFromTheModelAndForgetsItWhenAcknowledged) {
  StartAgent();
  ASSERT_TRUE(coordinator_.SendLease(Lease("cell-1")));
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kResult, 1));
  const v1::CellResult result = coordinator_.Kind(Kind::kResult)[0].result();
  EXPECT_TRUE(result.simulated());
  EXPECT_TRUE(result.complete());
  EXPECT_EQ(result.cell_id(), "cell-1");
  EXPECT_EQ(result.lease_id(), "lease-cell-1");
  EXPECT_TRUE(result.observations(0).simulated());
  EXPECT_TRUE(
      coordinator_.Await([&] { return FilesBelow(SpoolFolder()).empty(); }));
}

TEST_F(AgentGrpcTest, AResultOutlivesLostConnectionsAndRestarts) {
  coordinator_.HoldAcknowledgements(true);
  options_.farewell = absl::ZeroDuration();
  StartAgent();
  ASSERT_TRUE(coordinator_.SendLease(Lease("cell-1")));
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kResult, 1));
  coordinator_.Drop();
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kResult, 2));
  // Its cell is held as long as the result waits.
  EXPECT_THAT(coordinator_.Kind(Kind::kHello)[1].hello().held_cell_ids(),
              ElementsAre("cell-1"));
  EXPECT_THAT(StopAgent(), IsOk());

  StartAgent();
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kResult, 3));
  coordinator_.HoldAcknowledgements(false);
  coordinator_.Drop();
  ASSERT_TRUE(
      coordinator_.Await([&] { return FilesBelow(SpoolFolder()).empty(); }));
  // One result, however often it was delivered.
  for (const v1::AgentMessage& message : coordinator_.Kind(Kind::kResult)) {
    EXPECT_EQ(message.result().SerializeAsString(),
              coordinator_.Kind(Kind::kResult)[0].result().SerializeAsString());
  }
}

TEST_F(AgentGrpcTest, ComesBackWhenTheCoordinatorDoes) {
  auto first = std::make_unique<FakeCoordinator>();
  const int port = first->port();
  options_.coordinator = first->address();
  StartAgent();
  ASSERT_TRUE(first->AwaitCount(Kind::kFacts, 1));
  first->Stop();
  FakeCoordinator second(port);
  ASSERT_TRUE(second.AwaitCount(Kind::kFacts, 1));
  EXPECT_THAT(StopAgent(), IsOk());
}

TEST_F(AgentGrpcTest, AnotherAgentOfTheSameIdentityIsNotFoughtOver) {
  StartAgent();
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kHeartbeat, 1));
  coordinator_.Refuse({grpc::StatusCode::ABORTED, "a newer session took over"});
  coordinator_.Drop();
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kHello, 3));
  coordinator_.Refuse(grpc::Status::OK);
  // Once the other is gone, this one serves again.
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kHeartbeat, 2));
}

TEST_F(AgentGrpcTest, WhatCannotHealIsTriedAgainWithoutAnEnd) {
  StartAgent();
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kHeartbeat, 1));
  coordinator_.SetProtocol(9);
  coordinator_.Drop();
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kHello, 3));
  EXPECT_EQ(coordinator_.Count(Kind::kHeartbeat), 1u);
  coordinator_.SetProtocol(1);
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kHeartbeat, 2));
}

TEST_F(AgentGrpcTest, ADrainIsObeyed) {
  StartAgent();
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kHeartbeat, 1));
  v1::CoordinatorMessage drain;
  drain.mutable_drain()->mutable_retry_after()->set_nanos(300'000'000);
  const absl::Time sent = absl::Now();
  ASSERT_TRUE(coordinator_.Send(drain));
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kHello, 2));
  EXPECT_GE(coordinator_.hello_times()[1] - sent, absl::Milliseconds(300));
}

TEST_F(AgentGrpcTest, AFullSpoolRefusesLeasesUntilThereIsRoom) {
  options_.spool.max_results = 1;
  coordinator_.HoldAcknowledgements(true);
  StartAgent();
  ASSERT_TRUE(coordinator_.SendLease(Lease("cell-1")));
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kResult, 1));
  ASSERT_TRUE(coordinator_.SendLease(Lease("cell-2")));
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kRefusal, 1));
  const v1::LeaseRefusal refusal =
      coordinator_.Kind(Kind::kRefusal)[0].refusal();
  EXPECT_EQ(refusal.cell_id(), "cell-2");
  EXPECT_THAT(refusal.reason().detail(), HasSubstr("spool is full"));
  const auto refuses = [&] {
    const auto heartbeats = coordinator_.Kind(Kind::kHeartbeat);
    return !heartbeats.empty() &&
           heartbeats.back().heartbeat().refuses_leases();
  };
  EXPECT_TRUE(coordinator_.Await(refuses));

  // Nothing was dropped; with room again leases are welcome.
  coordinator_.HoldAcknowledgements(false);
  v1::CoordinatorMessage ack;
  ack.mutable_result_ack()->set_result_id(
      coordinator_.Kind(Kind::kResult)[0].result().result_id());
  ASSERT_TRUE(coordinator_.Send(ack));
  EXPECT_TRUE(coordinator_.Await([&] { return !refuses(); }));
  ASSERT_TRUE(coordinator_.SendLease(Lease("cell-3")));
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kResult, 2));
}

TEST_F(AgentGrpcTest, APausedAgentTakesNoLease) {
  StartAgent();
  Gpu();
  Spit(JoinPath(options_.state_directory, "paused"), "");
  ASSERT_TRUE(coordinator_.SendLease(Lease("cell-1")));
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kRefusal, 1));
  EXPECT_THAT(coordinator_.Kind(Kind::kRefusal)[0].refusal().reason().detail(),
              HasSubstr("paused"));
}

TEST_F(AgentGrpcTest, WhatAKilledAgentHadStartedIsReportedAsInterrupted) {
  StartAgent();
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kFacts, 1));
  EXPECT_THAT(StopAgent(), IsOk());
  {
    Journal journal(JoinPath(options_.state_directory, "journal"));
    v1::CellResult head;
    head.set_result_id("abcd");
    head.set_cell_id("cell-9");
    head.set_lease_id("lease-9");
    auto cell = journal.Begin(head);
    ASSERT_THAT(cell, IsOk());
    v1::Observation attempt;
    attempt.set_attempt_id("a1");
    attempt.set_path(v1::PATH_PTX_JIT);
    ASSERT_THAT((*cell)->BeforeAttempt(attempt), IsOk());
  }
  StartAgent();
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kResult, 1));
  const v1::CellResult result = coordinator_.Kind(Kind::kResult)[0].result();
  EXPECT_EQ(result.result_id(), "abcd");
  EXPECT_FALSE(result.complete());
  EXPECT_EQ(result.problems(0).code(), "TP307");
  EXPECT_EQ(result.observations(0).ending(), v1::ENDING_INTERRUPTED);
  EXPECT_EQ(result.observations(0).path(), v1::PATH_PTX_JIT);
}

TEST_F(AgentGrpcTest, FactsAreSentOnRequest) {
  StartAgent();
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kFacts, 1));
  v1::CoordinatorMessage message;
  message.mutable_facts_request();
  ASSERT_TRUE(coordinator_.Await([&] { return coordinator_.Send(message); }));
  EXPECT_TRUE(coordinator_.AwaitCount(Kind::kFacts, 2));
}

TEST_F(AgentGrpcTest, AWrongTokenIsTriedAgainWithWhatTheFileHoldsThen) {
  Spit(options_.join_token_file, "wrong\n");
  StartAgent();
  ASSERT_TRUE(coordinator_.Await(
      [&] { return coordinator_.enrolments().size() >= 2; }));
  Spit(options_.join_token_file, "token-1\n");
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kFacts, 1));
}

TEST_F(AgentGrpcTest, StartErrorsSayWhatToDo) {
  options_.join_token_file.clear();
  StartAgent();
  thread_.join();
  EXPECT_THAT(status_, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("--join-token-file")));
  options_.join_token_file = JoinPath(temp_.path(), "token");
  options_.coordinator = "192.0.2.1:7711";
  StartAgent();
  thread_.join();
  EXPECT_THAT(status_, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("loopback")));
}

TEST_F(AgentGrpcTest, ASimulatedIdentityNeverSpeaksForAMachine) {
  StartAgent();
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kFacts, 1));
  EXPECT_THAT(StopAgent(), IsOk());
  options_.profile.reset();
  StartAgent();
  thread_.join();
  EXPECT_THAT(status_, StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("--simulate")));
}

// A real host, this one: fetched, staged, confined, run along two paths.
TEST_F(AgentGrpcTest, RunsAnEntryOnThisHost) {
  if (const absl::Status sandbox = runner::CheckSandbox(); !sandbox.ok()) {
    GTEST_SKIP() << sandbox.message();
  }
  options_.profile.reset();
  options_.host_name = "real-1";
  options_.allow_unsigned_runs = true;
  options_.gpu_policy = GpuPolicy::kAlways;
  // Set globally: must not reach the process under test (I9).
  setenv("CUDA_FORCE_PTX_JIT", "1", 1);
  options_.leaks = ScrubEnvironment();
  StartAgent();
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kFacts, 1));
  const v1::HostFacts facts = coordinator_.Kind(Kind::kFacts)[0].facts();
  EXPECT_FALSE(facts.simulated());
  EXPECT_FALSE(facts.boot_id().empty());

  const std::string program = Slurp("/bin/echo");
  v1::Lease lease;
  lease.set_id("lease-1");
  lease.set_cell_id("cell-1");
  if (facts.gpus_size() > 0) lease.set_gpu_uuid(facts.gpus(0).uuid());
  v1::ArtifactFile& file = *lease.mutable_artifact()->add_files();
  file.set_name("bin/say");
  file.set_type(v1::FILE_TYPE_REGULAR);
  file.set_mode(0755);
  file.set_size_bytes(program.size());
  file.mutable_digest()->set_sha256(coordinator_.AddBlob(program).Raw());
  lease.mutable_entry()->set_name("say");
  lease.mutable_entry()->add_command("bin/say");
  lease.mutable_entry()->add_command("hello");
  // As many runs as paths, also where the host could trace.
  lease.mutable_entry()->set_trace(v1::TRACE_RULE_OFF);
  lease.add_paths(v1::PATH_NATIVE);
  lease.add_paths(v1::PATH_PLAIN);
  lease.mutable_start_within()->set_seconds(600);
  ASSERT_TRUE(
      coordinator_.Await([&] { return coordinator_.SendLease(lease); }));
  ASSERT_TRUE(coordinator_.AwaitCount(Kind::kResult, 1));

  const v1::CellResult result = coordinator_.Kind(Kind::kResult)[0].result();
  EXPECT_TRUE(result.complete()) << result.DebugString();
  EXPECT_FALSE(result.simulated());
  ASSERT_EQ(result.staged_size(), 1);
  EXPECT_EQ(result.staged(0).digest().sha256(), file.digest().sha256());
  ASSERT_EQ(result.observations_size(), 2) << result.DebugString();
  for (const v1::Observation& observation : result.observations()) {
    EXPECT_EQ(observation.ending(), v1::ENDING_EXITED);
    EXPECT_EQ(observation.exit_code(), 0);
    EXPECT_EQ(observation.stdout().head(), "hello\n");
    EXPECT_TRUE(observation.has_conditions_before());
    for (const v1::EnvironmentVariable& variable : observation.environment()) {
      EXPECT_NE(variable.name(), "CUDA_FORCE_PTX_JIT");
    }
  }
  EXPECT_TRUE(coordinator_.AwaitCount(Kind::kProgress, 1));
  EXPECT_THAT(StopAgent(), IsOk());
  for (const char* folder : {"work", "journal", "spool"}) {
    EXPECT_THAT(FilesBelow(JoinPath(options_.state_directory, folder)),
                IsEmpty());
  }
}

}  // namespace
}  // namespace twinpath::agent
