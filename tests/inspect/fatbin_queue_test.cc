#include "inspect/fatbin_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A report of `count` fatbins that each take about `bytes` when written out.
v1::FileReport Report(int count, size_t bytes) {
  v1::FileReport report;
  for (int i = 0; i < count; ++i) {
    v1::Fatbin& fatbin = *report.add_fatbins();
    fatbin.set_index(static_cast<uint32_t>(i));
    fatbin.add_images()->add_kernels()->set_name(std::string(bytes, 'k'));
  }
  return report;
}

class FatbinQueueTest : public ::testing::Test {
 protected:
  // Above what is handed on at once.
  static constexpr size_t kLarge = 300 << 10;

  std::vector<uint32_t> settled_;
  std::vector<uint32_t> early_;
  const std::function<void(v1::Fatbin&)> settle_ = [this](v1::Fatbin& fatbin) {
    settled_.push_back(fatbin.index());
  };
  const FatbinSink sink_ = [this](absl::Span<v1::Fatbin* const> fatbins) {
    for (const v1::Fatbin* fatbin : fatbins) early_.push_back(fatbin->index());
  };
};

TEST_F(FatbinQueueTest, HandsOnInOrderWhatIsComplete) {
  v1::FileReport report = Report(4, kLarge);
  FatbinQueue queue(*report.mutable_fatbins(), settle_, sink_);
  // Number 3 has nothing to be read.
  for (const size_t fatbin : {0, 1, 1, 2}) queue.Expect(fatbin);
  queue.Done(2);
  EXPECT_THAT(early_, IsEmpty()) << "those before it are not complete";
  queue.Done(1);
  queue.Done(0);
  EXPECT_THAT(early_, ElementsAre(0)) << "one of its two images is read";
  queue.Done(1);
  EXPECT_THAT(early_, ElementsAre(0, 1, 2, 3));
  queue.Finish();
  EXPECT_THAT(early_, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(settled_, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(report.fatbins_size(), 4) << "they stay in the report";
}

TEST_F(FatbinQueueTest, WhatIsLeftFollowsInTheEnd) {
  v1::FileReport report = Report(3, kLarge);
  report.mutable_fatbins(1)->clear_images();
  report.mutable_fatbins(2)->clear_images();
  FatbinQueue queue(*report.mutable_fatbins(), settle_, sink_);
  queue.Expect(0);
  queue.Expect(1);
  queue.Done(0);
  queue.Done(1);
  EXPECT_THAT(early_, ElementsAre(0)) << "the others are too short to be sent";
  queue.Finish();
  EXPECT_THAT(early_, ElementsAre(0, 1, 2));
}

TEST_F(FatbinQueueTest, AShortReportIsNotHandedOnInPieces) {
  v1::FileReport report = Report(3, 10);
  FatbinQueue queue(*report.mutable_fatbins(), settle_, sink_);
  queue.Expect(1);
  queue.Done(1);
  queue.Finish();
  EXPECT_THAT(early_, IsEmpty());
  EXPECT_THAT(settled_, ElementsAre(0, 1, 2));
}

TEST_F(FatbinQueueTest, WithoutASinkAllAreSettledInTheEnd) {
  v1::FileReport report = Report(2, kLarge);
  const FatbinSink none;
  FatbinQueue queue(*report.mutable_fatbins(), settle_, none);
  queue.Expect(0);
  queue.Done(0);
  EXPECT_THAT(settled_, IsEmpty());
  queue.Finish();
  EXPECT_THAT(settled_, ElementsAre(0, 1));
}

TEST_F(FatbinQueueTest, ThreadsHandOnEachOnceAndInOrder) {
  constexpr size_t kFatbins = 200;
  constexpr size_t kImages = 3;
  v1::FileReport report = Report(kFatbins, 20'000);
  FatbinQueue queue(*report.mutable_fatbins(), settle_, sink_);
  for (size_t i = 0; i < kFatbins * kImages; ++i) queue.Expect(i / kImages);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < kFatbins * kImages; i = next++) {
      queue.Done(i / kImages);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  queue.Finish();
  std::vector<uint32_t> all(kFatbins);
  for (size_t i = 0; i < kFatbins; ++i) all[i] = static_cast<uint32_t>(i);
  EXPECT_EQ(early_, all);
  EXPECT_EQ(settled_, all);
}

}  // namespace
}  // namespace twinpath::inspect
