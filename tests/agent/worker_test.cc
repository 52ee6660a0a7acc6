#include "agent/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/fake_clock.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/status_matchers.h"
#include "tests/agent/crash.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// Answers at once, or when it is told to; counts.
class FakeProcessor final : public CellProcessor {
 public:
  explicit FakeProcessor(const Clock& clock, Journal* journal = nullptr)
      : clock_(clock), journal_(journal) {}

  CellOutcome Process(const ClaimedLease& claimed,
                      CellControl& control) override {
    CellOutcome outcome;
    control.Progress(v1::PATH_NATIVE, "native");
    v1::CellResult result = NewResult(claimed, clock_);
    if (journal_ != nullptr) {
      outcome.journal = std::move(journal_->Begin(result)).value();
      v1::Observation attempt;
      attempt.set_attempt_id("a1");
      EXPECT_THAT(outcome.journal->BeforeAttempt(attempt), IsOk());
    }
    const auto lease = control.Start();
    if (!lease) {
      outcome.refusal = control.WhyNot();
      return outcome;
    }
    if (until_stopped) {
      started = true;
      if (on_started) on_started();
      while (!control.Stopping()) control.Wait(absl::Milliseconds(50));
      result.set_complete(false);
    }
    result.set_lease_id(*lease);
    outcome.result = std::move(result);
    return outcome;
  }

  bool until_stopped = false;
  std::atomic<bool> started = false;
  std::function<void()> on_started;

 private:
  const Clock& clock_;
  Journal* const journal_;
};

class WorkerTest : public ::testing::Test {
 protected:
  WorkerTest() {
    EXPECT_THAT(MakeDirectories(JoinPath(temp_.path(), "spool")), IsOk());
    EXPECT_THAT(MakeDirectories(JoinPath(temp_.path(), "journal")), IsOk());
    spool_ =
        std::move(Spool::Open(JoinPath(temp_.path(), "spool"), {})).value();
    book_.SetGpus({"GPU-1", "GPU-2"});
  }
  void Offer(const std::string& cell) {
    v1::Lease lease;
    lease.set_id("lease-" + cell);
    lease.set_cell_id(cell);
    lease.set_gpu_uuid("GPU-1");
    lease.mutable_start_within()->set_seconds(60);
    EXPECT_FALSE(book_.Offer(lease));
  }
  // Waits until `done` holds, woken by the worker's events.
  void Await(const std::function<bool()>& done) {
    MutexLock lock(mutex_);
    while (!done()) changed_.WaitFor(mutex_, absl::Seconds(1));
  }
  WorkerEvents Events() {
    return {[this] {
              MutexLock lock(mutex_);
              changed_.NotifyAll();
            },
            {}};
  }

  const TempDirectory temp_ = MakeTemp();
  FakeClock clock_;
  LeaseBook book_{clock_};
  std::unique_ptr<Spool> spool_;
  Journal journal_{JoinPath(temp_.path(), "journal")};
  Mutex mutex_;
  CondVar changed_;
};

TEST_F(WorkerTest, ResultsGoToTheSpoolAndJournalsGo) {
  FakeProcessor processor(clock_, &journal_);
  Worker worker(book_, processor, *spool_, Events());
  worker.EnsureThreads(2);
  for (int i = 0; i < 20; ++i) Offer(absl::StrCat("c", i));
  Await([&] { return book_.held() == 0; });
  worker.Stop();
  EXPECT_EQ(spool_->size(), 20u);
  EXPECT_THAT(FilesBelow(JoinPath(temp_.path(), "journal")), IsEmpty());
  EXPECT_EQ(spool_->Read(spool_->Pending()[0].result_id)->lease_id(),
            "lease-c0");
}

TEST_F(WorkerTest, StoppingDeliversWhatThereIs) {
  FakeProcessor processor(clock_, &journal_);
  processor.until_stopped = true;
  processor.on_started = Events().changed;
  Worker worker(book_, processor, *spool_, Events());
  worker.EnsureThreads(1);
  Offer("running");
  Await([&] { return processor.started.load(); });
  worker.Stop();
  ASSERT_EQ(spool_->size(), 1u);
  EXPECT_FALSE(spool_->Read(spool_->Pending()[0].result_id)->complete());
  EXPECT_THAT(FilesBelow(JoinPath(temp_.path(), "journal")), IsEmpty());
}

TEST_F(WorkerTest, KilledBehindTheSpoolTheResultCountsOnceAndComplete) {
  EXPECT_TRUE(CrashAt("worker.spooled", 1, [&] {
    FakeProcessor processor(clock_, &journal_);
    Worker worker(book_, processor, *spool_, Events());
    worker.EnsureThreads(1);
    Offer("cell");
    Await([] { return false; });
  }));
  const auto spool = Spool::Open(JoinPath(temp_.path(), "spool"), {});
  ASSERT_THAT(spool, IsOk());
  const auto recovered = journal_.Recover(clock_.Now());
  ASSERT_THAT(recovered, IsOk());
  ASSERT_THAT(*recovered, SizeIs(1));
  ASSERT_THAT((*spool)->Add(recovered->front()), IsOk());
  ASSERT_THAT((*spool)->Pending(), SizeIs(1));
  EXPECT_TRUE((*spool)->Read((*spool)->Pending()[0].result_id)->complete());
}

TEST_F(WorkerTest, AFullDiskLosesNoResult) {
  FakeProcessor processor(clock_, &journal_);
  processor.until_stopped = true;
  processor.on_started = Events().changed;
  Worker worker(book_, processor, *spool_, Events());
  // The spool cannot be written: its folder is gone.
  const std::string spool = JoinPath(temp_.path(), "spool");
  ASSERT_THAT(RemoveTree(spool), IsOk());
  worker.EnsureThreads(1);
  Offer("running");
  Await([&] { return processor.started.load(); });
  worker.Stop();
  // The journal still has it, and the next agent delivers it.
  const auto recovered = journal_.Recover(clock_.Now());
  ASSERT_THAT(recovered, IsOk());
  ASSERT_THAT(*recovered, SizeIs(1));
  EXPECT_EQ(recovered->front().cell_id(), "running");
  EXPECT_EQ(recovered->front().problems(0).code(), "TP307");
}

}  // namespace
}  // namespace twinpath::agent
