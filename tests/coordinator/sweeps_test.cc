#include "coordinator/sweeps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "coordinator/sqlite_store.h"
#include "coordinator/sweep_view.h"
#include "tests/coordinator/fixture.h"

namespace twinpath::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Message = v1::CoordinatorMessage;

class SweepsTest : public CoordinatorTest {
 protected:
  absl::StatusOr<v1::Sweep> Try(const v1::SweepSpec& spec,
                                const std::string& request_id = "") {
    v1::StartSweepRequest request;
    request.set_request_id(request_id);
    *request.mutable_spec() = spec;
    return coordinator_->sweeps().Start(request);
  }
};

TEST_F(SweepsTest, OneCellForEachGpuAndEntry) {
  FakeAgent b = Join("b", 2);
  FakeAgent a = Join("a", 1);
  v1::SweepSpec spec = MakeSpec(AddArtifact());
  *spec.mutable_release()->add_entries() = spec.release().entries(0);
  spec.mutable_release()->mutable_entries(1)->set_name("attend");
  const v1::Sweep sweep = StartSweep(spec);
  std::vector<std::string> ids;
  for (const v1::Cell& cell : sweep.cells()) {
    ids.push_back(cell.id().substr(sweep.id().size()));
    EXPECT_EQ(cell.predictions_size(), 3);
    EXPECT_EQ(cell.conditions_digest().sha256().size(), 32u);
    EXPECT_EQ(cell.class_digest().sha256().size(), 32u);
    EXPECT_EQ(cell.driver(), "580.95.05 (CUDA 13.0)");
    EXPECT_EQ(cell.gpu_name(), "NVIDIA H200");
  }
  EXPECT_THAT(ids, ElementsAre(".a.0.check", ".a.0.attend", ".b.0.check",
                               ".b.0.attend", ".b.1.check", ".b.1.attend"));
  // Equal hosts are of one class.
  EXPECT_EQ(sweep.spec().deadline().seconds(), 3600);
}

TEST_F(SweepsTest, EntryForAllGpusIsOneExclusiveCell) {
  FakeAgent a = Join("a", 4);
  v1::SweepSpec spec = MakeSpec(AddArtifact());
  v1::Entry& all = *spec.mutable_release()->add_entries();
  all = spec.release().entries(0);
  all.set_name("all");
  all.mutable_gpus()->set_all(true);
  v1::Entry& many = *spec.mutable_release()->add_entries();
  many = spec.release().entries(0);
  many.set_name("many");
  many.mutable_gpus()->set_count(9);
  spec.mutable_release()->mutable_entries()->DeleteSubrange(0, 1);
  const v1::Sweep sweep = StartSweep(spec);
  ASSERT_EQ(sweep.cells_size(), 2);
  EXPECT_EQ(sweep.cells(0).gpu_name(), "4 x NVIDIA H200");
  EXPECT_EQ(sweep.cells(0).gpu_uuid(), "GPU-a-0");
  EXPECT_EQ(sweep.cells(1).state(), v1::CELL_STATE_ENDED);
  EXPECT_EQ(sweep.cells(1).result().problems(0).code(), "TP318");
}

TEST_F(SweepsTest, GpuWithoutCapabilityHasItsCellWithTheReason) {
  FakeAgent a = Enrol("a");
  a.Connect();
  v1::HostFacts facts = MakeFacts("a", 2);
  facts.mutable_gpus(1)->mutable_capability_probe()->set_state(
      v1::PROBE_STATE_FAILED);
  a.SendFacts(facts);
  const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
  ASSERT_EQ(sweep.cells_size(), 2);
  EXPECT_EQ(sweep.cells(1).state(), v1::CELL_STATE_ENDED);
  EXPECT_EQ(sweep.cells(1).result().problems(0).code(), "TP107");
}

TEST_F(SweepsTest, HostWithoutFactsGetsItsCellsWhenTheyCome) {
  FakeAgent a = Enrol("a");
  const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
  ASSERT_EQ(sweep.cells_size(), 1);
  EXPECT_EQ(sweep.cells(0).gpu_uuid(), "");
  EXPECT_EQ(sweep.cells(0).state(), v1::CELL_STATE_WAITING);
  a.Connect();
  a.SendFacts(MakeFacts("a", 2));
  const v1::Lease lease = a.peer().AwaitLease();
  EXPECT_EQ(lease.gpu_uuid(), "GPU-a-0");
  EXPECT_EQ(GetSweep(sweep.id()).cells_size(), 2);
}

TEST_F(SweepsTest, HostThatNeverCameIsNamed) {
  FakeAgent a = Enrol("a");
  const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
  clock_.Advance(absl::Hours(1));
  coordinator_->Tick();
  const v1::Sweep end = GetSweep(sweep.id());
  EXPECT_EQ(end.state(), v1::SWEEP_STATE_DEADLINE);
  EXPECT_THAT(end.missing_hosts(), ElementsAre("a"));
}

TEST_F(SweepsTest, NewFactsRenewCellsThatWait) {
  FakeAgent a = Join("a");
  a.SendHeartbeat({}, /*refuses=*/true);
  const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
  const std::string before = sweep.cells(0).conditions_digest().sha256();
  v1::HostFacts facts = MakeFacts("a");
  facts.mutable_driver()->set_kernel_module_version("590.10.01");
  a.SendFacts(facts);
  while (GetSweep(sweep.id()).version() == sweep.version()) {
    std::this_thread::yield();
  }
  const v1::Sweep after = GetSweep(sweep.id());
  EXPECT_NE(after.cells(0).conditions_digest().sha256(), before);
  EXPECT_EQ(after.cells(0).driver(), "590.10.01 (CUDA 13.0)");
  // The GPU is gone: the cell ends and says so.
  facts.mutable_gpus(0)->set_uuid("GPU-other");
  a.SendFacts(facts);
  const v1::Sweep end = AwaitEnd(sweep.id());
  EXPECT_EQ(end.cells(0).state(), v1::CELL_STATE_ENDED);
}

TEST_F(SweepsTest, ChangedConditionsMakeAnEndedSweepStale) {
  FakeAgent a = Join("a");
  const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
  a.SendResult(MakeResult(a.peer().AwaitLease(), "r1"));
  AwaitEnd(sweep.id());
  v1::HostFacts facts = MakeFacts("a");
  facts.mutable_driver()->set_kernel_module_version("590.10.01");
  a.SendFacts(facts);
  std::vector<std::string> codes;
  const v1::Sweep stale = GetSweep(sweep.id());
  for (const v1::Finding& finding : stale.findings()) {
    codes.push_back(finding.reason().code());
  }
  EXPECT_THAT(codes, ::testing::Contains("TP501"));
}

TEST_F(SweepsTest, UnknownHostNamesTheNearest) {
  FakeAgent a = Join("spark-017");
  v1::SweepSpec spec = MakeSpec(AddArtifact());
  spec.mutable_selector()->add_hosts("spark-071");
  EXPECT_THAT(Try(spec), StatusIs(absl::StatusCode::kNotFound,
                                  AllOf(HasSubstr("'spark-071'"),
                                        HasSubstr("spark-017"))));
}

TEST_F(SweepsTest, LabelsSelect) {
  FakeAgent a = Join("a");
  v1::SweepSpec spec = MakeSpec(AddArtifact());
  spec.mutable_selector()->add_labels("rack=7");
  EXPECT_EQ(StartSweep(spec).verdict().reasons(0).code(), "TP412");
  spec = MakeSpec(spec.release().artifact());
  spec.mutable_release()->add_host_labels("rack=7");
  EXPECT_EQ(StartSweep(spec).cells_size(), 0);
}

TEST_F(SweepsTest, UnregisteredArtifactIsAPrecondition) {
  v1::SweepSpec spec;
  spec.mutable_release()->mutable_artifact()->mutable_digest()->set_sha256(
      Sha256Of("x").Raw());
  EXPECT_THAT(Try(spec), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("push it first")));
  spec.mutable_release()->mutable_artifact()->mutable_digest()->set_sha256("x");
  EXPECT_THAT(Try(spec), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(SweepsTest, AllMistakesOfASpecAreNamedAtOnce) {
  v1::SweepSpec spec = MakeSpec(AddArtifact());
  v1::Entry& entry = *spec.mutable_release()->mutable_entries(0);
  entry.set_name("bad name");
  entry.set_command(0, "ap");
  entry.mutable_expected_output()->set_pattern("(");
  entry.mutable_timeout()->set_seconds(-1);
  *spec.mutable_release()->add_entries() = entry;
  spec.mutable_policy()->set_native(v1::PATH_RULE_SKIPPED);
  spec.mutable_policy()->set_ptx_jit(v1::PATH_RULE_SKIPPED);
  spec.mutable_policy()->set_plain(v1::PATH_RULE_SKIPPED);
  spec.mutable_deadline()->set_seconds(-5);
  EXPECT_THAT(
      Try(spec),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("bad name"), HasSubstr("did you mean 'app'"),
                     HasSubstr("pattern"), HasSubstr("timeout"),
                     HasSubstr("two entries"), HasSubstr("every path"),
                     HasSubstr("deadline"))));
}

TEST_F(SweepsTest, SameRequestIdIsTheSameSweep) {
  FakeAgent a = Join("a");
  const v1::SweepSpec spec = MakeSpec(AddArtifact());
  const auto first = Try(spec, "request-1");
  const auto second = Try(spec, "request-1");
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(first->id(), second->id());
  EXPECT_NE(Try(spec, "request-2")->id(), first->id());
  EXPECT_EQ(coordinator_->sweeps().List({})->sweeps_size(), 2);
}

TEST_F(SweepsTest, CancelEndsAndTellsTheAgent) {
  FakeAgent a = Join("a");
  const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
  const v1::Lease lease = a.peer().AwaitLease();
  const auto end = coordinator_->sweeps().Cancel(sweep.id());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->state(), v1::SWEEP_STATE_CANCELLED);
  EXPECT_EQ(end->cells(0).result().problems(0).code(), "TP416");
  EXPECT_EQ(a.peer().Await(Message::kCancel).cancel().cell_id(),
            lease.cell_id());
  // A result that comes too late is kept and changes nothing.
  a.SendResult(MakeResult(lease, "r1"));
  a.peer().Await(Message::kResultAck);
  EXPECT_EQ(GetSweep(sweep.id()).cells(0).state(), v1::CELL_STATE_ENDED);
  EXPECT_EQ(coordinator_->sweeps().Cancel(sweep.id())->version(),
            end->version());
}

TEST_F(SweepsTest, ASweepThatCannotEndHoldsUpNoOther) {
  // Its artifact is not in the store, so it can never be judged.
  SweepRow broken;
  broken.sweep.set_id("broken");
  broken.sweep.set_state(v1::SWEEP_STATE_RUNNING);
  broken.sweep.set_version(1);
  broken.sweep.mutable_deadline_time()->set_seconds(1);
  broken.sweep.mutable_spec()
      ->mutable_release()
      ->mutable_artifact()
      ->mutable_digest()
      ->set_sha256(std::string(32, 'x'));
  ASSERT_THAT(coordinator_->store().Write([&](StoreTransaction& transaction) {
    return transaction.InsertSweep(broken);
  }),
              IsOk());
  FakeAgent a = Join("a");
  v1::SweepSpec spec = MakeSpec(AddArtifact());
  spec.mutable_deadline()->set_seconds(60);
  const v1::Sweep sweep = StartSweep(spec);
  a.peer().AwaitLease();
  clock_.Advance(absl::Seconds(61));
  EXPECT_THAT(coordinator_->sweeps().Tick(),
              StatusIs(absl::StatusCode::kNotFound,
                       ::testing::HasSubstr("sweep broken")));
  EXPECT_EQ(AwaitEnd(sweep.id()).state(), v1::SWEEP_STATE_DEADLINE);
}

TEST_F(SweepsTest, APageHasABoundInBytes) {
  for (int i = 0; i < 5; ++i) {
    SweepRow row;
    row.sweep.set_id(absl::StrCat("s", i));
    row.sweep.set_state(v1::SWEEP_STATE_DONE);
    row.sweep.set_version(1);
    row.sweep.mutable_spec()->set_name(std::string(6 << 20, 'n'));
    ASSERT_THAT(coordinator_->store().Write([&](StoreTransaction& transaction) {
      return transaction.InsertSweep(row);
    }),
                IsOk());
  }
  v1::ListSweepsRequest request;
  std::vector<std::string> ids;
  do {
    const auto page = coordinator_->sweeps().List(request);
    ASSERT_THAT(page, IsOk());
    EXPECT_LT(page->ByteSizeLong(), size_t{32} << 20);
    for (const v1::Sweep& sweep : page->sweeps()) ids.push_back(sweep.id());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(ids, ::testing::ElementsAre("s4", "s3", "s2", "s1", "s0"));
}

TEST_F(SweepsTest, ALeaseThatNoAgentCouldReadLeavesItsPredictionsOut) {
  FakeAgent a = Join("a");
  StartSweep(MakeSpec(AddArtifact()));
  v1::Lease lease = a.peer().AwaitLease();
  ASSERT_GT(lease.predictions_size(), 0);
  ASSERT_THAT(coordinator_->store().Write(
                  [&](StoreTransaction& transaction) -> absl::Status {
                    absl::StatusOr<CellRow> row =
                        transaction.GetCell(lease.cell_id());
                    if (!row.ok()) return row.status();
                    row->cell.mutable_predictions(0)->add_reasons()->set_detail(
                        std::string(5 << 20, 'd'));
                    return transaction.PutCell(*row);
                  }),
              IsOk());
  a.Refuse(lease, "TP111");
  clock_.Advance(options_.dispatch.refusal_pause);
  coordinator_->Tick();
  lease = a.peer().AwaitLease();
  EXPECT_EQ(lease.predictions_size(), 0);
  EXPECT_LT(lease.ByteSizeLong(), size_t{4} << 20);
}

TEST_F(SweepsTest, UnknownSweepNamesTheNearest) {
  const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
  std::string typo = sweep.id();
  std::swap(typo[2], typo[3]);
  if (typo == sweep.id()) typo.back() = typo.back() == 'a' ? 'b' : 'a';
  EXPECT_THAT(coordinator_->sweeps().Get(typo),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(sweep.id())));
  EXPECT_THAT(coordinator_->sweeps().Cancel("nothing-like-it"),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(SweepsTest, ListIsNewestFirstInPagesWithoutCells) {
  const v1::Artifact artifact = AddArtifact();
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i)
    ids.push_back(StartSweep(MakeSpec(artifact)).id());
  v1::ListSweepsRequest request;
  request.set_page_size(2);
  auto page = coordinator_->sweeps().List(request);
  ASSERT_THAT(page, IsOk());
  EXPECT_EQ(page->sweeps(0).id(), ids[2]);
  EXPECT_EQ(page->sweeps(1).id(), ids[1]);
  EXPECT_EQ(page->sweeps(0).cells_size(), 0);
  request.set_page_token(page->next_page_token());
  page = coordinator_->sweeps().List(request);
  ASSERT_EQ(page->sweeps_size(), 1);
  EXPECT_EQ(page->next_page_token(), "");
  request.set_page_token("rubbish");
  EXPECT_THAT(coordinator_->sweeps().List(request),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(SweepsTest, EndIsTakenUpBehindARestart) {
  std::string sweep_id;
  CellRow row;
  {
    FakeAgent a = Join("a");
    const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
    sweep_id = sweep.id();
    row = ReadCell(a.peer().AwaitLease().cell_id());
  }
  // As if the process had died between the cell's end and the sweep's: written
  // while no coordinator is there to see it.
  coordinator_.reset();
  {
    SqliteStoreOptions options;
    options.clock = &clock_;
    const auto store = SqliteStore::Open(options_.state_folder, options);
    ASSERT_THAT(store, IsOk());
    row.cell.set_state(v1::CELL_STATE_ENDED);
    ASSERT_THAT(
        (*store)->Write([&](StoreTransaction& t) { return t.PutCell(row); }),
        IsOk());
  }
  Restart();
  EXPECT_EQ(GetSweep(sweep_id).state(), v1::SWEEP_STATE_RUNNING);
  coordinator_->Tick();
  EXPECT_EQ(GetSweep(sweep_id).state(), v1::SWEEP_STATE_DONE);
}

TEST_F(SweepsTest, ReleasePastItsNotAfterIsNotStarted) {
  FakeAgent a = Join("a");
  a.SendHeartbeat({}, /*refuses=*/true);
  v1::SweepSpec spec = MakeSpec(AddArtifact());
  *spec.mutable_release()->mutable_not_after() = google::protobuf::Timestamp();
  spec.mutable_release()->mutable_not_after()->set_seconds(
      absl::ToUnixSeconds(clock_.Now()) + 60);
  const v1::Sweep sweep = StartSweep(spec);
  clock_.Advance(absl::Seconds(61));
  a.SendHeartbeat();
  const v1::Sweep end = AwaitEnd(sweep.id());
  EXPECT_EQ(end.cells(0).result().problems(0).code(), "TP502");
  EXPECT_THAT(Try(spec), StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr("not-after")));
}

TEST(SweepViewTest, UnstableAndStaleTakeAPassBack) {
  v1::Sweep sweep;
  sweep.set_state(v1::SWEEP_STATE_DONE);
  sweep.mutable_verdict()->set_kind(v1::VERDICT_KIND_PASS);
  v1::Cell& cell = *sweep.add_cells();
  cell.set_id("c");
  cell.set_host_id("h");
  cell.set_host_name("a");
  cell.set_state(v1::CELL_STATE_DONE);
  cell.mutable_conditions_digest()->set_sha256("old");
  cell.mutable_verdict()->set_kind(v1::VERDICT_KIND_PASS);
  v1::HostVerdict& host = *sweep.add_hosts();
  host.set_host_name("a");
  host.mutable_verdict()->set_kind(v1::VERDICT_KIND_PASS);

  v1::Sweep stale = sweep;
  ApplyStale({{"h", "old"}}, stale);
  EXPECT_EQ(stale.verdict().kind(), v1::VERDICT_KIND_PASS);
  ApplyStale({{"h", "new"}}, stale);
  EXPECT_EQ(stale.verdict().kind(), v1::VERDICT_KIND_STALE);
  EXPECT_EQ(stale.hosts(0).verdict().kind(), v1::VERDICT_KIND_STALE);

  v1::Sweep unstable = sweep;
  ApplyUnstable({"c"}, unstable);
  EXPECT_EQ(unstable.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(unstable.cells(0).verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  ASSERT_EQ(unstable.findings_size(), 1);
  EXPECT_EQ(unstable.findings(0).severity(), v1::SEVERITY_ERROR);
  // Once is enough.
  ApplyUnstable({"c"}, unstable);
  EXPECT_EQ(unstable.findings_size(), 1);
}

TEST(SweepViewTest, TrimmingShortensOutputOnly) {
  v1::Sweep sweep;
  for (int i = 0; i < 20; ++i) {
    v1::Observation& observation =
        *sweep.add_cells()->mutable_result()->add_observations();
    observation.mutable_stdout()->set_head(std::string(60'000, 'x'));
    observation.mutable_stdout()->set_total_bytes(60'000);
  }
  EXPECT_TRUE(TrimSweep(100'000, sweep));
  EXPECT_LE(sweep.ByteSizeLong(), 100'000u);
  const v1::CapturedOutput& kept =
      sweep.cells(0).result().observations(0).stdout();
  EXPECT_EQ(kept.head().size(), 2048u);
  EXPECT_EQ(kept.total_bytes(), 60'000u);
}

}  // namespace
}  // namespace twinpath::coordinator
