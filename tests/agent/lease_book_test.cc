// I1: a lease is permission to start before its expiry, and no longer.

#include "agent/lease_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/fake_clock.h"

namespace twinpath::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kNoWait = absl::ZeroDuration();

v1::Lease Lease(const std::string& cell, const std::string& gpu = "GPU-1",
                int64_t seconds = 60, const std::string& id = "") {
  v1::Lease lease;
  lease.set_id(id.empty() ? "lease-" + cell : id);
  lease.set_cell_id(cell);
  lease.set_gpu_uuid(gpu);
  lease.mutable_start_within()->set_seconds(seconds);
  return lease;
}

class LeaseBookTest : public ::testing::Test {
 protected:
  LeaseBookTest() { book_.SetGpus({"GPU-1", "GPU-2"}); }

  std::string Claim() {
    const auto claimed = book_.Claim(kNoWait);
    return claimed ? claimed->lease.cell_id() : "";
  }
  std::vector<std::string> Refused() {
    std::vector<std::string> refused;
    for (const v1::LeaseRefusal& refusal : book_.TakeRefusals()) {
      refused.push_back(
          absl::StrCat(refusal.lease_id(), " ", refusal.reason().code()));
    }
    return refused;
  }

  FakeClock clock_;
  LeaseBook book_{clock_, 4};
};

// A lease can come before the GPUs are known, and a GPU can go.
TEST_F(LeaseBookTest, OnlyTheHostsOwnGpusAreClaimed) {
  LeaseBook book(clock_, 4);
  EXPECT_FALSE(book.Offer(Lease("stolen", std::string("GPU-1\0A=B", 9))));
  EXPECT_FALSE(book.Offer(Lease("other", "GPU-7")));
  EXPECT_FALSE(book.Offer(Lease("own", "GPU-1")));
  book.SetGpus({"GPU-1", "GPU-2"});
  const auto claimed = book.Claim(kNoWait);
  ASSERT_TRUE(claimed);
  EXPECT_EQ(claimed->lease.cell_id(), "own");
  EXPECT_FALSE(book.Claim(kNoWait));
  const auto refusals = book.TakeRefusals();
  ASSERT_THAT(refusals, SizeIs(2));
  EXPECT_EQ(refusals[0].cell_id(), "stolen");
  EXPECT_EQ(refusals[0].reason().code(), "TP106");
  EXPECT_EQ(refusals[0].reason().detail().find('\0'), std::string::npos);
  EXPECT_EQ(refusals[1].cell_id(), "other");

  EXPECT_FALSE(book_.Offer(Lease("late", "GPU-2")));
  book_.SetGpus({"GPU-1"});
  EXPECT_EQ(Claim(), "");
  EXPECT_THAT(Refused(), ElementsAre("lease-late TP106"));
}

TEST_F(LeaseBookTest, StartsBeforeTheExpiryOnly) {
  EXPECT_FALSE(book_.Offer(Lease("a")));
  EXPECT_EQ(Claim(), "a");
  clock_.Advance(absl::Seconds(59));
  EXPECT_TRUE(book_.MayStart("a"));
  EXPECT_EQ(book_.Start("a"), "lease-a");
  EXPECT_FALSE(book_.Start("a")) << "never twice";
  // A started cell is not bound by the expiry any more.
  clock_.Advance(absl::Hours(1));
  EXPECT_THAT(book_.HeldCells(), ElementsAre("a"));
  book_.Finish("a");
  EXPECT_THAT(book_.HeldCells(), IsEmpty());
  EXPECT_THAT(Refused(), IsEmpty());
}

TEST_F(LeaseBookTest, ALeaseThatExpiredWhileFetchingNeverStarts) {
  EXPECT_FALSE(book_.Offer(Lease("a")));
  EXPECT_EQ(Claim(), "a");
  clock_.Advance(absl::Seconds(60));
  EXPECT_FALSE(book_.MayStart("a"));
  EXPECT_FALSE(book_.Start("a"));
  book_.GiveUp("a", book_.WhyNot("a"));
  EXPECT_THAT(Refused(), ElementsAre("lease-a TP306"));
  EXPECT_THAT(book_.HeldCells(), IsEmpty());
}

TEST_F(LeaseBookTest, AWaitingLeaseThatExpiredIsGivenBack) {
  EXPECT_FALSE(book_.Offer(Lease("a")));
  EXPECT_FALSE(book_.Offer(Lease("b")));
  EXPECT_EQ(Claim(), "a");
  clock_.Advance(absl::Seconds(60));
  EXPECT_EQ(Claim(), "");
  EXPECT_THAT(Refused(), ElementsAre("lease-b TP306"));
}

TEST_F(LeaseBookTest, TheWallClockHasNoSay) {
  EXPECT_FALSE(book_.Offer(Lease("a")));
  clock_.SetWall(absl::FromUnixSeconds(0));
  EXPECT_EQ(Claim(), "a");
  clock_.SetWall(absl::FromUnixSeconds(4'000'000'000));
  EXPECT_TRUE(book_.Start("a").has_value());
}

TEST_F(LeaseBookTest, ALeaseOfNoTimeNeverStarts) {
  EXPECT_FALSE(book_.Offer(Lease("a", "GPU-1", 0)));
  EXPECT_FALSE(book_.Offer(Lease("b", "GPU-1", -5)));
  EXPECT_EQ(Claim(), "");
  EXPECT_THAT(Refused(), ElementsAre("lease-a TP306", "lease-b TP306"));
}

TEST_F(LeaseBookTest, OneCellAtATimeUsesAGpu) {
  EXPECT_FALSE(book_.Offer(Lease("a", "GPU-1")));
  EXPECT_FALSE(book_.Offer(Lease("b", "GPU-1")));
  EXPECT_FALSE(book_.Offer(Lease("c", "GPU-2")));
  EXPECT_EQ(Claim(), "a");
  EXPECT_EQ(Claim(), "c");
  EXPECT_EQ(Claim(), "");
  book_.Finish("a");
  EXPECT_EQ(Claim(), "b");
}

TEST_F(LeaseBookTest, AnEntryForAllGpusTakesAllAndIsNotStarved) {
  EXPECT_FALSE(book_.Offer(Lease("a", "GPU-1")));
  v1::Lease all = Lease("all", "GPU-2");
  all.mutable_entry()->mutable_gpus()->set_all(true);
  EXPECT_EQ(Claim(), "a");
  EXPECT_FALSE(book_.Offer(all));
  EXPECT_FALSE(book_.Offer(Lease("c", "GPU-2")));
  // GPU-2 is free, but an older lease waits for it.
  EXPECT_EQ(Claim(), "");
  book_.Finish("a");
  const auto claimed = book_.Claim(kNoWait);
  ASSERT_TRUE(claimed);
  EXPECT_THAT(claimed->gpu_uuids, ElementsAre("GPU-2", "GPU-1"));
  EXPECT_EQ(Claim(), "");
  book_.Finish("all");
  EXPECT_EQ(Claim(), "c");
}

TEST_F(LeaseBookTest, AnEntryForMoreGpusThanThereAreGetsThoseThereAre) {
  v1::Lease four = Lease("four", "GPU-1");
  four.mutable_entry()->mutable_gpus()->set_count(4);
  EXPECT_FALSE(book_.Offer(four));
  const auto claimed = book_.Claim(kNoWait);
  ASSERT_TRUE(claimed);
  EXPECT_THAT(claimed->gpu_uuids, ElementsAre("GPU-1", "GPU-2"));
}

TEST_F(LeaseBookTest, AHostWithoutGpuRunsOneCellAtATime) {
  book_.SetGpus({});
  EXPECT_FALSE(book_.Offer(Lease("a", "")));
  EXPECT_FALSE(book_.Offer(Lease("b", "")));
  const auto claimed = book_.Claim(kNoWait);
  ASSERT_TRUE(claimed);
  EXPECT_THAT(claimed->gpu_uuids, IsEmpty());
  EXPECT_EQ(Claim(), "");
}

TEST_F(LeaseBookTest, ALeaseForAnUnknownGpuIsGivenBack) {
  const auto refusal = book_.Offer(Lease("a", "GPU-9"));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason().code(), "TP106");
  EXPECT_EQ(refusal->lease_id(), "lease-a");
}

TEST_F(LeaseBookTest, NothingStartsBeforeTheGpusAreKnown) {
  LeaseBook book(clock_);
  EXPECT_FALSE(book.Offer(Lease("a")));
  EXPECT_FALSE(book.Claim(kNoWait));
  book.SetGpus({"GPU-1"});
  EXPECT_TRUE(book.Claim(kNoWait));
}

TEST_F(LeaseBookTest, ANewerLeaseReplacesAnOlderOneUntilTheCellHasStarted) {
  EXPECT_FALSE(book_.Offer(Lease("a", "GPU-1", 10, "first")));
  EXPECT_FALSE(book_.Offer(Lease("a", "GPU-1", 60, "second")));
  EXPECT_THAT(book_.HeldCells(), ElementsAre("a"));
  clock_.Advance(absl::Seconds(30));
  EXPECT_EQ(Claim(), "a");
  EXPECT_EQ(book_.Start("a"), "second");
  EXPECT_FALSE(book_.Offer(Lease("a", "GPU-1", 60, "third")));
  book_.Finish("a");
  EXPECT_EQ(Claim(), "") << "it was not queued a second time";
}

TEST_F(LeaseBookTest, TheSameLeaseAgainGrantsNoMoreTime) {
  EXPECT_FALSE(book_.Offer(Lease("a")));
  clock_.Advance(absl::Seconds(40));
  EXPECT_FALSE(book_.Offer(Lease("a")));
  clock_.Advance(absl::Seconds(20));
  EXPECT_EQ(Claim(), "");
}

TEST_F(LeaseBookTest, CancelledBeforeTheStartNeverStarts) {
  EXPECT_FALSE(book_.Offer(Lease("a", "GPU-1")));
  EXPECT_FALSE(book_.Offer(Lease("b", "GPU-1")));
  EXPECT_EQ(Claim(), "a");
  book_.Cancel("a");
  book_.Cancel("b");
  book_.Cancel("unknown");
  EXPECT_FALSE(book_.MayStart("a"));
  EXPECT_FALSE(book_.Start("a"));
  book_.GiveUp("a", book_.WhyNot("a"));
  EXPECT_THAT(Refused(), ElementsAre("lease-b TP416", "lease-a TP416"));
}

TEST_F(LeaseBookTest, AStartedCellRunsOnWhenCancelled) {
  EXPECT_FALSE(book_.Offer(Lease("a")));
  EXPECT_EQ(Claim(), "a");
  ASSERT_TRUE(book_.Start("a"));
  book_.Cancel("a");
  EXPECT_THAT(book_.HeldCells(), ElementsAre("a"));
  EXPECT_THAT(Refused(), IsEmpty());
}

TEST_F(LeaseBookTest, IsBounded) {
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(book_.Offer(Lease(absl::StrCat("c", i))));
  }
  EXPECT_TRUE(book_.Offer(Lease("c4")));
}

TEST_F(LeaseBookTest, RefusalsNobodyListensToAreBounded) {
  for (int i = 0; i < 3000; ++i) {
    const std::string cell = absl::StrCat("c", i);
    EXPECT_FALSE(book_.Offer(Lease(cell)));
    book_.Cancel(cell);
  }
  EXPECT_EQ(Refused().size(), kMostRefusals);
}

TEST_F(LeaseBookTest, AStoppingAgentGivesBackWhatHasNotStarted) {
  EXPECT_FALSE(book_.Offer(Lease("a", "GPU-1")));
  EXPECT_FALSE(book_.Offer(Lease("b", "GPU-2")));
  EXPECT_EQ(Claim(), "a");
  book_.Close();
  EXPECT_FALSE(book_.Start("a"));
  EXPECT_THAT(Refused(), ElementsAre("lease-b TP306"));
  EXPECT_TRUE(book_.Offer(Lease("c")));
}

TEST_F(LeaseBookTest, APausedHostGivesBackWhatHasNotStartedAndFinishesTheRest) {
  EXPECT_FALSE(book_.Offer(Lease("a", "GPU-1")));
  EXPECT_FALSE(book_.Offer(Lease("b", "GPU-2")));
  EXPECT_FALSE(book_.Offer(Lease("c", "GPU-1")));
  EXPECT_EQ(Claim(), "a");
  EXPECT_EQ(Claim(), "b");
  EXPECT_TRUE(book_.Start("a"));
  v1::Reason reason;
  reason.set_code("TP138");
  reason.set_detail("paused");
  book_.Withhold(reason);
  EXPECT_THAT(Refused(), ElementsAre("lease-c TP138"));
  EXPECT_FALSE(book_.MayStart("b"));
  EXPECT_FALSE(book_.Start("b"));
  EXPECT_EQ(book_.WhyNot("b").code(), "TP138");
  const auto refusal = book_.Offer(Lease("d"));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason().code(), "TP138");
  book_.GiveUp("b", book_.WhyNot("b"));
  // The one that runs is still there.
  EXPECT_THAT(book_.HeldCells(), ElementsAre("a"));
  book_.Withhold(std::nullopt);
  EXPECT_FALSE(book_.Offer(Lease("d", "GPU-2")));
  EXPECT_EQ(Claim(), "d");
  EXPECT_TRUE(book_.Start("d"));
}

TEST_F(LeaseBookTest, LeasesWithoutIdsAreRefused) {
  EXPECT_TRUE(book_.Offer(Lease("")));
  v1::Lease lease = Lease("a");
  lease.clear_id();
  EXPECT_TRUE(book_.Offer(lease));
}

// For ThreadSanitizer: many claim, start and finish at once, and no GPU is ever
// used twice.
TEST(LeaseBookThreads, NeverShareAGpu) {
  FakeClock clock;
  LeaseBook book(clock, 1000);
  book.SetGpus({"GPU-1", "GPU-2"});
  std::atomic<int> on_gpu[2] = {0, 0};
  std::atomic<int> done = 0;
  constexpr int kCells = 200;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (done < kCells) {
        const auto claimed = book.Claim(absl::Milliseconds(20));
        if (!claimed) continue;
        const int gpu = claimed->gpu_uuids[0] == "GPU-1" ? 0 : 1;
        EXPECT_EQ(on_gpu[gpu].fetch_add(1), 0);
        EXPECT_TRUE(book.Start(claimed->lease.cell_id()).has_value());
        on_gpu[gpu].fetch_sub(1);
        book.Finish(claimed->lease.cell_id());
        ++done;
      }
    });
  }
  for (int i = 0; i < kCells; ++i) {
    EXPECT_FALSE(
        book.Offer(Lease(absl::StrCat("c", i), i % 3 ? "GPU-1" : "GPU-2")));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(book.held(), 0u);
}

}  // namespace
}  // namespace twinpath::agent
