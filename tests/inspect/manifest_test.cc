#include "inspect/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status_matchers.h"

namespace twinpath::inspect {
namespace {

using ::testing::HasSubstr;

v1::ArtifactFile File(const std::string& name, const std::string& content) {
  v1::ArtifactFile file;
  file.set_name(name);
  file.set_type(v1::FILE_TYPE_REGULAR);
  file.set_mode(0755);
  file.set_size_bytes(content.size());
  file.mutable_digest()->set_sha256(Sha256Of(content).Raw());
  return file;
}

v1::ArtifactFile Link(const std::string& name, const std::string& target) {
  v1::ArtifactFile file;
  file.set_name(name);
  file.set_type(v1::FILE_TYPE_SYMLINK);
  file.set_link_target(target);
  return file;
}

v1::Artifact Of(const std::vector<v1::ArtifactFile>& files) {
  v1::Artifact artifact;
  for (const v1::ArtifactFile& file : files) *artifact.add_files() = file;
  return artifact;
}

// The worked example of docs/formats/artifact.md.
TEST(Manifest, LinesAreAsDocumented) {
  EXPECT_EQ(
      ManifestLine(File("bin/app", "hello\n")),
      "file 755 6 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e8"
      "46f6be03 bin/app\n");
  EXPECT_EQ(ManifestLine(Link("lib/libx.so", "libx.so.1")),
            "link libx.so.1 lib/libx.so\n");
  EXPECT_EQ(ManifestLine(Link("a b\\\n\xc3\xa9", "t")),
            "link t a\\x20b\\x5c\\x0a\\xc3\\xa9\n");
}

TEST(Manifest, DigestIsAsDocumented) {
  v1::ArtifactFile lib = File("lib/libx.so.1", "x");
  lib.set_mode(0644);
  const absl::StatusOr<Sha256> digest = ArtifactDigest(
      Of({File("bin/app", "hello\n"), lib, Link("lib/libx.so", "libx.so.1")}));
  ASSERT_THAT(digest, IsOk());
  EXPECT_EQ(digest->Hex(),
            "178dbbc4edef8ede711e086c3384903a65fdd344939da8c78a10237438dc8e0e");
}

TEST(Manifest, DigestIsOverTheSortedLines) {
  const v1::ArtifactFile app = File("bin/app", "hello\n");
  const v1::ArtifactFile lib = File("lib/libx.so.1", "x");
  const v1::ArtifactFile link = Link("lib/libx.so", "libx.so.1");
  std::vector<std::string> lines = {ManifestLine(app), ManifestLine(lib),
                                    ManifestLine(link)};
  std::sort(lines.begin(), lines.end());
  const Sha256 expected = Sha256Of(lines[0] + lines[1] + lines[2]);
  EXPECT_THAT(ArtifactDigest(Of({app, lib, link})), IsOkAndHolds(expected));
  EXPECT_THAT(ArtifactDigest(Of({link, app, lib})), IsOkAndHolds(expected));
  v1::Artifact named = Of({app, lib, link});
  named.set_name("any name");
  EXPECT_THAT(ArtifactDigest(named), IsOkAndHolds(expected));
  v1::ArtifactFile other = app;
  other.set_mode(0644);
  EXPECT_NE(*ArtifactDigest(Of({other, lib, link})), expected);
}

TEST(Manifest, NamesThatEscapeAreRefused) {
  for (const std::string& name :
       {std::string(""), std::string("/etc/passwd"), std::string("../x"),
        std::string("a/../b"), std::string("a//b"), std::string("./a"),
        std::string("a/"), std::string("a\0b", 3), std::string(5000, 'a')}) {
    EXPECT_THAT(ValidateArtifact(Of({File(name, "x")})),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << name;
  }
  EXPECT_THAT(ValidateArtifact(Of({File("a..b/...", "x")})), IsOk());
}

TEST(Manifest, LinksHaveToStayInsideAndEndAtAMember) {
  const v1::ArtifactFile file = File("lib/a", "x");
  EXPECT_THAT(ValidateArtifact(Of({file, Link("b", "lib/a")})), IsOk());
  EXPECT_THAT(ValidateArtifact(Of({file, Link("lib/b", "../lib/a")})), IsOk());
  EXPECT_THAT(ValidateArtifact(Of({file, Link("l", "lib")})), IsOk());
  EXPECT_THAT(ValidateArtifact(Of({file, Link("c", "b"), Link("b", "lib/a")})),
              IsOk());
  EXPECT_THAT(
      ValidateArtifact(Of({file, Link("b", "/lib/a")})),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("absolute")));
  EXPECT_THAT(
      ValidateArtifact(Of({file, Link("b", "../a")})),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("leaves")));
  EXPECT_THAT(ValidateArtifact(Of({file, Link("b", "gone")})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("not in the artifact")));
  EXPECT_THAT(ValidateArtifact(Of({Link("a", "b"), Link("b", "a")})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("loop")));
}

// ".." behind a link to a folder leads above what the link points at, not above
// the link, so a name that looks inside can lie outside.
TEST(Manifest, LinksAreFollowedAsTheKernelDoes) {
  const v1::ArtifactFile file = File("a/b/x", "x");
  const v1::ArtifactFile up = Link("a/b/up", "../..");
  EXPECT_THAT(ValidateArtifact(Of({file, up, Link("e", "a/b/up/a/b/x")})),
              IsOk());
  EXPECT_THAT(ValidateArtifact(Of({file, up, Link("e", "a/b/up/../x")})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("leaves the artifact")));
  // Nor is a file a folder.
  EXPECT_THAT(ValidateArtifact(Of({file, Link("e", "a/b/x/../x")})),
              StatusIs(absl::StatusCode::kInvalidArgument));
  // Many links to one another end.
  EXPECT_THAT(ValidateArtifact(Of({file, Link("p", "q/q"), Link("q", "p/p")})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("loop")));
}

TEST(Manifest, DuplicatesAndFilesBelowFilesAreRefused) {
  EXPECT_THAT(
      ValidateArtifact(Of({File("a", "x"), File("a", "y")})),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("occurs twice")));
  EXPECT_THAT(
      ValidateArtifact(Of({File("a", "x"), File("a/b", "y")})),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a folder")));
  EXPECT_THAT(ValidateArtifact(v1::Artifact()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Manifest, OddMembersAreRefused) {
  v1::ArtifactFile file = File("a", "x");
  file.set_mode(04755);
  EXPECT_THAT(ValidateArtifact(Of({file})),
              StatusIs(absl::StatusCode::kInvalidArgument));
  file = File("a", "x");
  file.mutable_digest()->set_sha256("short");
  EXPECT_THAT(ValidateArtifact(Of({file})),
              StatusIs(absl::StatusCode::kInvalidArgument));
  file = File("a", "x");
  file.set_type(v1::FILE_TYPE_UNSPECIFIED);
  EXPECT_THAT(ValidateArtifact(Of({file})),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Manifest, AStatedDigestHasToBeRight) {
  v1::Artifact artifact = Of({File("a", "x")});
  artifact.mutable_digest()->set_sha256(ArtifactDigest(artifact)->Raw());
  EXPECT_THAT(ValidateArtifact(artifact), IsOk());
  artifact.mutable_files(0)->set_mode(0700);
  EXPECT_THAT(ValidateArtifact(artifact),
              StatusIs(absl::StatusCode::kDataLoss));
}

class ScanArtifactTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<TempDirectory> made = TempDirectory::Make();
    ASSERT_THAT(made, IsOk());
    folder_ = std::make_unique<TempDirectory>(*std::move(made));
    root_ = folder_->path();
    ASSERT_THAT(MakeDirectories(root_ + "/lib/deep"), IsOk());
    ASSERT_THAT(WriteFileAtomic(root_ + "/app", "hello\n", 0755), IsOk());
    ASSERT_THAT(WriteFileAtomic(root_ + "/lib/libx.so.1", "x", 0644), IsOk());
    ASSERT_EQ(::symlink("libx.so.1", (root_ + "/lib/libx.so").c_str()), 0);
  }
  std::unique_ptr<TempDirectory> folder_;
  std::string root_;
};

TEST_F(ScanArtifactTest, TakesAFolderWhole) {
  const absl::StatusOr<v1::Artifact> artifact = ScanArtifact({root_}, "");
  ASSERT_THAT(artifact, IsOk());
  ASSERT_EQ(artifact->files_size(), 3);
  EXPECT_EQ(artifact->files(0).name(), "app");
  EXPECT_EQ(artifact->files(0).mode(), 0755);
  EXPECT_EQ(artifact->files(0).size_bytes(), 6);
  EXPECT_EQ(artifact->files(1).name(), "lib/libx.so");
  EXPECT_EQ(artifact->files(1).type(), v1::FILE_TYPE_SYMLINK);
  EXPECT_EQ(artifact->files(1).link_target(), "libx.so.1");
  EXPECT_EQ(artifact->files(2).name(), "lib/libx.so.1");
  EXPECT_THAT(ValidateArtifact(*artifact), IsOk());
  EXPECT_TRUE(artifact->has_digest());
}

TEST_F(ScanArtifactTest, NamesAreRelativeToTheRoot) {
  const absl::StatusOr<v1::Artifact> artifact =
      ScanArtifact({root_ + "/lib/libx.so.1", root_ + "//./app"}, root_ + "/");
  ASSERT_THAT(artifact, IsOk());
  EXPECT_EQ(artifact->files(0).name(), "app");
  EXPECT_EQ(artifact->files(1).name(), "lib/libx.so.1");
  EXPECT_THAT(ScanArtifact({"/etc/hostname"}, root_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("not inside the root")));
}

TEST_F(ScanArtifactTest, LooseFilesHaveTheirBaseName) {
  const absl::StatusOr<v1::Artifact> artifact =
      ScanArtifact({root_ + "/app", root_ + "/lib/libx.so.1"}, "");
  ASSERT_THAT(artifact, IsOk());
  EXPECT_EQ(artifact->files(0).name(), "app");
  EXPECT_EQ(artifact->files(1).name(), "libx.so.1");
  EXPECT_THAT(
      ScanArtifact({root_ + "/app", root_ + "/app"}, ""),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("occurs twice")));
}

TEST_F(ScanArtifactTest, MissingFilesAndLinksToNowhereAreErrors) {
  EXPECT_THAT(ScanArtifact({root_ + "/gone"}, ""),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("gone")));
  ASSERT_EQ(::symlink("/etc/hostname", (root_ + "/out").c_str()), 0);
  EXPECT_THAT(ScanArtifact({root_}, ""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("out")));
}

TEST_F(ScanArtifactTest, DevicesAndPipesAreRefused) {
  ASSERT_EQ(::mkfifo((root_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(ScanArtifact({root_}, ""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("pipe")));
  EXPECT_THAT(ScanArtifact({"/dev/zero"}, ""),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace twinpath::inspect
