#include "coordinator/blobs.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status_matchers.h"

namespace twinpath::coordinator {
namespace {

using ::testing::HasSubstr;

class BlobsTest : public ::testing::Test {
 protected:
  void SetUp() override { Open({}); }
  void Open(const BlobOptions& options) {
    auto blobs = BlobStore::Open(folder_.path(), options);
    ASSERT_THAT(blobs, IsOk());
    blobs_ = std::move(*blobs);
  }
  // Names of what lies in uploads/.
  std::vector<std::string> Leftovers() {
    return *ListDirectory(JoinPath(folder_.path(), "uploads"));
  }
  absl::Status PutAll(const std::string& data) {
    auto upload = blobs_->Begin(Sha256Of(data), data.size(), 0);
    if (!upload.ok()) return upload.status();
    if (auto status = (*upload)->Write(data); !status.ok()) return status;
    return (*upload)->Commit();
  }
  std::string Content(const Sha256& digest) {
    auto path = blobs_->PathOf(digest);
    return path.ok() ? *ReadFile(*path, 1 << 20) : "";
  }

  TempDirectory folder_ = *TempDirectory::Make();
  std::unique_ptr<BlobStore> blobs_;
};

TEST_F(BlobsTest, StoresUnderItsDigest) {
  ASSERT_THAT(PutAll("hello"), IsOk());
  const Sha256 digest = Sha256Of("hello");
  EXPECT_TRUE(blobs_->Has(digest));
  EXPECT_EQ(Content(digest), "hello");
  EXPECT_EQ(blobs_->OpenForReading(digest)->size_bytes, 5u);
  EXPECT_TRUE(blobs_->Progress(digest)->complete);
  EXPECT_EQ(blobs_->Progress(digest)->offset, 5u);
  EXPECT_TRUE(Leftovers().empty());
  EXPECT_EQ(blobs_->UsedBytes(), 5u);
}

TEST_F(BlobsTest, EmptyBlob) {
  ASSERT_THAT(PutAll(""), IsOk());
  EXPECT_TRUE(blobs_->Has(Sha256Of("")));
}

TEST_F(BlobsTest, InvisibleUntilCommitted) {
  const Sha256 digest = Sha256Of("hello");
  auto upload = blobs_->Begin(digest, 5, 0);
  ASSERT_THAT((*upload)->Write("hello"), IsOk());
  EXPECT_FALSE(blobs_->Has(digest));
  EXPECT_THAT(blobs_->PathOf(digest), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(BlobsTest, WrongDigestKeepsNothing) {
  const Sha256 digest = Sha256Of("hello");
  auto upload = blobs_->Begin(digest, 5, 0);
  ASSERT_THAT((*upload)->Write("jello"), IsOk());
  EXPECT_THAT((*upload)->Commit(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(digest.Hex())));
  upload->reset();
  EXPECT_FALSE(blobs_->Has(digest));
  EXPECT_EQ(blobs_->Progress(digest)->offset, 0u);
  EXPECT_TRUE(Leftovers().empty());
  EXPECT_EQ(blobs_->UsedBytes(), 0u);
}

TEST_F(BlobsTest, MoreThanAnnouncedKeepsNothing) {
  auto upload = blobs_->Begin(Sha256Of("hello"), 4, 0);
  EXPECT_THAT((*upload)->Write("hello"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_TRUE(Leftovers().empty());
  EXPECT_EQ(blobs_->UsedBytes(), 0u);
}

TEST_F(BlobsTest, ResumesWhereItStopped) {
  const Sha256 digest = Sha256Of("hello world");
  {
    auto upload = blobs_->Begin(digest, 11, 0);
    ASSERT_THAT((*upload)->Write("hello "), IsOk());
  }
  // Also behind a restart.
  Open({});
  EXPECT_EQ(blobs_->Progress(digest)->offset, 6u);
  EXPECT_FALSE(blobs_->Progress(digest)->complete);
  EXPECT_EQ(blobs_->UsedBytes(), 6u);
  EXPECT_THAT(blobs_->Begin(digest, 11, 5),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("6 bytes")));
  auto upload = blobs_->Begin(digest, 11, 6);
  ASSERT_THAT(upload, IsOk());
  ASSERT_THAT((*upload)->Write("world"), IsOk());
  ASSERT_THAT((*upload)->Commit(), IsOk());
  EXPECT_EQ(Content(digest), "hello world");
  EXPECT_EQ(blobs_->UsedBytes(), 11u);
}

TEST_F(BlobsTest, EndingEarlyIsToldAndResumable) {
  const Sha256 digest = Sha256Of("hello");
  {
    auto upload = blobs_->Begin(digest, 5, 0);
    ASSERT_THAT((*upload)->Write("hel"), IsOk());
    EXPECT_THAT((*upload)->Commit(),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("byte 3")));
  }
  EXPECT_EQ(blobs_->Progress(digest)->offset, 3u);
}

TEST_F(BlobsTest, ParallelUploadsOfOneDigestBothSucceed) {
  const std::string data(3'000'000, 'q');
  const Sha256 digest = Sha256Of(data);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      auto upload = blobs_->Begin(digest, data.size(), 0);
      // One that comes when a first part lies there without an owner is told
      // where to go on; that cannot happen here.
      ASSERT_THAT(upload, IsOk());
      for (size_t at = 0; at < data.size(); at += 100'000) {
        ASSERT_THAT((*upload)->Write(data.substr(at, 100'000)), IsOk());
      }
      ASSERT_THAT((*upload)->Commit(), IsOk());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(*Sha256OfFile(*blobs_->PathOf(digest)), digest);
  EXPECT_TRUE(Leftovers().empty());
  EXPECT_EQ(blobs_->UsedBytes(), data.size());
}

TEST_F(BlobsTest, ResumeTakesOverFromAStalledUpload) {
  const Sha256 digest = Sha256Of("hello world");
  auto stalled = blobs_->Begin(digest, 11, 0);
  ASSERT_THAT((*stalled)->Write("hello "), IsOk());
  auto fresh = blobs_->Begin(digest, 11, 6);
  ASSERT_THAT(fresh, IsOk());
  EXPECT_THAT((*stalled)->Write("worms"), StatusIs(absl::StatusCode::kAborted));
  stalled->reset();
  ASSERT_THAT((*fresh)->Write("world"), IsOk());
  ASSERT_THAT((*fresh)->Commit(), IsOk());
  EXPECT_EQ(Content(digest), "hello world");
  EXPECT_TRUE(Leftovers().empty());
  EXPECT_EQ(blobs_->UsedBytes(), 11u);
}

TEST_F(BlobsTest, QuotaRefusesBeforeWriting) {
  BlobOptions options;
  options.quota_bytes = 10;
  Open(options);
  ASSERT_THAT(PutAll("12345"), IsOk());
  EXPECT_THAT(PutAll("123456"), StatusIs(absl::StatusCode::kResourceExhausted,
                                         HasSubstr("quota")));
  EXPECT_TRUE(Leftovers().empty());
  EXPECT_EQ(blobs_->UsedBytes(), 5u);
  EXPECT_THAT(PutAll("abcde"), IsOk());
}

TEST_F(BlobsTest, LeftoversOfParallelUploadsGoAtStart) {
  const std::string stray = JoinPath(folder_.path(), "uploads/ab.7.tmp");
  ASSERT_THAT(WriteFileAtomic(stray, "x"), IsOk());
  Open({});
  EXPECT_TRUE(Leftovers().empty());
}

TEST_F(BlobsTest, UploadsNobodyResumesGoAfterAWeek) {
  const Sha256 digest = Sha256Of("hello");
  {
    auto upload = blobs_->Begin(digest, 5, 0);
    ASSERT_THAT((*upload)->Write("hel"), IsOk());
  }
  const std::string part = JoinPath(folder_.path(), "uploads/" + digest.Hex());
  const struct timespec old[2] = {{1'000'000, 0}, {1'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, part.c_str(), old, 0), 0);
  Open({});
  EXPECT_EQ(blobs_->Progress(digest)->offset, 0u);
  EXPECT_EQ(blobs_->UsedBytes(), 0u);
}

TEST_F(BlobsTest, FullDiskKeepsNothing) {
  // The file limit of a process stands in for a full disk: it needs no root.
  // In a child, because the limit cannot be raised again.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit = {100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string data(200'000, 'z');
    auto upload = blobs_->Begin(Sha256Of(data), data.size(), 0);
    if (!upload.ok()) _exit(2);
    const absl::Status status = (*upload)->Write(data);
    _exit(absl::IsResourceExhausted(status) ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(Leftovers().empty());
}

}  // namespace
}  // namespace twinpath::coordinator
