// A Coordinator without network: real store, real verdicts and predictions,
// time moved by hand, inspection answered at once, agents played by the test.

#ifndef TWINPATH_TESTS_COORDINATOR_FIXTURE_H_
#define TWINPATH_TESTS_COORDINATOR_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/fake_clock.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/status_matchers.h"
#include "coordinator/coordinator.h"

namespace twinpath::coordinator {

// The agent's end of a stream. Waits have no limit of their own: a hang is what
// the test runner's limit is for.
class FakePeer final : public SessionPeer {
 public:
  void Send(v1::CoordinatorMessage message) override {
    MutexLock lock(mutex_);
    messages_.push_back(std::move(message));
    changed_.NotifyAll();
  }
  void ReadNext() override {
    MutexLock lock(mutex_);
    ++reads_;
    changed_.NotifyAll();
  }
  void Close(const absl::Status& status) override;

  // Waits until the session asks for its message number `count`, or closes.
  void AwaitReads(int count);
  // Waits for the stream's end.
  absl::Status AwaitClose();
  // Waits for the next message of a kind and takes it out.
  v1::CoordinatorMessage Await(v1::CoordinatorMessage::MessageCase kind);
  v1::Lease AwaitLease() {
    return Await(v1::CoordinatorMessage::kLease).lease();
  }
  // Messages of a kind that are there now.
  int Count(v1::CoordinatorMessage::MessageCase kind);
  bool closed();

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<v1::CoordinatorMessage> messages_ ABSL_GUARDED_BY(mutex_);
  int reads_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// One agent: its identity and its newest stream.
class FakeAgent {
 public:
  FakeAgent(Coordinator& coordinator, v1::EnrolResponse identity)
      : coordinator_(&coordinator), identity_(std::move(identity)) {}
  ~FakeAgent() { Disconnect(); }
  FakeAgent(FakeAgent&&) = default;

  // Opens a stream and says hello; returns when it was dealt with.
  void Connect(const std::vector<std::string>& held = {});
  void SendHello(const v1::Hello& hello);
  v1::Hello MakeHello(const std::vector<std::string>& held = {}) const;
  // Sends a message; returns when it was dealt with.
  void Send(const v1::AgentMessage& message);
  void SendFacts(const v1::HostFacts& facts);
  void SendHeartbeat(const std::vector<std::string>& held = {},
                     bool refuses = false);
  void SendProgress(const v1::Lease& lease, v1::Path path);
  void SendResult(const v1::CellResult& result);
  void Refuse(const v1::Lease& lease, const std::string& code);
  // The stream breaks.
  void Disconnect();

  FakePeer& peer() { return *peer_; }
  const std::string& host_id() const { return identity_.host_id(); }
  v1::EnrolResponse& identity() { return identity_; }
  std::shared_ptr<Session> session() { return session_; }

 private:
  Coordinator* coordinator_;
  v1::EnrolResponse identity_;
  std::shared_ptr<FakePeer> peer_;
  std::shared_ptr<Session> session_;
  int sent_ = 0;
};

// Facts of a host with `gpus` H200s and a driver that answers.
v1::HostFacts MakeFacts(const std::string& name, int gpus = 1);

// A complete result that prints `output` on all paths.
v1::CellResult MakeResult(const v1::Lease& lease, const std::string& id,
                          const std::string& output = "ok\n");

class CoordinatorTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  // Ends and starts the coordinator over the same state.
  void Restart();

  FakeAgent Enrol(const std::string& name, bool simulated = false);
  // Enrolled, connected, with facts.
  FakeAgent Join(const std::string& name, int gpus = 1);
  // Stores a one-file artifact and registers it.
  v1::Artifact AddArtifact(const std::string& content = "program");
  // A spec with one entry "check" for that artifact.
  v1::SweepSpec MakeSpec(const v1::Artifact& artifact);
  v1::Sweep StartSweep(const v1::SweepSpec& spec);
  v1::Sweep GetSweep(const std::string& id);
  // Waits until the sweep's cell is in the state.
  void AwaitCell(const std::string& sweep_id, int index, v1::CellState state);
  // Waits until the sweep has ended.
  v1::Sweep AwaitEnd(const std::string& sweep_id);
  CellRow ReadCell(const std::string& id);

  FakeClock clock_;
  TempDirectory folder_ = *TempDirectory::Make();
  CoordinatorOptions options_;
  Model model_;
  std::unique_ptr<Coordinator> coordinator_;
};

}  // namespace twinpath::coordinator

#endif  // TWINPATH_TESTS_COORDINATOR_FIXTURE_H_
