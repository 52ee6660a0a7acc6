// The invariants of the design, one by one, as far as they are the
// coordinator's. (I3 and I11 are the agent's; I8 also inspect's.)

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/digest.h"
#include "coordinator/sqlite_store.h"
#include "tests/coordinator/fixture.h"

namespace twinpath::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Message = v1::CoordinatorMessage;

class InvariantsTest : public CoordinatorTest {};

// I1: a cell belongs to one host GPU; its lease never moves.
TEST_F(InvariantsTest, I1_ExpiredLeaseWaitsForItsOwnHost) {
  FakeAgent a = Join("a");
  FakeAgent b = Join("b");
  v1::SweepSpec spec = MakeSpec(AddArtifact());
  spec.mutable_selector()->add_hosts("a");
  const v1::Sweep sweep = StartSweep(spec);
  const v1::Lease lease = a.peer().AwaitLease();
  EXPECT_EQ(lease.gpu_uuid(), "GPU-a-0");
  a.Disconnect();
  clock_.Advance(options_.dispatch.lease_time + absl::Seconds(1));
  coordinator_->Tick();
  EXPECT_EQ(ReadCell(lease.cell_id()).cell.state(), v1::CELL_STATE_WAITING);
  EXPECT_EQ(ReadCell(lease.cell_id()).cell.host_id(), a.host_id());
  // The other host is there and idle, and gets nothing.
  b.SendHeartbeat();
  coordinator_->Tick();
  EXPECT_EQ(b.peer().Count(Message::kLease), 0);
  // The host itself gets it again, as a new lease.
  a.Connect();
  a.SendFacts(MakeFacts("a"));
  const v1::Lease again = a.peer().AwaitLease();
  EXPECT_EQ(again.cell_id(), lease.cell_id());
  EXPECT_NE(again.id(), lease.id());
  EXPECT_EQ(ReadCell(lease.cell_id()).cell.leases(), 2u);
}

// I1: a lease says how long it permits to start, by no clock but the agent's.
TEST_F(InvariantsTest, I1_LeaseIsPermissionToStartWithinATime) {
  FakeAgent a = Join("a");
  StartSweep(MakeSpec(AddArtifact()));
  const v1::Lease lease = a.peer().AwaitLease();
  EXPECT_EQ(lease.start_within().seconds(),
            absl::ToInt64Seconds(options_.dispatch.lease_time));
}

// I2: the first complete result decides; the same again changes nothing.
TEST_F(InvariantsTest, I2_DuplicateResultCountsOnce) {
  FakeAgent a = Join("a", 2);
  const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
  const v1::Lease lease = a.peer().AwaitLease();
  const v1::CellResult result = MakeResult(lease, "r1");
  a.SendResult(result);
  EXPECT_EQ(a.peer().Await(Message::kResultAck).result_ack().result_id(), "r1");
  const uint64_t version = GetSweep(sweep.id()).version();
  a.SendResult(result);
  EXPECT_EQ(a.peer().Await(Message::kResultAck).result_ack().result_id(), "r1");
  EXPECT_EQ(GetSweep(sweep.id()).version(), version);
  EXPECT_EQ(ReadCell(lease.cell_id()).result_id, "r1");
  EXPECT_THAT(coordinator_->store().Read([&](const StoreView& view) {
    EXPECT_EQ(view.ListResults(lease.cell_id())->size(), 1u);
    return absl::OkStatus();
  }),
              IsOk());
}

// I2: a later complete result is kept, compared, and never decides.
TEST_F(InvariantsTest, I2_LaterDifferentResultIsUnstable) {
  FakeAgent a = Join("a");
  const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
  const v1::Lease lease = a.peer().AwaitLease();
  a.SendResult(MakeResult(lease, "r1", "one\n"));
  AwaitEnd(sweep.id());
  a.SendResult(MakeResult(lease, "r2", "one\n"));
  EXPECT_FALSE(ReadCell(lease.cell_id()).unstable);
  a.SendResult(MakeResult(lease, "r3", "two\n"));
  EXPECT_EQ(a.peer().Count(Message::kResultAck), 3);
  EXPECT_TRUE(ReadCell(lease.cell_id()).unstable);
  const v1::Sweep after = GetSweep(sweep.id());
  EXPECT_EQ(after.cells(0).result().result_id(), "r1");
  EXPECT_NE(after.verdict().kind(), v1::VERDICT_KIND_PASS);
  std::vector<std::string> codes;
  for (const v1::Finding& finding : after.findings()) {
    codes.push_back(finding.reason().code());
  }
  EXPECT_THAT(codes, ::testing::Contains("TP410"));
}

// I2: running is at least once: what was interrupted runs again, and is given
// up behind the third start.
TEST_F(InvariantsTest, I2_InterruptedRunsAgainThenGivesUp) {
  FakeAgent a = Join("a");
  const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
  for (int start = 1; start <= 3; ++start) {
    const v1::Lease lease = a.peer().AwaitLease();
    EXPECT_EQ(ReadCell(lease.cell_id()).cell.leases(),
              static_cast<uint32_t>(start));
    v1::CellResult result = MakeResult(lease, "r" + std::to_string(start));
    result.set_complete(false);
    result.add_problems()->set_code("TP307");
    a.SendResult(result);
  }
  const v1::Sweep end = AwaitEnd(sweep.id());
  EXPECT_EQ(end.state(), v1::SWEEP_STATE_DONE);
  EXPECT_EQ(end.cells(0).state(), v1::CELL_STATE_ENDED);
  ASSERT_GE(end.cells(0).result().problems_size(), 2);
  EXPECT_EQ(end.cells(0).result().problems(0).code(), "TP417");
  EXPECT_EQ(end.cells(0).result().problems(1).code(), "TP307");
  EXPECT_EQ(end.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(end.missing_hosts(), ElementsAre("a"));
}

// I4: no acknowledgement before the commit.
TEST_F(InvariantsTest, I4_AcknowledgedBehindTheCommit) {
  FakeAgent a = Join("a");
  StartSweep(MakeSpec(AddArtifact()));
  const v1::Lease lease = a.peer().AwaitLease();
  // The writer is held up, so nothing can be committed.
  Mutex mutex;
  CondVar changed;
  bool entered = false;
  bool go = false;
  coordinator_->store().Submit(
      [&](StoreTransaction&) {
        MutexLock lock(mutex);
        entered = true;
        changed.NotifyAll();
        while (!go) changed.Wait(mutex);
        return absl::OkStatus();
      },
      [](const absl::Status&) {});
  {
    MutexLock lock(mutex);
    while (!entered) changed.Wait(mutex);
  }
  v1::AgentMessage message;
  *message.mutable_result() = MakeResult(lease, "r1");
  a.session()->OnMessage(message);
  EXPECT_EQ(a.peer().Count(Message::kResultAck), 0);
  {
    MutexLock lock(mutex);
    go = true;
    changed.NotifyAll();
  }
  a.peer().Await(Message::kResultAck);
  EXPECT_EQ(ReadCell(lease.cell_id()).cell.state(), v1::CELL_STATE_DONE);
}

// I4: what could not be stored is not acknowledged; with room it is.
TEST_F(InvariantsTest, I4_FullStoreAcknowledgesNothing) {
  FakeAgent a = Join("a");
  StartSweep(MakeSpec(AddArtifact()));
  const v1::Lease lease = a.peer().AwaitLease();
  auto& store = dynamic_cast<SqliteStore&>(coordinator_->store());
  ASSERT_THAT(store.SetMaxPages(1), IsOk());
  const v1::CellResult result =
      MakeResult(lease, "r1", std::string(200'000, 'x'));
  a.SendResult(result);
  EXPECT_THAT(a.peer().AwaitClose(),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(a.peer().Count(Message::kResultAck), 0);
  ASSERT_THAT(store.SetMaxPages(1'000'000), IsOk());
  a.Connect({lease.cell_id()});
  a.SendResult(result);
  a.peer().Await(Message::kResultAck);
  EXPECT_EQ(ReadCell(lease.cell_id()).cell.state(), v1::CELL_STATE_DONE);
}

// I5: a newer session closes the older one, whose words count no more.
TEST_F(InvariantsTest, I5_OlderSessionIsAbortedAndFenced) {
  FakeAgent a = Join("a");
  StartSweep(MakeSpec(AddArtifact()));
  const v1::Lease lease = a.peer().AwaitLease();
  // The same identity connects again; the old stream has not noticed.
  FakeAgent twin(*coordinator_, a.identity());
  twin.Connect({lease.cell_id()});
  EXPECT_THAT(a.peer().AwaitClose(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("newer session")));
  EXPECT_EQ(ReadCell(lease.cell_id()).lease_session, 2u);
}

// I5: the fence is the number in the store, not what this process remembers.
TEST_F(InvariantsTest, I5_FenceIsTheStoresNumber) {
  FakeAgent a = Join("a");
  v1::SweepSpec spec = MakeSpec(AddArtifact());
  // Another coordinator on the same store takes the host over.
  EXPECT_THAT(coordinator_->store().Write([&](StoreTransaction& transaction) {
    return transaction.RaiseSession(a.host_id()).status();
  }),
              IsOk());
  const v1::Sweep sweep = StartSweep(spec);
  a.SendHeartbeat({"some-cell"});
  EXPECT_THAT(a.peer().AwaitClose(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(a.peer().Count(Message::kLease), 0);
  EXPECT_EQ(GetSweep(sweep.id()).cells(0).state(), v1::CELL_STATE_WAITING);
}

// I5: results are not fenced.
TEST_F(InvariantsTest, I5_ResultsAreNotFenced) {
  FakeAgent a = Join("a");
  StartSweep(MakeSpec(AddArtifact()));
  const v1::Lease lease = a.peer().AwaitLease();
  EXPECT_THAT(coordinator_->store().Write([&](StoreTransaction& transaction) {
    return transaction.RaiseSession(a.host_id()).status();
  }),
              IsOk());
  a.SendResult(MakeResult(lease, "r1"));
  a.peer().Await(Message::kResultAck);
  EXPECT_EQ(ReadCell(lease.cell_id()).cell.state(), v1::CELL_STATE_DONE);
}

// I5: but only the cell's own host delivers them.
TEST_F(InvariantsTest, I5_ResultOfAnotherHostCountsForNothing) {
  FakeAgent a = Join("a");
  FakeAgent b = Join("b");
  v1::SweepSpec spec = MakeSpec(AddArtifact());
  spec.mutable_selector()->add_hosts("a");
  StartSweep(spec);
  const v1::Lease lease = a.peer().AwaitLease();
  b.SendResult(MakeResult(lease, "r1"));
  b.peer().Await(Message::kResultAck);
  EXPECT_EQ(ReadCell(lease.cell_id()).cell.state(), v1::CELL_STATE_LEASED);
}

// I6: behind a restart no lease expires before one full lease time.
TEST_F(InvariantsTest, I6_RestartGivesOneFullLeaseTime) {
  std::string cell;
  {
    FakeAgent a = Join("a");
    StartSweep(MakeSpec(AddArtifact()));
    cell = a.peer().AwaitLease().cell_id();
  }
  // Down for longer than the lease.
  clock_.Advance(3 * options_.dispatch.lease_time);
  Restart();
  coordinator_->Tick();
  EXPECT_EQ(ReadCell(cell).cell.state(), v1::CELL_STATE_LEASED);
  clock_.Advance(options_.dispatch.lease_time - absl::Seconds(1));
  coordinator_->Tick();
  EXPECT_EQ(ReadCell(cell).cell.state(), v1::CELL_STATE_LEASED);
  clock_.Advance(absl::Seconds(1));
  coordinator_->Tick();
  EXPECT_EQ(ReadCell(cell).cell.state(), v1::CELL_STATE_WAITING);
}

// I6: the agent's list of what it holds keeps a lease alive.
TEST_F(InvariantsTest, I6_HeldCellsKeepTheirLeases) {
  FakeAgent a = Join("a");
  StartSweep(MakeSpec(AddArtifact()));
  const std::string cell = a.peer().AwaitLease().cell_id();
  for (int i = 0; i < 5; ++i) {
    clock_.Advance(options_.dispatch.lease_time - absl::Seconds(10));
    a.SendHeartbeat({cell});
    coordinator_->Tick();
    EXPECT_EQ(ReadCell(cell).cell.state(), v1::CELL_STATE_LEASED);
  }
  EXPECT_EQ(ReadCell(cell).cell.leases(), 1u);
}

// I6: deadlines go by the store's clock.
TEST_F(InvariantsTest, I6_DeadlineByTheStoresClock) {
  FakeAgent a = Join("a");
  v1::SweepSpec spec = MakeSpec(AddArtifact());
  spec.mutable_deadline()->set_seconds(600);
  const v1::Sweep sweep = StartSweep(spec);
  const v1::Lease lease = a.peer().AwaitLease();
  clock_.Advance(absl::Seconds(599));
  a.SendHeartbeat({lease.cell_id()});
  coordinator_->Tick();
  EXPECT_EQ(GetSweep(sweep.id()).state(), v1::SWEEP_STATE_RUNNING);
  clock_.Advance(absl::Seconds(1));
  coordinator_->Tick();
  const v1::Sweep end = GetSweep(sweep.id());
  EXPECT_EQ(end.state(), v1::SWEEP_STATE_DEADLINE);
  EXPECT_THAT(end.missing_hosts(), ElementsAre("a"));
  EXPECT_EQ(end.cells(0).result().problems(0).code(), "TP413");
  EXPECT_EQ(end.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(a.peer().Await(Message::kCancel).cancel().cell_id(),
            lease.cell_id());
}

// A host whose owner paused it did not fail, and the answer says why there is
// none.
TEST_F(InvariantsTest, I7_PausedHostIsInconclusiveAndNamed) {
  FakeAgent a = Join("a");
  v1::SweepSpec spec = MakeSpec(AddArtifact());
  spec.mutable_deadline()->set_seconds(600);
  const v1::Sweep sweep = StartSweep(spec);
  a.peer().AwaitLease();
  v1::HostFacts facts = MakeFacts("a");
  facts.set_paused(true);
  a.SendFacts(facts);
  clock_.Advance(absl::Seconds(600));
  coordinator_->Tick();
  const v1::Sweep end = GetSweep(sweep.id());
  EXPECT_EQ(end.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  std::vector<std::string> codes;
  for (const v1::Reason& reason : end.cells(0).result().problems()) {
    codes.push_back(reason.code());
  }
  EXPECT_THAT(codes, ElementsAre("TP413", "TP138"));
}

// I7: no hosts, no pass.
TEST_F(InvariantsTest, I7_NoHostsIsInconclusive) {
  v1::SweepSpec spec = MakeSpec(AddArtifact());
  const v1::Sweep sweep = StartSweep(spec);
  EXPECT_EQ(sweep.state(), v1::SWEEP_STATE_DONE);
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(sweep.verdict().reasons(0).code(), "TP412");
}

// I7: what a simulated host says stays simulated, whatever it claims.
TEST_F(InvariantsTest, I7_SimulatedNeverPasses) {
  FakeAgent a = Enrol("sim", /*simulated=*/true);
  a.Connect();
  // It claims to be real.
  v1::HostFacts facts = MakeFacts("sim");
  facts.set_simulated(false);
  a.SendFacts(facts);
  const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
  v1::CellResult result = MakeResult(a.peer().AwaitLease(), "r1");
  result.set_simulated(false);
  a.SendResult(result);
  const v1::Sweep end = AwaitEnd(sweep.id());
  EXPECT_TRUE(end.cells(0).simulated());
  EXPECT_TRUE(end.cells(0).result().simulated());
  EXPECT_TRUE(end.hosts(0).simulated());
  EXPECT_NE(end.verdict().kind(), v1::VERDICT_KIND_PASS);
}

// I7: a host that cannot run anything is seen, with the reason.
TEST_F(InvariantsTest, I7_HostWithoutGpuHasAVisibleCell) {
  FakeAgent a = Enrol("cpu");
  a.Connect();
  v1::HostFacts facts = MakeFacts("cpu", 0);
  facts.mutable_driver()->Clear();
  facts.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_ABSENT);
  a.SendFacts(facts);
  const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
  EXPECT_EQ(sweep.state(), v1::SWEEP_STATE_DONE);
  ASSERT_EQ(sweep.cells_size(), 1);
  EXPECT_EQ(sweep.cells(0).gpu_uuid(), "");
  EXPECT_EQ(sweep.cells(0).state(), v1::CELL_STATE_ENDED);
  EXPECT_EQ(sweep.cells(0).result().problems(0).code(), "TP101");
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
}

// I8: the digest is computed anew over the manifest's lines.
TEST_F(InvariantsTest, I8_WrongArtifactDigestIsDataLoss) {
  v1::RegisterArtifactRequest request;
  *request.mutable_artifact() = AddArtifact();
  request.mutable_artifact()->mutable_digest()->set_sha256(
      Sha256Of("other").Raw());
  EXPECT_THAT(coordinator_->artifacts().Register(request),
              StatusIs(absl::StatusCode::kDataLoss));
}

// I9: no entry sets a switch that decides what a path proves.
TEST_F(InvariantsTest, I9_EntriesCannotSetTheSwitches) {
  const v1::Artifact artifact = AddArtifact();
  for (const char* name :
       {"CUDA_FORCE_PTX_JIT", "CUDA_FORCE_JIT", "CUDA_DISABLE_PTX_JIT",
        "CUDA_DISABLE_JIT", "CUDA_CACHE_DISABLE", "CUDA_CACHE_PATH",
        "CUDA_CACHE_MAXSIZE", "CUDA_VISIBLE_DEVICES", "LD_PRELOAD"}) {
    v1::StartSweepRequest request;
    *request.mutable_spec() = MakeSpec(artifact);
    request.mutable_spec()
        ->mutable_release()
        ->mutable_entries(0)
        ->add_environment()
        ->set_name(name);
    EXPECT_THAT(coordinator_->sweeps().Start(request),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(name)));
  }
}

}  // namespace
}  // namespace twinpath::coordinator
