#include "agent/blob_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/agent/crash.h"
#include "tests/agent/fake_blob_source.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::unique_ptr<BlobCache> OpenCache(const std::string& folder,
                                     uint64_t max_bytes = 1 << 20) {
  auto cache = BlobCache::Open(folder, {max_bytes});
  EXPECT_THAT(cache, IsOk());
  return std::move(cache).value();
}

std::string Content(char letter, size_t size) {
  return std::string(size, letter);
}

// Copies a pinned blob out and returns it.
absl::StatusOr<std::string> CopyOut(BlobCache& cache,
                                    const BlobCache::Pin& pin) {
  const TempDirectory temp = MakeTemp();
  const std::string path = JoinPath(temp.path(), "copy");
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const absl::Status status = cache.CopyOut(pin, fd.get());
  if (!status.ok()) return status;
  return Slurp(path);
}

TEST(BlobCache, FetchesOnceAndKeepsOverARestart) {
  const TempDirectory temp = MakeTemp();
  FakeBlobSource source;
  const Sha256 digest = source.Add(Content('a', 5000));
  {
    auto cache = OpenCache(temp.path());
    const auto pin = cache->Acquire(digest, 5000, source, {});
    ASSERT_THAT(pin, IsOk());
    EXPECT_THAT(CopyOut(*cache, *pin), IsOkAndHolds(Content('a', 5000)));
  }
  auto cache = OpenCache(temp.path());
  EXPECT_EQ(cache->bytes(), 5000u);
  EXPECT_THAT(cache->Acquire(digest, 5000, source, {}), IsOk());
  EXPECT_THAT(source.offsets(), ElementsAre(0));
}

TEST(BlobCache, AnEmptyBlobIsABlob) {
  const TempDirectory temp = MakeTemp();
  FakeBlobSource source;
  const Sha256 digest = source.Add("");
  auto cache = OpenCache(temp.path());
  const auto pin = cache->Acquire(digest, 0, source, {});
  ASSERT_THAT(pin, IsOk());
  EXPECT_THAT(CopyOut(*cache, *pin), IsOkAndHolds(""));
}

TEST(BlobCache, ResumesWhereTheLineWentDead) {
  const TempDirectory temp = MakeTemp();
  FakeBlobSource source;
  const Sha256 digest = source.Add(Content('a', 5000));
  source.BreakAfter(2000);
  auto cache = OpenCache(temp.path());
  EXPECT_THAT(cache->Acquire(digest, 5000, source, {}),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(cache->PartialBytes(digest), 2000u);

  // A new process resumes as well.
  cache = OpenCache(temp.path());
  EXPECT_THAT(cache->Acquire(digest, 5000, source, {}),
              StatusIs(absl::StatusCode::kUnavailable));
  source.BreakAfter(0);
  const auto pin = cache->Acquire(digest, 5000, source, {});
  ASSERT_THAT(pin, IsOk());
  EXPECT_THAT(source.offsets(), ElementsAre(0, 2000, 4000));
  EXPECT_THAT(CopyOut(*cache, *pin), IsOkAndHolds(Content('a', 5000)));
}

TEST(BlobCache, AKilledFetchIsResumed) {
  const TempDirectory temp = MakeTemp();
  FakeBlobSource source;
  const Sha256 digest = source.Add(Content('a', 5000));
  const auto fetch = [&] {
    (void)OpenCache(temp.path())->Acquire(digest, 5000, source, {});
  };
  EXPECT_TRUE(CrashAt("cache.piece-written", 3, fetch));
  EXPECT_TRUE(CrashAt("cache.before-rename", 1, fetch));
  EXPECT_TRUE(CrashAt("cache.renamed", 1, fetch));
  auto cache = OpenCache(temp.path());
  EXPECT_TRUE(cache->Contains(digest));
  EXPECT_THAT(FilesBelow(temp.path()), SizeIs(1));
}

TEST(BlobCache, BytesThatAreNotTheBlobAreNotKept) {
  const TempDirectory temp = MakeTemp();
  FakeBlobSource source;
  const Sha256 digest = Sha256Of("the right bytes");
  auto cache = OpenCache(temp.path());
  // Same length, too long, and a lie behind a resumed fetch.
  source.Lie(digest, "the wrong bytes");
  EXPECT_THAT(cache->Acquire(digest, 15, source, {}),
              StatusIs(absl::StatusCode::kDataLoss));
  source.Lie(digest, Content('x', 4000));
  EXPECT_THAT(cache->Acquire(digest, 15, source, {}),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(FilesBelow(temp.path()), IsEmpty());
  EXPECT_EQ(cache->bytes(), 0u);

  source.Lie(digest, "the right");
  EXPECT_THAT(cache->Acquire(digest, 15, source, {}),
              StatusIs(absl::StatusCode::kUnavailable));
  source.Lie(digest, "the right bytes");
  EXPECT_THAT(cache->Acquire(digest, 15, source, {}), IsOk());
}

TEST(BlobCache, ABlobThatWentBadIsDroppedAndFetchedAnew) {
  const TempDirectory temp = MakeTemp();
  FakeBlobSource source;
  const Sha256 digest = source.Add(Content('a', 3000));
  auto cache = OpenCache(temp.path());
  auto pin = cache->Acquire(digest, 3000, source, {});
  ASSERT_THAT(pin, IsOk());
  const std::string file = JoinPath(temp.path(), FilesBelow(temp.path())[0]);
  Spit(file, Content('b', 3000));

  EXPECT_THAT(CopyOut(*cache, *pin), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_FALSE(cache->Contains(digest));
  EXPECT_EQ(cache->bytes(), 0u);
  const auto again = cache->Acquire(digest, 3000, source, {});
  ASSERT_THAT(again, IsOk());
  EXPECT_THAT(CopyOut(*cache, *again), IsOkAndHolds(Content('a', 3000)));
  // The first pin, taken before, is now good as well.
  EXPECT_THAT(CopyOut(*cache, *pin), IsOkAndHolds(Content('a', 3000)));
}

TEST(BlobCache, TheLeastRecentlyUsedGoesFirstAndAPinnedOneNever) {
  const TempDirectory temp = MakeTemp();
  FakeBlobSource source;
  std::vector<Sha256> blobs;
  for (const char letter : {'a', 'b', 'c', 'd', 'e'}) {
    blobs.push_back(source.Add(Content(letter, 1000)));
  }
  auto cache = OpenCache(temp.path(), 3000);
  auto pinned = cache->Acquire(blobs[0], 1000, source, {});
  ASSERT_THAT(pinned, IsOk());
  ASSERT_THAT(cache->Acquire(blobs[1], 1000, source, {}), IsOk());
  ASSERT_THAT(cache->Acquire(blobs[2], 1000, source, {}), IsOk());
  ASSERT_THAT(cache->Acquire(blobs[1], 1000, source, {}), IsOk());

  ASSERT_THAT(cache->Acquire(blobs[3], 1000, source, {}), IsOk());
  EXPECT_TRUE(cache->Contains(blobs[0])) << "pinned";
  EXPECT_TRUE(cache->Contains(blobs[1])) << "used last";
  EXPECT_FALSE(cache->Contains(blobs[2]));
  EXPECT_LE(cache->bytes(), 3000u);

  // Everything pinned: refused, with what to do.
  auto second = cache->Acquire(blobs[1], 1000, source, {});
  auto third = cache->Acquire(blobs[3], 1000, source, {});
  EXPECT_THAT(cache->Acquire(blobs[4], 1000, source, {}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       ::testing::HasSubstr("--cache-bytes")));
  third = BlobCache::Pin();
  EXPECT_THAT(cache->Acquire(blobs[4], 1000, source, {}), IsOk());
}

TEST(BlobCache, ALoweredCapHoldsFromTheStart) {
  const TempDirectory temp = MakeTemp();
  FakeBlobSource source;
  {
    auto cache = OpenCache(temp.path());
    for (const char letter : {'a', 'b', 'c'}) {
      const Sha256 digest = source.Add(Content(letter, 1000));
      ASSERT_THAT(cache->Acquire(digest, 1000, source, {}), IsOk());
    }
  }
  EXPECT_EQ(OpenCache(temp.path(), 2000)->bytes(), 2000u);
}

TEST(BlobCache, AFullDiskLeavesNothingHalfWritten) {
  const TempDirectory temp = MakeTemp();
  FakeBlobSource source;
  const Sha256 digest = source.Add(Content('a', 100'000));
  auto cache = OpenCache(temp.path());
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {50'000, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto pin = cache->Acquire(digest, 100'000, source, {});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);

  EXPECT_THAT(pin, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(FilesBelow(temp.path()), IsEmpty());
  EXPECT_EQ(cache->bytes(), 0u);
  EXPECT_THAT(cache->Acquire(digest, 100'000, source, {}), IsOk());
}

TEST(BlobCache, ForeignFilesAreRemovedAtTheStart) {
  const TempDirectory temp = MakeTemp();
  OpenCache(temp.path());
  ASSERT_THAT(MakeDirectories(JoinPath(temp.path(), "blobs/zz")), IsOk());
  Spit(JoinPath(temp.path(), "blobs/zz/readme"), "x");
  Spit(JoinPath(temp.path(), "partial/readme"), "x");
  OpenCache(temp.path());
  EXPECT_THAT(FilesBelow(temp.path()), IsEmpty());
}

TEST(BlobCache, TwoThatWantOneBlobShareOneFetch) {
  const TempDirectory temp = MakeTemp();
  FakeBlobSource source;
  const Sha256 digest = source.Add(Content('a', 200'000));
  auto cache = OpenCache(temp.path());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      EXPECT_THAT(cache->Acquire(digest, 200'000, source, {}), IsOk());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(source.offsets(), ElementsAre(0));
}

TEST(BlobCache, AFetchIsGivenUpWhenAsked) {
  const TempDirectory temp = MakeTemp();
  FakeBlobSource source;
  const Sha256 digest = source.Add(Content('a', 5000));
  auto cache = OpenCache(temp.path());
  EXPECT_THAT(cache->Acquire(digest, 5000, source, [] { return true; }),
              StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace twinpath::agent
