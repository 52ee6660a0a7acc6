// What every store must do. A store's test file names a fixture that makes it
// and instantiates the suite:
//
//   class MyStoreTest : public StoreConformance { Store& store() override; ...
//   TWINPATH_STORE_CONFORMANCE(MyStoreTest)

#ifndef TWINPATH_TESTS_COORDINATOR_STORE_CONFORMANCE_H_
#define TWINPATH_TESTS_COORDINATOR_STORE_CONFORMANCE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/fake_clock.h"
#include "base/mutex.h"
#include "base/status_matchers.h"
#include "coordinator/store.h"

namespace twinpath::coordinator {

inline HostRow MakeHostRow(const std::string& id, const std::string& name) {
  HostRow host;
  host.id = id;
  host.name = name;
  host.machine_id = "machine-" + id;
  host.secret_digest = Sha256Of("secret of " + id);
  host.labels = {"rack=1", "site=b"};
  host.enrolled = absl::FromUnixSeconds(1000);
  return host;
}

inline SweepRow MakeSweepRow(const std::string& id,
                             const std::string& request_id = "") {
  SweepRow row;
  row.request_id = request_id;
  row.sweep.set_id(id);
  row.sweep.set_state(v1::SWEEP_STATE_RUNNING);
  row.sweep.set_version(1);
  row.sweep.mutable_deadline_time()->set_seconds(5000);
  row.sweep.mutable_spec()->set_name("night");
  return row;
}

inline CellRow MakeCellRow(const std::string& sweep, const std::string& host,
                           const std::string& id, int64_t ordinal = 0) {
  CellRow row;
  row.cell.set_id(id);
  row.cell.set_sweep_id(sweep);
  row.cell.set_host_id(host);
  row.cell.set_host_name("name-" + host);
  row.cell.set_entry("check");
  row.cell.set_state(v1::CELL_STATE_WAITING);
  row.ordinal = ordinal;
  return row;
}

class StoreConformance : public ::testing::Test {
 public:
  virtual Store& store() = 0;

  // Runs writes that must succeed.
  void Write(Store::WriteWork work) {
    ASSERT_THAT(store().Write(std::move(work)), IsOk());
  }
  // One host "h", one running sweep "s" with one waiting cell "c".
  void AddOneCell() {
    Write([](StoreTransaction& t) {
      EXPECT_THAT(t.InsertHost(MakeHostRow("h", "spark-1")), IsOk());
      EXPECT_THAT(t.InsertSweep(MakeSweepRow("s")), IsOk());
      return t.InsertCell(MakeCellRow("s", "h", "c"));
    });
  }
  CellRow ReadCell(const std::string& id) {
    CellRow row;
    EXPECT_THAT(store().Read([&](const StoreView& view) {
      auto cell = view.GetCell(id);
      if (cell.ok()) row = *cell;
      return cell.status();
    }),
                IsOk());
    return row;
  }

  void HostRoundTrip();
  void NamesAreUnique();
  void SessionOnlyRises();
  void FactsRoundTrip();
  void SeenNeverGoesBack();
  void TokenUsesAndExpiry();
  void ArtifactOnce();
  void RequestIdOnce();
  void SweepsNewestFirst();
  void FinishIsCompareAndSet();
  void LeaseIsCompareAndSet();
  void LeaseIsFenced();
  void ExpiredLeasesAreUnstarted();
  void ResultOnce();
  void CellsInOrder();
  void FailedWorkLeavesNothing();
  void WorkInOneCommitIsIsolated();
  void CompletionsComeBehindTheCommit();
};

inline void StoreConformance::HostRoundTrip() {
  Write([](StoreTransaction& t) {
    return t.InsertHost(MakeHostRow("h", "spark-1"));
  });
  ASSERT_THAT(store().Read([](const StoreView& view) {
    auto host = view.GetHost("h");
    EXPECT_THAT(host, IsOk());
    EXPECT_EQ(host->name, "spark-1");
    EXPECT_EQ(host->secret_digest, Sha256Of("secret of h"));
    EXPECT_THAT(host->labels, ::testing::ElementsAre("rack=1", "site=b"));
    EXPECT_EQ(host->session, 0u);
    EXPECT_EQ(host->seen, NoTime());
    EXPECT_FALSE(host->has_facts);
    EXPECT_FALSE(host->simulated);
    EXPECT_EQ(view.FindHost("spark-1")->id, "h");
    EXPECT_THAT(view.GetHost("x"), StatusIs(absl::StatusCode::kNotFound));
    EXPECT_THAT(view.FindHost("x"), StatusIs(absl::StatusCode::kNotFound));
    return absl::OkStatus();
  }),
              IsOk());
}

inline void StoreConformance::NamesAreUnique() {
  Write([](StoreTransaction& t) {
    return t.InsertHost(MakeHostRow("h", "spark-1"));
  });
  EXPECT_THAT(store().Write([](StoreTransaction& t) {
    return t.InsertHost(MakeHostRow("i", "spark-1"));
  }),
              StatusIs(absl::StatusCode::kAlreadyExists));
}

inline void StoreConformance::SessionOnlyRises() {
  Write([](StoreTransaction& t) {
    return t.InsertHost(MakeHostRow("h", "spark-1"));
  });
  for (uint64_t want = 1; want <= 3; ++want) {
    uint64_t got = 0;
    Write([&](StoreTransaction& t) {
      auto session = t.RaiseSession("h");
      if (session.ok()) got = *session;
      return session.status();
    });
    EXPECT_EQ(got, want);
  }
  EXPECT_THAT(store().Write([](StoreTransaction& t) {
    return t.RaiseSession("x").status();
  }),
              StatusIs(absl::StatusCode::kNotFound));
}

inline void StoreConformance::FactsRoundTrip() {
  Write([](StoreTransaction& t) {
    EXPECT_THAT(t.InsertHost(MakeHostRow("h", "spark-1")), IsOk());
    v1::HostFacts facts;
    facts.set_host_name("spark-1");
    facts.add_gpus()->set_uuid("GPU-1");
    return t.PutFacts("h", facts, "digest", absl::FromUnixSeconds(2000));
  });
  ASSERT_THAT(store().Read([](const StoreView& view) {
    auto host = view.GetHost("h");
    EXPECT_TRUE(host->has_facts);
    EXPECT_EQ(host->facts.gpus(0).uuid(), "GPU-1");
    EXPECT_EQ(host->conditions, "digest");
    EXPECT_EQ(host->facts_received, absl::FromUnixSeconds(2000));
    return host.status();
  }),
              IsOk());
}

inline void StoreConformance::SeenNeverGoesBack() {
  Write([](StoreTransaction& t) {
    EXPECT_THAT(t.InsertHost(MakeHostRow("h", "spark-1")), IsOk());
    EXPECT_THAT(t.PutSeen("h", absl::FromUnixSeconds(300)), IsOk());
    EXPECT_THAT(t.PutSeen("h", absl::FromUnixSeconds(200)), IsOk());
    EXPECT_EQ(t.GetHost("h")->seen, absl::FromUnixSeconds(300));
    return absl::OkStatus();
  });
}

inline void StoreConformance::TokenUsesAndExpiry() {
  const Sha256 token = Sha256Of("token");
  const absl::Time end = absl::FromUnixSeconds(100);
  Write([&](StoreTransaction& t) { return t.InsertJoinToken(token, end, 2); });
  const auto use = [&](const Sha256& digest, absl::Time now) {
    return store().Write(
        [&](StoreTransaction& t) { return t.UseJoinToken(digest, now); });
  };
  const auto refused = StatusIs(absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(use(Sha256Of("other"), end - absl::Seconds(1)), refused);
  EXPECT_THAT(use(token, end), refused);
  EXPECT_THAT(use(token, end - absl::Seconds(1)), IsOk());
  EXPECT_THAT(use(token, end - absl::Seconds(1)), IsOk());
  EXPECT_THAT(use(token, end - absl::Seconds(1)), refused);
}

inline void StoreConformance::ArtifactOnce() {
  const Sha256 digest = Sha256Of("artifact");
  for (const bool want_new : {true, false}) {
    Write([&](StoreTransaction& t) {
      v1::StoredArtifact stored;
      stored.mutable_artifact()->set_name(want_new ? "first" : "second");
      v1::ArtifactReport report;
      report.set_inspector_version("1");
      auto inserted = t.InsertArtifact(digest, stored, report);
      EXPECT_THAT(inserted, IsOkAndHolds(want_new));
      return inserted.status();
    });
  }
  ASSERT_THAT(store().Read([&](const StoreView& view) {
    EXPECT_EQ(view.GetArtifact(digest)->stored.artifact().name(), "first");
    EXPECT_EQ(view.GetReport(digest)->inspector_version(), "1");
    EXPECT_EQ(view.ListArtifacts(0, 10)->size(), 1u);
    EXPECT_THAT(view.GetReport(Sha256Of("x")),
                StatusIs(absl::StatusCode::kNotFound));
    return absl::OkStatus();
  }),
              IsOk());
}

inline void StoreConformance::RequestIdOnce() {
  Write([](StoreTransaction& t) {
    EXPECT_THAT(t.InsertSweep(MakeSweepRow("a", "r")), IsOk());
    // No request id: any number of them.
    EXPECT_THAT(t.InsertSweep(MakeSweepRow("b")), IsOk());
    return t.InsertSweep(MakeSweepRow("c"));
  });
  EXPECT_THAT(store().Write([](StoreTransaction& t) {
    return t.InsertSweep(MakeSweepRow("d", "r"));
  }),
              StatusIs(absl::StatusCode::kAlreadyExists));
  ASSERT_THAT(store().Read([](const StoreView& view) {
    EXPECT_EQ(view.FindSweepByRequest("r")->sweep.id(), "a");
    EXPECT_THAT(view.FindSweepByRequest(""),
                StatusIs(absl::StatusCode::kNotFound));
    return absl::OkStatus();
  }),
              IsOk());
}

inline void StoreConformance::SweepsNewestFirst() {
  Write([](StoreTransaction& t) {
    for (const char* id : {"a", "b", "c"}) {
      EXPECT_THAT(t.InsertSweep(MakeSweepRow(id)), IsOk());
    }
    return absl::OkStatus();
  });
  ASSERT_THAT(store().Read([](const StoreView& view) {
    const auto page = view.ListSweeps(0, 2);
    EXPECT_EQ(page->size(), 2u);
    EXPECT_EQ(page->at(0).sweep.id(), "c");
    EXPECT_EQ(page->at(1).sweep.id(), "b");
    const auto rest = view.ListSweeps(page->at(1).sequence, 2);
    EXPECT_EQ(rest->size(), 1u);
    EXPECT_EQ(rest->at(0).sweep.id(), "a");
    return absl::OkStatus();
  }),
              IsOk());
}

inline void StoreConformance::FinishIsCompareAndSet() {
  Write([](StoreTransaction& t) { return t.InsertSweep(MakeSweepRow("s")); });
  v1::Sweep end = MakeSweepRow("s").sweep;
  end.set_state(v1::SWEEP_STATE_DONE);
  end.mutable_verdict()->set_kind(v1::VERDICT_KIND_FAIL);
  Write([&](StoreTransaction& t) {
    EXPECT_THAT(t.RaiseSweep("s"), IsOkAndHolds(2u));
    EXPECT_THAT(t.FinishSweep(1, end), IsOkAndHolds(false));
    EXPECT_EQ(t.GetSweep("s")->sweep.state(), v1::SWEEP_STATE_RUNNING);
    EXPECT_THAT(t.ChooseEnding("s", v1::SWEEP_STATE_DEADLINE),
                IsOkAndHolds(true));
    EXPECT_THAT(t.ChooseEnding("s", v1::SWEEP_STATE_CANCELLED),
                IsOkAndHolds(false));
    EXPECT_EQ(t.ListOpenSweeps()->at(0).ending, v1::SWEEP_STATE_DEADLINE);
    EXPECT_EQ(t.ListOpenSweeps()->at(0).version, 3u);
    EXPECT_THAT(t.FinishSweep(3, end), IsOkAndHolds(true));
    EXPECT_EQ(t.GetSweep("s")->sweep.version(), 4u);
    EXPECT_EQ(t.GetSweep("s")->sweep.verdict().kind(), v1::VERDICT_KIND_FAIL);
    // Ended once and for all.
    EXPECT_THAT(t.FinishSweep(4, end), IsOkAndHolds(false));
    EXPECT_THAT(t.ChooseEnding("s", v1::SWEEP_STATE_CANCELLED),
                IsOkAndHolds(false));
    EXPECT_TRUE(t.ListOpenSweeps()->empty());
    return absl::OkStatus();
  });
}

inline void StoreConformance::LeaseIsCompareAndSet() {
  AddOneCell();
  const absl::Time end = absl::FromUnixSeconds(200);
  Write([&](StoreTransaction& t) {
    EXPECT_THAT(t.RaiseSession("h"), IsOkAndHolds(1u));
    EXPECT_THAT(t.LeaseCell("c", "h", 1, "l1", end), IsOkAndHolds(true));
    EXPECT_THAT(t.LeaseCell("c", "h", 1, "l2", end), IsOkAndHolds(false));
    return absl::OkStatus();
  });
  const CellRow cell = ReadCell("c");
  EXPECT_EQ(cell.cell.state(), v1::CELL_STATE_LEASED);
  EXPECT_EQ(cell.cell.leases(), 1u);
  EXPECT_EQ(cell.lease_id, "l1");
  EXPECT_EQ(cell.lease_session, 1u);
  EXPECT_EQ(cell.lease_expire, end);
}

inline void StoreConformance::LeaseIsFenced() {
  AddOneCell();
  Write([&](StoreTransaction& t) {
    EXPECT_THAT(t.InsertHost(MakeHostRow("i", "spark-2")), IsOk());
    EXPECT_THAT(t.RaiseSession("h"), IsOkAndHolds(1u));
    EXPECT_THAT(t.RaiseSession("h"), IsOkAndHolds(2u));
    EXPECT_THAT(t.RaiseSession("i"), IsOkAndHolds(1u));
    // An older session; another host.
    EXPECT_THAT(t.LeaseCell("c", "h", 1, "l", t.GetHost("h")->enrolled),
                IsOkAndHolds(false));
    EXPECT_THAT(t.LeaseCell("c", "i", 1, "l", t.GetHost("h")->enrolled),
                IsOkAndHolds(false));
    EXPECT_EQ(t.GetCell("c")->cell.state(), v1::CELL_STATE_WAITING);
    EXPECT_EQ(t.GetCell("c")->cell.leases(), 0u);
    return absl::OkStatus();
  });
}

inline void StoreConformance::ExpiredLeasesAreUnstarted() {
  AddOneCell();
  const absl::Time end = absl::FromUnixSeconds(200);
  Write([&](StoreTransaction& t) {
    EXPECT_THAT(t.InsertCell(MakeCellRow("s", "h", "d", 1)), IsOk());
    EXPECT_THAT(t.RaiseSession("h"), IsOkAndHolds(1u));
    EXPECT_THAT(t.LeaseCell("c", "h", 1, "l1", end), IsOkAndHolds(true));
    EXPECT_THAT(t.LeaseCell("d", "h", 1, "l2", end), IsOkAndHolds(true));
    CellRow started = *t.GetCell("d");
    started.lease_started = true;
    EXPECT_THAT(t.PutCell(started), IsOk());
    EXPECT_TRUE(t.ListExpiredLeases(end - absl::Seconds(1))->empty());
    const auto expired = t.ListExpiredLeases(end);
    EXPECT_EQ(expired->size(), 1u);
    EXPECT_EQ(expired->at(0).cell.id(), "c");
    return absl::OkStatus();
  });
}

inline void StoreConformance::ResultOnce() {
  AddOneCell();
  ResultRow result;
  result.host_id = "h";
  result.received = absl::FromUnixSeconds(77);
  result.result.set_result_id("r");
  result.result.set_cell_id("c");
  Write([&](StoreTransaction& t) {
    EXPECT_THAT(t.InsertResult(result), IsOkAndHolds(true));
    EXPECT_THAT(t.InsertResult(result), IsOkAndHolds(false));
    CellRow cell = *t.GetCell("c");
    cell.result_id = "r";
    return t.PutCell(cell);
  });
  ASSERT_THAT(store().Read([](const StoreView& view) {
    EXPECT_EQ(view.ListResults("c")->size(), 1u);
    EXPECT_EQ(view.GetResult("r")->host_id, "h");
    EXPECT_EQ(view.GetResult("r")->received, absl::FromUnixSeconds(77));
    EXPECT_EQ(view.ListSweepResults("s")->size(), 1u);
    return absl::OkStatus();
  }),
              IsOk());
}

inline void StoreConformance::CellsInOrder() {
  Write([&](StoreTransaction& t) {
    EXPECT_THAT(t.InsertHost(MakeHostRow("b", "spark-b")), IsOk());
    EXPECT_THAT(t.InsertHost(MakeHostRow("a", "spark-a")), IsOk());
    EXPECT_THAT(t.InsertSweep(MakeSweepRow("s")), IsOk());
    EXPECT_THAT(t.InsertCell(MakeCellRow("s", "b", "1", 0)), IsOk());
    EXPECT_THAT(t.InsertCell(MakeCellRow("s", "a", "2", 1)), IsOk());
    EXPECT_THAT(t.InsertCell(MakeCellRow("s", "a", "3", 0)), IsOk());
    std::vector<std::string> ids;
    const auto cells = t.ListSweepCells("s");
    for (const CellRow& row : *cells) ids.push_back(row.cell.id());
    EXPECT_THAT(ids, ::testing::ElementsAre("3", "2", "1"));
    EXPECT_EQ(t.ListOpenSweeps()->at(0).open_cells, 3);
    EXPECT_EQ(t.ListWaitingHosts(absl::FromUnixSeconds(1))->size(), 2u);
    CellRow later = *t.GetCell("1");
    later.not_before = absl::FromUnixSeconds(10);
    EXPECT_THAT(t.PutCell(later), IsOk());
    EXPECT_THAT(t.ListWaitingHosts(absl::FromUnixSeconds(9)),
                IsOkAndHolds(::testing::ElementsAre("a")));
    EXPECT_THAT(t.DeleteCell("2"), IsOk());
    EXPECT_EQ(t.ListOpenHostCells("a")->size(), 1u);
    return absl::OkStatus();
  });
}

inline void StoreConformance::FailedWorkLeavesNothing() {
  EXPECT_THAT(store().Write([](StoreTransaction& t) {
    EXPECT_THAT(t.InsertHost(MakeHostRow("h", "spark-1")), IsOk());
    return absl::InvalidArgumentError("no");
  }),
              StatusIs(absl::StatusCode::kInvalidArgument, "no"));
  EXPECT_THAT(store().Read([](const StoreView& view) {
    return view.GetHost("h").status();
  }),
              StatusIs(absl::StatusCode::kNotFound));
}

inline void StoreConformance::WorkInOneCommitIsIsolated() {
  // Many works at once: some fail, and only those leave nothing.
  constexpr int kThreads = 8;
  constexpr int kEach = 20;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEach; ++i) {
        const std::string id = absl::StrCat(thread, "-", i);
        const absl::Status status = store().Write([&](StoreTransaction& t) {
          EXPECT_THAT(t.InsertHost(MakeHostRow(id, id)), IsOk());
          return i % 2 == 0 ? absl::OkStatus() : absl::AbortedError("odd");
        });
        EXPECT_EQ(status.ok(), i % 2 == 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_THAT(store().Read([](const StoreView& view) {
    EXPECT_EQ(view.ListHostNames()->size(),
              static_cast<size_t>(kThreads * kEach / 2));
    return absl::OkStatus();
  }),
              IsOk());
}

inline void StoreConformance::CompletionsComeBehindTheCommit() {
  Mutex mutex;
  CondVar condition;
  bool finished = false;
  store().Submit(
      [](StoreTransaction& t) {
        return t.InsertHost(MakeHostRow("h", "spark-1"));
      },
      [&](const absl::Status& status) {
        EXPECT_THAT(status, IsOk());
        // Another connection sees it already.
        EXPECT_THAT(store().Read([](const StoreView& view) {
          return view.GetHost("h").status();
        }),
                    IsOk());
        MutexLock lock(mutex);
        finished = true;
        condition.NotifyAll();
      });
  MutexLock lock(mutex);
  while (!finished) condition.Wait(mutex);
}

#define TWINPATH_STORE_CONFORMANCE(Fixture)                                   \
  TEST_F(Fixture, HostRoundTrip) { HostRoundTrip(); }                         \
  TEST_F(Fixture, NamesAreUnique) { NamesAreUnique(); }                       \
  TEST_F(Fixture, SessionOnlyRises) { SessionOnlyRises(); }                   \
  TEST_F(Fixture, FactsRoundTrip) { FactsRoundTrip(); }                       \
  TEST_F(Fixture, SeenNeverGoesBack) { SeenNeverGoesBack(); }                 \
  TEST_F(Fixture, TokenUsesAndExpiry) { TokenUsesAndExpiry(); }               \
  TEST_F(Fixture, ArtifactOnce) { ArtifactOnce(); }                           \
  TEST_F(Fixture, RequestIdOnce) { RequestIdOnce(); }                         \
  TEST_F(Fixture, SweepsNewestFirst) { SweepsNewestFirst(); }                 \
  TEST_F(Fixture, FinishIsCompareAndSet) { FinishIsCompareAndSet(); }         \
  TEST_F(Fixture, LeaseIsCompareAndSet) { LeaseIsCompareAndSet(); }           \
  TEST_F(Fixture, LeaseIsFenced) { LeaseIsFenced(); }                         \
  TEST_F(Fixture, ExpiredLeasesAreUnstarted) { ExpiredLeasesAreUnstarted(); } \
  TEST_F(Fixture, ResultOnce) { ResultOnce(); }                               \
  TEST_F(Fixture, CellsInOrder) { CellsInOrder(); }                           \
  TEST_F(Fixture, FailedWorkLeavesNothing) { FailedWorkLeavesNothing(); }     \
  TEST_F(Fixture, WorkInOneCommitIsIsolated) { WorkInOneCommitIsIsolated(); } \
  TEST_F(Fixture, CompletionsComeBehindTheCommit) {                           \
    CompletionsComeBehindTheCommit();                                         \
  }

}  // namespace twinpath::coordinator

#endif  // TWINPATH_TESTS_COORDINATOR_STORE_CONFORMANCE_H_
