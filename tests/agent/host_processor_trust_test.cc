// Whose runs are started, and where: signed releases, the run unit, the host's
// own word.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "inspect/manifest.h"
#include "runner/unit_socket.h"
#include "tests/agent/host_processor_fixture.h"
#include "trust/signed_release.h"

namespace twinpath::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace twinpath::agent
