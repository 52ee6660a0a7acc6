#include "agent/host_processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/fake_clock.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "compat/conditions.h"
#include "inspect/manifest.h"
#include "runner/trusted_release.h"
#include "runner/unit_socket.h"
#include "tests/agent/crash.h"
#include "tests/agent/fake_blob_source.h"
#include "tests/agent/fake_control.h"
#include "tests/agent/temp.h"
#include "trust/signed_release.h"

namespace twinpath::agent {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::HostFacts Facts(uint32_t processes = 0) {
  v1::HostFacts facts;
  facts.set_cpu_architecture(v1::CPU_ARCHITECTURE_X86_64);
  facts.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_OK);
  facts.mutable_driver()->set_kernel_module_version("580.95.05");
  facts.mutable_gpu_probe()->set_state(v1::PROBE_STATE_OK);
  v1::Gpu& gpu = *facts.add_gpus();
  gpu.set_uuid("GPU-1");
  gpu.set_compute_processes(processes);
  return facts;
}

// Stands in for runner::RunEntry: calls the hooks as it does, and every process
// exits 0.
v1::CellResult FakeRun(const v1::Entry& entry,
                       const std::vector<v1::Path>& paths,
                       const std::vector<std::string>& gpus,
                       const runner::AttemptHooks& hooks) {
  v1::CellResult result;
  result.set_result_id("ff");
  result.set_complete(true);
  for (const v1::Path path : paths) {
    v1::RunRequest request;
    request.set_attempt_id(RandomHex(16));
    request.set_path(path);
    *request.mutable_entry() = entry;
    for (const std::string& gpu : gpus) request.add_gpu_uuids(gpu);
    v1::Observation observation;
    observation.set_attempt_id(request.attempt_id());
    observation.set_path(path);
    if (const absl::Status status = hooks.before(request); !status.ok()) {
      observation.set_ending(v1::ENDING_SKIPPED);
      observation.set_problem(std::string(status.message()));
      *result.add_observations() = observation;
      result.set_complete(false);
      break;
    }
    observation.set_ending(v1::ENDING_EXITED);
    hooks.after(observation);
    *result.add_observations() = observation;
  }
  return result;
}

class HostProcessorTest : public ::testing::Test {
 protected:
  HostProcessorTest() {
    for (const char* folder : {"work", "journal", "cache"}) {
      EXPECT_THAT(MakeDirectories(JoinPath(temp_.path(), folder)), IsOk());
    }
    cache_ =
        std::move(BlobCache::Open(JoinPath(temp_.path(), "cache"), {1 << 20}))
            .value();
    claimed_.lease.set_id("lease-1");
    claimed_.lease.set_cell_id("cell-1");
    claimed_.lease.set_gpu_uuid("GPU-1");
    claimed_.lease.mutable_entry()->set_name("smoke");
    for (const v1::Path path : {v1::PATH_NATIVE, v1::PATH_PLAIN}) {
      claimed_.lease.add_paths(path);
    }
    claimed_.gpu_uuids = {"GPU-1"};
    AddFile("check", "program");
    facts_now_ = Facts();
  }

  void AddFile(const std::string& name, const std::string& content) {
    v1::ArtifactFile& file = *claimed_.lease.mutable_artifact()->add_files();
    file.set_name(name);
    file.set_type(v1::FILE_TYPE_REGULAR);
    file.set_mode(0755);
    file.set_size_bytes(content.size());
    file.mutable_digest()->set_sha256(source_.Add(content).Raw());
  }

  CellOutcome Process() {
    HostProcessorOptions options;
    options.work_directory = JoinPath(temp_.path(), "work");
    options.gpu_policy = policy_;
    options.reservations = reservations_.get();
    options.run_socket = run_socket_;
    options.allow_unsigned_runs = allow_unsigned_;
    options.trust = trust_;
    options.run_child = [this](const v1::RunRequest& request, absl::Duration,
                               const std::function<bool()>&) {
      child_ = request;
      v1::RunResponse response;
      response.mutable_observation()->set_exit_code(7);
      return response;
    };
    options.run_entry =
        [this](const v1::Entry& entry, const std::vector<v1::Path>& paths,
               const std::vector<std::string>& gpus, const std::string& folder,
               const runner::AttemptHooks& hooks) {
          ++runs_;
          folder_ = folder;
          if (in_run_) in_run_(folder, hooks);
          return FakeRun(entry, paths, gpus, hooks);
        };
    HostProcessor processor(options, *cache_, source_, journal_, facts_,
                            clock_);
    return processor.Process(claimed_, control_);
  }
  std::vector<std::string> Left() const {
    return FilesBelow(JoinPath(temp_.path(), "work"));
  }
  std::vector<std::string> Journals() const {
    return FilesBelow(JoinPath(temp_.path(), "journal"));
  }

  const TempDirectory temp_ = MakeTemp();
  FakeClock clock_;
  FakeBlobSource source_;
  std::unique_ptr<BlobCache> cache_;
  Journal journal_{JoinPath(temp_.path(), "journal")};
  v1::HostFacts facts_now_;
  FactsKeeper facts_{[this](FactsScope) { return facts_now_; }, {}, clock_};
  FakeControl control_;
  ClaimedLease claimed_;
  GpuPolicy policy_ = GpuPolicy::kIdle;
  std::unique_ptr<GpuReservations> reservations_;
  std::string run_socket_;
  bool allow_unsigned_ = false;
  runner::TrustFiles trust_;
  std::optional<v1::RunRequest> child_;
  std::function<void(const std::string&, const runner::AttemptHooks&)> in_run_;
  int runs_ = 0;
  std::string folder_;
};

TEST_F(HostProcessorTest, WithoutTheSocketUnsignedRunsNeedTheHostsWord) {
  run_socket_ = JoinPath(temp_.path(), "no.sock");
  allow_unsigned_ = true;
  in_run_ = [](const std::string&, const runner::AttemptHooks& hooks) {
    // RunEntry then starts the child.
    EXPECT_FALSE(hooks.run);
  };
  Process();
  EXPECT_EQ(runs_, 1);
  allow_unsigned_ = false;
  in_run_ = [](const std::string&, const runner::AttemptHooks& hooks) {
    EXPECT_TRUE(hooks.run);
  };
  // A file of that name is no socket.
  Spit(run_socket_, "", 0600);
  Process();
  EXPECT_EQ(runs_, 2);
}

// I10: without the unit, too, the host runs what a key it trusts has signed.
class SignedRunTest : public HostProcessorTest {
 protected:
  SignedRunTest() : key_(*trust::PrivateKey::Generate()) {
    EXPECT_THAT(MakeDirectories(Keys(), 0755), IsOk());
    EXPECT_THAT(
        WriteFileAtomic(JoinPath(Keys(), "a.pem"), *key_.PublicPem(), 0644),
        IsOk());
    v1::Lease& lease = claimed_.lease;
    SetDigest();
    lease.mutable_entry()->add_command("check");
    *lease.mutable_release()->add_entries() = lease.entry();
    v1::Release release = lease.release();
    *release.mutable_artifact() = lease.artifact();
    const auto envelope = trust::SignRelease(release, key_);
    EXPECT_THAT(envelope, IsOk());
    *lease.mutable_envelope() = *envelope;
  }
  void SetDigest() {
    v1::Artifact& artifact = *claimed_.lease.mutable_artifact();
    const auto digest = inspect::ArtifactDigest(artifact);
    ASSERT_THAT(digest, IsOk());
    artifact.mutable_digest()->set_sha256(digest->Raw());
  }
  std::string Keys() const { return JoinPath(temp_.path(), "keys"); }
  // What the hook answers for one attempt.
  v1::Observation Attempt() {
    trust_.keys = Keys();
    trust_.labels = JoinPath(temp_.path(), "labels");
    trust_.owner = getuid();
    v1::Observation seen;
    in_run_ = [&](const std::string&, const runner::AttemptHooks& hooks) {
      ASSERT_TRUE(hooks.run);
      v1::RunRequest request;
      request.set_attempt_id("a1");
      *request.mutable_entry() = claimed_.lease.entry();
      seen = hooks.run(request, absl::Minutes(1), nullptr).observation();
    };
    Process();
    return seen;
  }
  void ExpectRefused(const std::string& why) {
    const v1::Observation seen = Attempt();
    EXPECT_EQ(seen.ending(), v1::ENDING_NOT_STARTED);
    EXPECT_EQ(seen.attempt_id(), "a1");
    EXPECT_THAT(seen.problem(), HasSubstr(why));
    EXPECT_FALSE(child_) << "it ran";
  }

  const trust::PrivateKey key_;
};

TEST_F(SignedRunTest, RunsTheEntryThatWasSigned) {
  // What the coordinator says beside it does not count.
  claimed_.lease.mutable_entry()->add_command("--more");
  EXPECT_EQ(Attempt().exit_code(), 7);
  ASSERT_TRUE(child_);
  EXPECT_THAT(child_->entry().command(), ElementsAre("check"));
}

TEST_F(SignedRunTest, UnsignedIsRefused) {
  claimed_.lease.clear_envelope();
  ExpectRefused("TP130 release-refused: it is not signed");
}

TEST_F(SignedRunTest, WithoutAKeyNothingRuns) {
  ASSERT_THAT(RemoveTree(JoinPath(Keys(), "a.pem")), IsOk());
  ExpectRefused("TP130 release-refused: no key is trusted");
}

TEST_F(SignedRunTest, WhatTheCoordinatorChangesIsRefused) {
  claimed_.lease.mutable_release()->mutable_entries(0)->add_command("--more");
  ExpectRefused("TP130");
}

TEST_F(SignedRunTest, FilesThatWereNotSignedAreRefused) {
  AddFile("more", "another program");
  SetDigest();
  ExpectRefused("TP130 release-refused: what was signed is another release");
}

// The unit gets the release as it was signed and the files as they lie in the
// cell's folder; what it answers is what was seen.
TEST_F(HostProcessorTest, WithTheSocketRunsAreAskedFor) {
  run_socket_ = JoinPath(temp_.path(), "run.sock");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  run_socket_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)),
            0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  claimed_.lease.mutable_release()->set_source_revision("r1");
  claimed_.lease.mutable_envelope()->set_payload("signed");
  v1::UnitRunRequest asked;
  std::string sent;
  std::thread unit([&] {
    const UniqueFd connection(accept(listener.get(), nullptr, nullptr));
    const auto patience = runner::Patience::For(absl::Minutes(1));
    EXPECT_THAT(runner::ReadMessage(connection.get(), patience, 1 << 20, asked),
                IsOk());
    v1::UnitRunReply reply;
    reply.mutable_files_wanted()->set_count(1);
    EXPECT_THAT(runner::WriteMessage(connection.get(), patience, reply),
                IsOk());
    const auto files =
        runner::ReceiveDescriptors(connection.get(), 1, patience);
    EXPECT_THAT(files, IsOk());
    if (files.ok()) sent = PreadUpTo((*files)[0].get(), 0, 100).value_or("?");
    reply.mutable_response()->mutable_observation()->set_attempt_id("a1");
    reply.mutable_response()->mutable_observation()->set_exit_code(3);
    EXPECT_THAT(runner::WriteMessage(connection.get(), patience, reply),
                IsOk());
  });
  in_run_ = [](const std::string&, const runner::AttemptHooks& hooks) {
    ASSERT_TRUE(hooks.run);
    v1::RunRequest request;
    request.set_attempt_id("a1");
    request.set_path(v1::PATH_NATIVE);
    request.add_gpu_uuids("GPU-1");
    EXPECT_EQ(
        hooks.run(request, absl::Minutes(1), nullptr).observation().exit_code(),
        3);
  };
  Process();
  unit.join();
  EXPECT_EQ(sent, "program");
  EXPECT_EQ(asked.attempt_id(), "a1");
  EXPECT_EQ(asked.entry(), "smoke");
  EXPECT_EQ(asked.gpu_uuids(0), "GPU-1");
  EXPECT_EQ(asked.release().source_revision(), "r1");
  EXPECT_EQ(asked.release().artifact().files(0).name(), "check");
  EXPECT_EQ(asked.envelope().payload(), "signed");
}

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

TEST_F(HostProcessorTest, ABusyGpuIsWaitedForUntilItIsFree) {
  facts_now_ = Facts(/*processes=*/1);
  control_.on_wait = [this] {
    if (control_.waits == 3) facts_now_ = Facts(0);
  };
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.result);
  EXPECT_TRUE(outcome.result->complete());
  EXPECT_EQ(control_.waits, 3);
  EXPECT_THAT(control_.progress, Contains(HasSubstr("1 compute process")));
}

TEST_F(HostProcessorTest, AGpuThatStaysBusyGivesTheLeaseBack) {
  facts_now_ = Facts(/*processes=*/1);
  control_.on_wait = [this] { control_.may_start = control_.waits < 5; };
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.refusal);
  EXPECT_EQ(outcome.refusal->code(), "TP111");
  EXPECT_EQ(runs_, 0);
}

TEST_F(HostProcessorTest, TheHostsPolicyMayAllowABusyGpu) {
  facts_now_ = Facts(/*processes=*/1);
  policy_ = GpuPolicy::kAlways;
  EXPECT_TRUE(Process().result);
  EXPECT_EQ(control_.waits, 0);
}

// The host's own commands, and what each of their answers leads to.
class ReservedTest : public HostProcessorTest {
 protected:
  ReservedTest() {
    policy_ = GpuPolicy::kReserved;
    EXPECT_THAT(MakeDirectories(JoinPath(temp_.path(), "owed")), IsOk());
    commands_.release = {Script("release", "echo released >> log")};
  }
  std::string Script(const std::string& name, const std::string& text) {
    const std::string path = JoinPath(temp_.path(), name);
    Spit(path, absl::StrCat("#!/bin/sh\ncd ", temp_.path(), "\n", text, "\n"),
         0755);
    return path;
  }
  void Reserve(const std::string& text) {
    commands_.reserve = {Script("reserve", text)};
    reservations_ = std::make_unique<GpuReservations>(
        commands_, JoinPath(temp_.path(), "owed"));
  }
  std::string Log() const {
    return ReadFile(JoinPath(temp_.path(), "log"), 1000).value_or("");
  }
  ReservationCommands commands_;
};

TEST_F(ReservedTest, RunsBetweenReserveAndRelease) {
  // Reserved is reserved: who else computes there is not asked.
  facts_now_ = Facts(/*processes=*/1);
  Reserve("echo $TWINPATH_CELL $TWINPATH_GPU_UUIDS >> log");
  in_run_ = [this](const std::string&, const runner::AttemptHooks&) {
    EXPECT_EQ(Log(), "cell-1 GPU-1\n");
  };
  CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.result);
  EXPECT_TRUE(outcome.result->complete());
  EXPECT_EQ(runs_, 1);
  // The worker lets go once the result is safe.
  EXPECT_EQ(Log(), "cell-1 GPU-1\n");
  outcome.hold.reset();
  EXPECT_EQ(Log(), "cell-1 GPU-1\nreleased\n");
}

TEST_F(ReservedTest, NotGrantedIsWaitedFor) {
  Reserve("echo asked >> log; test $(wc -l < log) -ge 3 || exit 75");
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.result);
  EXPECT_TRUE(outcome.result->complete());
  EXPECT_EQ(control_.waits, 2);
  EXPECT_THAT(control_.progress, Contains(HasSubstr("does not grant it now")));
}

TEST_F(ReservedTest, NeverGrantedGivesTheLeaseBackAsBusy) {
  Reserve("exit 75");
  control_.on_wait = [this] { control_.may_start = control_.waits < 3; };
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.refusal);
  EXPECT_EQ(outcome.refusal->code(), "TP111");
  EXPECT_EQ(runs_, 0);
}

TEST_F(ReservedTest, CommandThatFailsIsNamed) {
  Reserve("echo no such partition >&2; exit 2");
  control_.on_wait = [this] { control_.may_start = false; };
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.refusal);
  EXPECT_EQ(outcome.refusal->code(), "TP137");
  EXPECT_THAT(outcome.refusal->detail(), HasSubstr("no such partition"));
  EXPECT_EQ(runs_, 0);
}

TEST_F(ReservedTest, GrantedTooLateIsReleased) {
  Reserve("exit 0");
  // The lease runs out while the host is asked.
  control_.may_start = true;
  facts_now_.mutable_gpu_probe()->set_state(v1::PROBE_STATE_HUNG);
  {
    const CellOutcome outcome = Process();
    ASSERT_TRUE(outcome.result);
    EXPECT_FALSE(outcome.result->complete());
  }
  EXPECT_EQ(Log(), "released\n");
}

TEST_F(HostProcessorTest, NothingStartsOnADriverThatHangs) {
  facts_now_.mutable_gpu_probe()->set_state(v1::PROBE_STATE_HUNG);
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.result);
  EXPECT_FALSE(outcome.result->complete());
  EXPECT_EQ(outcome.result->problems(0).code(), "TP103");
  EXPECT_EQ(runs_, 0);
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
