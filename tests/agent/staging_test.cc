#include "agent/staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/agent/fake_blob_source.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class StagingTest : public ::testing::Test {
 protected:
  StagingTest() {
    AddFile("bin/check", "program", 0755);
    AddFile("lib/libx.so.1", "library", 0644);
    v1::ArtifactFile& link = *artifact_.add_files();
    link.set_name("lib/libx.so");
    link.set_type(v1::FILE_TYPE_SYMLINK);
    link.set_link_target("libx.so.1");
  }

  void AddFile(const std::string& name, const std::string& content,
               uint32_t mode) {
    v1::ArtifactFile& file = *artifact_.add_files();
    file.set_name(name);
    file.set_type(v1::FILE_TYPE_REGULAR);
    file.set_mode(mode);
    file.set_size_bytes(content.size());
    file.mutable_digest()->set_sha256(source_.Add(content).Raw());
  }

  absl::StatusOr<std::unique_ptr<StagedArtifact>> Stage() {
    return StagedArtifact::Stage(artifact_, *cache_, source_, folder_, {});
  }

  const TempDirectory temp_ = MakeTemp();
  const std::string folder_ = JoinPath(temp_.path(), "cell");
  FakeBlobSource source_;
  std::unique_ptr<BlobCache> cache_ =
      std::move(BlobCache::Open(JoinPath(temp_.path(), "cache"), {1 << 20}))
          .value();
  v1::Artifact artifact_;
};

TEST_F(StagingTest, MakesTheFolderAndRemovesItAfterwards) {
  {
    auto staged = Stage();
    ASSERT_THAT(staged, IsOk());
    EXPECT_THAT(FilesBelow(folder_),
                ElementsAre("bin/check", "lib/libx.so", "lib/libx.so.1"));
    EXPECT_EQ(Slurp(JoinPath(folder_, "lib/libx.so")), "library");
    struct stat info;
    ASSERT_EQ(stat(JoinPath(folder_, "bin/check").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0755u);

    ASSERT_THAT((*staged)->Verify(), IsOk());
    ASSERT_EQ((*staged)->staged().size(), 2u);
    EXPECT_EQ((*staged)->staged()[0].name(), "bin/check");
    EXPECT_EQ((*staged)->staged()[0].digest().sha256(),
              Sha256Of("program").Raw());
  }
  EXPECT_NE(access(folder_.c_str(), F_OK), 0);
}

TEST_F(StagingTest, ATamperedFileIsSeenJustBeforeTheRun) {
  auto staged = Stage();
  ASSERT_THAT(staged, IsOk());
  const std::string path = JoinPath(folder_, "bin/check");
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  Spit(path, "PROGRAM", 0755);

  EXPECT_THAT((*staged)->Verify(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("bin/check")));
  // What is reported is what was there.
  EXPECT_EQ((*staged)->staged()[0].digest().sha256(),
            Sha256Of("PROGRAM").Raw());
  EXPECT_EQ((*staged)->staged()[1].digest().sha256(),
            Sha256Of("library").Raw());
}

TEST_F(StagingTest, ATamperedFileIsSeenBetweenTwoPaths) {
  auto staged = Stage();
  ASSERT_THAT(staged, IsOk());
  ASSERT_THAT((*staged)->Verify(), IsOk());
  ASSERT_THAT((*staged)->Verify(), IsOk());
  Spit(JoinPath(folder_, "lib/libx.so.1"), "LIBRARY", 0644);
  EXPECT_THAT((*staged)->Verify(), StatusIs(absl::StatusCode::kDataLoss));
  // And once seen it stays seen.
  EXPECT_THAT((*staged)->Verify(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(StagingTest, ARemovedOrReplacedFileHasNoDigest) {
  auto staged = Stage();
  ASSERT_THAT(staged, IsOk());
  const std::string path = JoinPath(folder_, "bin/check");
  ASSERT_EQ(unlink(path.c_str()), 0);
  EXPECT_THAT((*staged)->Verify(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_FALSE((*staged)->staged()[0].has_digest());
  ASSERT_EQ(symlink("/bin/true", path.c_str()), 0);
  EXPECT_THAT((*staged)->Verify(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(StagingTest, ACachedBlobThatWentBadIsFetchedOnceMore) {
  ASSERT_THAT(Stage(), IsOk());
  const std::string cache = JoinPath(temp_.path(), "cache");
  for (const std::string& file : FilesBelow(cache)) {
    const std::string path = JoinPath(cache, file);
    if (Slurp(path) == "program") Spit(path, "PROGRAM");
  }
  auto staged = Stage();
  ASSERT_THAT(staged, IsOk());
  EXPECT_EQ(Slurp(JoinPath(folder_, "bin/check")), "program");
}

TEST_F(StagingTest, ADeadLineIsResumedAsLongAsItMakesProgress) {
  AddFile("big", std::string(9000, 'b'), 0644);
  source_.BreakAfter(1000);
  EXPECT_THAT(Stage(), IsOk());
}

TEST_F(StagingTest, HostileManifestsTouchNothingOutside) {
  for (const std::string name : {"../out", "/out", "a/../../out", ""}) {
    v1::Artifact artifact = artifact_;
    artifact.mutable_files(0)->set_name(name);
    EXPECT_THAT(StagedArtifact::Stage(artifact, *cache_, source_, folder_, {}),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << name;
  }
  v1::Artifact artifact = artifact_;
  artifact.mutable_files(2)->set_link_target("../../../etc/passwd");
  EXPECT_THAT(StagedArtifact::Stage(artifact, *cache_, source_, folder_, {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_NE(access(folder_.c_str(), F_OK), 0);
}

TEST_F(StagingTest, AMissingBlobLeavesNoFolder) {
  artifact_.mutable_files(1)->mutable_digest()->set_sha256(
      Sha256Of("never uploaded").Raw());
  EXPECT_THAT(Stage(), StatusIs(absl::StatusCode::kNotFound,
                                HasSubstr("lib/libx.so.1")));
  EXPECT_NE(access(folder_.c_str(), F_OK), 0);
}

TEST_F(StagingTest, AFullDiskLeavesNoFolder) {
  AddFile("big", std::string(100'000, 'b'), 0644);
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {50'000, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto staged = Stage();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_THAT(staged, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_NE(access(folder_.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace twinpath::agent
