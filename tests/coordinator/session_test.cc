#include "coordinator/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "google/protobuf/util/json_util.h"
#include "tests/coordinator/fixture.h"

namespace twinpath::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Message = v1::CoordinatorMessage;

class SessionTest : public CoordinatorTest {};

TEST_F(SessionTest, HelloIsAcknowledged) {
  FakeAgent a = Enrol("a");
  a.SendHello(a.MakeHello());
  const v1::HelloAck ack = a.peer().Await(Message::kHelloAck).hello_ack();
  EXPECT_EQ(ack.protocol(), 1u);
  EXPECT_EQ(ack.session(), 1u);
  EXPECT_EQ(ack.heartbeat_interval().seconds(), 30);
  a.Connect();
  v1::GetHostRequest request;
  request.set_host("a");
  const auto host = coordinator_->fleet().Get(request);
  ASSERT_THAT(host, IsOk());
  EXPECT_TRUE(host->connected());
  EXPECT_EQ(host->session(), 2u);
  EXPECT_EQ(host->agent_version(), "1.2.3");
}

TEST_F(SessionTest, HeartbeatsSlowDownWithTheFleet) {
  const SessionOptions options;
  EXPECT_EQ(HeartbeatInterval(options, 1), absl::Seconds(30));
  EXPECT_EQ(HeartbeatInterval(options, 15'000), absl::Seconds(30));
  EXPECT_EQ(HeartbeatInterval(options, 30'000), absl::Seconds(60));
}

TEST_F(SessionTest, ProtocolMismatchNamesBothRanges) {
  FakeAgent a = Enrol("a");
  v1::Hello hello = a.MakeHello();
  hello.set_protocol_min(7);
  hello.set_protocol_max(9);
  a.SendHello(hello);
  EXPECT_THAT(a.peer().AwaitClose(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("speaks 7 to 9"), HasSubstr("speaks 1"),
                             HasSubstr("upgrade"))));
}

TEST_F(SessionTest, WrongSecretAndUnknownHostReadTheSame) {
  FakeAgent a = Enrol("a");
  v1::Hello hello = a.MakeHello();
  hello.set_secret(std::string(64, '0'));
  a.SendHello(hello);
  const absl::Status wrong = a.peer().AwaitClose();
  EXPECT_THAT(wrong, StatusIs(absl::StatusCode::kUnauthenticated));
  hello = a.MakeHello();
  hello.set_host_id("nobody");
  a.SendHello(hello);
  EXPECT_EQ(a.peer().AwaitClose(), wrong);
  // Nothing was raised for either.
  a.SendHello(a.MakeHello());
  EXPECT_EQ(a.peer().Await(Message::kHelloAck).hello_ack().session(), 1u);
}

TEST_F(SessionTest, HelloMustBeFirstAndOnce) {
  FakeAgent a = Enrol("a");
  a.Connect();
  v1::AgentMessage again;
  *again.mutable_hello() = a.MakeHello();
  a.Send(again);
  EXPECT_THAT(a.peer().AwaitClose(),
              StatusIs(absl::StatusCode::kInvalidArgument));
  FakePeer peer;
  const auto session = coordinator_->NewSession(&peer);
  v1::AgentMessage heartbeat;
  heartbeat.mutable_heartbeat();
  session->OnMessage(heartbeat);
  EXPECT_THAT(peer.AwaitClose(), StatusIs(absl::StatusCode::kInvalidArgument));
  session->OnClosed();
}

TEST_F(SessionTest, SilentStreamsAreClosed) {
  FakePeer peer;
  const auto session = coordinator_->NewSession(&peer);
  FakeAgent a = Join("a");
  clock_.Advance(absl::Seconds(31));
  a.SendHeartbeat();
  coordinator_->Tick();
  EXPECT_THAT(peer.AwaitClose(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  session->OnClosed();
  EXPECT_FALSE(a.peer().closed());
  clock_.Advance(absl::Seconds(4 * 30 + 1));
  coordinator_->Tick();
  EXPECT_THAT(a.peer().AwaitClose(),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(SessionTest, NoLeaseBeforeFactsAndWhileRefused) {
  FakeAgent a = Join("a");
  a.Disconnect();
  a.Connect();
  const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
  a.SendHeartbeat({}, /*refuses=*/true);
  a.SendFacts(MakeFacts("a"));
  a.SendHeartbeat({}, /*refuses=*/true);
  EXPECT_EQ(a.peer().Count(Message::kLease), 0);
  a.SendHeartbeat({}, /*refuses=*/false);
  EXPECT_EQ(a.peer().AwaitLease().sweep_id(), sweep.id());
}

TEST_F(SessionTest, RealHostSendingSimulatedFactsIsRefused) {
  FakeAgent a = Enrol("a");
  a.Connect();
  v1::HostFacts facts = MakeFacts("a");
  facts.set_simulated(true);
  a.SendFacts(facts);
  EXPECT_THAT(a.peer().AwaitClose(),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(SessionTest, ReconnectingAgentKeepsWhatItHolds) {
  FakeAgent a = Join("a");
  StartSweep(MakeSpec(AddArtifact()));
  const v1::Lease lease = a.peer().AwaitLease();
  a.SendProgress(lease, v1::PATH_NATIVE);
  a.Disconnect();
  a.Connect({lease.cell_id()});
  a.SendFacts(MakeFacts("a"));
  a.SendHeartbeat({lease.cell_id()});
  EXPECT_EQ(a.peer().Count(Message::kLease), 0);
  EXPECT_EQ(ReadCell(lease.cell_id()).lease_id, lease.id());
  EXPECT_EQ(ReadCell(lease.cell_id()).lease_session, 2u);
}

TEST_F(SessionTest, LeaseLostOnTheWayIsGivenAgain) {
  FakeAgent a = Join("a");
  StartSweep(MakeSpec(AddArtifact()));
  const v1::Lease lost = a.peer().AwaitLease();
  a.Disconnect();
  a.Connect();
  a.SendFacts(MakeFacts("a"));
  const v1::Lease lease = a.peer().AwaitLease();
  EXPECT_EQ(lease.cell_id(), lost.cell_id());
  EXPECT_NE(lease.id(), lost.id());
}

TEST_F(SessionTest, ExpiredLeaseThatIsHeldIsTakenBackNotRepeated) {
  FakeAgent a = Join("a");
  StartSweep(MakeSpec(AddArtifact()));
  const v1::Lease lease = a.peer().AwaitLease();
  a.Disconnect();
  clock_.Advance(options_.dispatch.lease_time + absl::Seconds(1));
  coordinator_->Tick();
  ASSERT_EQ(ReadCell(lease.cell_id()).cell.state(), v1::CELL_STATE_WAITING);
  a.Connect({lease.cell_id()});
  a.SendFacts(MakeFacts("a"));
  a.SendHeartbeat({lease.cell_id()});
  EXPECT_EQ(a.peer().Count(Message::kLease), 0);
  EXPECT_EQ(ReadCell(lease.cell_id()).cell.state(), v1::CELL_STATE_LEASED);
  EXPECT_EQ(ReadCell(lease.cell_id()).cell.leases(), 1u);
}

TEST_F(SessionTest, AStartedCellThatTheAgentLostIsRunAgain) {
  FakeAgent a = Join("a");
  StartSweep(MakeSpec(AddArtifact()));
  const v1::Lease lost = a.peer().AwaitLease();
  a.SendProgress(lost, v1::PATH_NATIVE);
  a.SendHeartbeat({lost.cell_id()});
  // Its result went bad in the spool: nothing lists the cell any more. For one
  // lease time it may still be on its way.
  a.SendHeartbeat();
  a.SendHeartbeat();
  ASSERT_EQ(ReadCell(lost.cell_id()).cell.state(), v1::CELL_STATE_LEASED);
  clock_.Advance(options_.dispatch.lease_time + absl::Seconds(1));
  a.SendHeartbeat();
  const v1::Lease again = a.peer().AwaitLease();
  EXPECT_EQ(again.cell_id(), lost.cell_id());
  EXPECT_NE(again.id(), lost.id());
}

TEST_F(SessionTest, AStoreThatIsBehindMakesNobodySilent) {
  FakeAgent a = Join("a");
  FakeAgent b = Enrol("b");
  absl::Notification stalled;
  absl::Notification go_on;
  coordinator_->store().Submit(
      [&](StoreTransaction&) {
        if (!stalled.HasBeenNotified()) stalled.Notify();
        go_on.WaitForNotification();
        return absl::OkStatus();
      },
      [](const absl::Status&) {});
  stalled.WaitForNotification();
  v1::AgentMessage progress;
  progress.mutable_progress()->set_cell_id("any");
  a.session()->OnMessage(progress);
  FakePeer peer;
  const auto late = coordinator_->NewSession(&peer);
  v1::AgentMessage hello;
  *hello.mutable_hello() = b.MakeHello();
  late->OnMessage(hello);
  clock_.Advance(absl::Seconds(4 * 30 + 1));
  // Ends only when the store goes on: behind the look for silent sessions it
  // stores signs of life. That write in the queue says that the look is done.
  const int64_t queued = coordinator_->store().Backlog();
  std::thread tick([&] { coordinator_->Tick(); });
  const absl::Time patience = absl::Now() + absl::Minutes(1);
  while (coordinator_->store().Backlog() <= queued && absl::Now() < patience) {
    std::this_thread::yield();
  }
  EXPECT_GT(coordinator_->store().Backlog(), queued);
  EXPECT_FALSE(a.peer().closed());
  EXPECT_FALSE(peer.closed());
  go_on.Notify();
  tick.join();
  late->OnClosed();
}

TEST_F(SessionTest, HostileFactsAndHelloAreRefused) {
  FakeAgent a = Enrol("a");
  v1::Hello hello = a.MakeHello();
  hello.set_agent_version(std::string(100'000, 'v'));
  a.SendHello(hello);
  EXPECT_THAT(a.peer().AwaitClose(),
              StatusIs(absl::StatusCode::kInvalidArgument));
  hello = a.MakeHello();
  hello.mutable_clock()->set_seconds(std::numeric_limits<int64_t>::max());
  a.SendHello(hello);
  a.peer().Await(Message::kHelloAck);
  v1::GetHostRequest request;
  request.set_host("a");
  const auto host = coordinator_->fleet().Get(request);
  ASSERT_THAT(host, IsOk());
  std::string json;
  EXPECT_TRUE(google::protobuf::util::MessageToJsonString(*host, &json).ok());
  v1::HostFacts facts = MakeFacts("a");
  for (int i = 0; i < 1000; ++i) facts.add_gpus()->set_uuid("GPU");
  a.SendFacts(facts);
  EXPECT_THAT(
      a.peer().AwaitClose(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1001 GPUs")));
}

TEST_F(SessionTest, CellsThatAreOverAreGivenUp) {
  FakeAgent a = Join("a");
  a.SendHeartbeat({"long-gone"});
  EXPECT_EQ(a.peer().Await(Message::kCancel).cancel().cell_id(), "long-gone");
}

TEST_F(SessionTest, RefusedLeaseWaitsAndDoesNotCountAsAStart) {
  FakeAgent a = Join("a");
  StartSweep(MakeSpec(AddArtifact()));
  for (int i = 0; i < 5; ++i) {
    const v1::Lease lease = a.peer().AwaitLease();
    a.Refuse(lease, "TP111");
    const CellRow row = ReadCell(lease.cell_id());
    EXPECT_EQ(row.cell.state(), v1::CELL_STATE_WAITING);
    EXPECT_EQ(row.cell.leases(), 0u);
    EXPECT_EQ(row.reasons.at(0).code(), "TP111");
    EXPECT_EQ(a.peer().Count(Message::kLease), 0);
    clock_.Advance(options_.dispatch.refusal_pause);
    coordinator_->Tick();
  }
}

TEST_F(SessionTest, OneCellAtATimeOnAGpuAndABoundedNumberOnAHost) {
  FakeAgent a = Join("a", 3);
  v1::SweepSpec spec = MakeSpec(AddArtifact());
  *spec.mutable_release()->add_entries() = spec.release().entries(0);
  spec.mutable_release()->mutable_entries(1)->set_name("second");
  const v1::Sweep sweep = StartSweep(spec);
  ASSERT_EQ(sweep.cells_size(), 6);
  const v1::Lease first = a.peer().AwaitLease();
  const v1::Lease second = a.peer().AwaitLease();
  EXPECT_NE(first.gpu_uuid(), second.gpu_uuid());
  a.SendHeartbeat({first.cell_id(), second.cell_id()});
  EXPECT_EQ(a.peer().Count(Message::kLease), 0);
  a.SendResult(MakeResult(first, "r1"));
  const v1::Lease third = a.peer().AwaitLease();
  EXPECT_NE(third.gpu_uuid(), second.gpu_uuid());
}

TEST_F(SessionTest, DrainGrantsNothingMore) {
  FakeAgent a = Join("a");
  coordinator_->Drain(absl::Seconds(2));
  EXPECT_EQ(a.peer().Await(Message::kDrain).drain().retry_after().seconds(), 2);
  StartSweep(MakeSpec(AddArtifact()));
  a.SendHeartbeat();
  EXPECT_EQ(a.peer().Count(Message::kLease), 0);
}

TEST_F(SessionTest, ResultWithoutIdIsAProtocolError) {
  FakeAgent a = Join("a");
  a.SendResult({});
  EXPECT_THAT(a.peer().AwaitClose(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(SessionTest, UnknownMessageIsSkipped) {
  FakeAgent a = Join("a");
  a.Send({});
  a.SendHeartbeat();
  EXPECT_FALSE(a.peer().closed());
}

}  // namespace
}  // namespace twinpath::coordinator
