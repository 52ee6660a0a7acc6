#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "agent/blob_cache.h"
#include "agent/grpc_blob_source.h"
#include "agent/grpc_channel.h"
#include "base/status_matchers.h"
#include "tests/agent/fake_coordinator.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

using ::testing::ElementsAre;

class BlobSourceGrpcTest : public ::testing::Test {
 protected:
  absl::StatusOr<BlobCache::Pin> Acquire(const Sha256& digest, uint64_t size) {
    return cache_->Acquire(digest, size, source_, {});
  }

  const TempDirectory temp_ = MakeTemp();
  FakeCoordinator coordinator_;
  std::shared_ptr<grpc::Channel> channel_ =
      std::move(OpenChannel(coordinator_.address())).value();
  GrpcBlobSource source_{channel_, absl::Seconds(1)};
  std::unique_ptr<BlobCache> cache_ =
      std::move(BlobCache::Open(temp_.path(), {64 << 20})).value();
  const std::string content_ = std::string(1'000'000, 'x') + "end";
};

TEST_F(BlobSourceGrpcTest, FetchesInPieces) {
  const Sha256 digest = coordinator_.AddBlob(content_);
  EXPECT_THAT(Acquire(digest, content_.size()), IsOk());
}

TEST_F(BlobSourceGrpcTest, ResumesAtTheByte) {
  const Sha256 digest = coordinator_.AddBlob(content_);
  coordinator_.BreakFetchesAfter(300'000);
  EXPECT_THAT(Acquire(digest, content_.size()),
              StatusIs(absl::StatusCode::kUnavailable));
  coordinator_.BreakFetchesAfter(0);
  EXPECT_THAT(Acquire(digest, content_.size()), IsOk());
  EXPECT_THAT(coordinator_.fetch_offsets(), ElementsAre(0, 300'000));
}

TEST_F(BlobSourceGrpcTest, SaysThatABlobIsNotThere) {
  EXPECT_THAT(Acquire(Sha256Of("never uploaded"), 14),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(BlobSourceGrpcTest, ASilentCoordinatorIsGivenUp) {
  const Sha256 digest = coordinator_.AddBlob(content_);
  coordinator_.StallFetches(true);
  EXPECT_THAT(Acquire(digest, content_.size()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(BlobSourceGrpcTest, ACancelledFetchEndsAtOnce) {
  const Sha256 digest = coordinator_.AddBlob(content_);
  coordinator_.StallFetches(true);
  EXPECT_THAT(
      cache_->Acquire(digest, content_.size(), source_, [] { return true; }),
      StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace twinpath::agent
