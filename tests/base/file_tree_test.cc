#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/file.h"
#include "base/status_matchers.h"

namespace twinpath {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool Exists(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0;
}

TEST(RemoveTree, RemovesEverythingBelow) {
  absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const std::string tree = JoinPath(folder->path(), "tree");
  ASSERT_THAT(MakeDirectories(tree + "/a/b/c"), IsOk());
  ASSERT_THAT(WriteFileAtomic(tree + "/a/b/file", "x", 0400), IsOk());
  ASSERT_THAT(WriteFileAtomic(tree + "/.hidden", "x"), IsOk());
  ASSERT_EQ(mkfifo((tree + "/a/pipe").c_str(), 0600), 0);
  // As a cache makes its entries read-only.
  ASSERT_EQ(chmod((tree + "/a/b").c_str(), 0500), 0);
  ASSERT_EQ(chmod((tree + "/a").c_str(), 0000), 0);
  EXPECT_THAT(RemoveTree(tree), IsOk());
  EXPECT_FALSE(Exists(tree));
}

TEST(RemoveTree, RemovesLinksAndNotWhatTheyNameOutside) {
  absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const std::string outside = JoinPath(folder->path(), "outside");
  const std::string tree = JoinPath(folder->path(), "tree");
  ASSERT_THAT(MakeDirectories(outside), IsOk());
  ASSERT_THAT(WriteFileAtomic(outside + "/kept", "x"), IsOk());
  ASSERT_THAT(MakeDirectories(tree), IsOk());
  ASSERT_EQ(symlink(outside.c_str(), (tree + "/link").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", (tree + "/broken").c_str()), 0);
  ASSERT_EQ(symlink(".", (tree + "/self").c_str()), 0);
  EXPECT_THAT(RemoveTree(tree), IsOk());
  EXPECT_FALSE(Exists(tree));
  EXPECT_THAT(ListDirectory(outside), IsOkAndHolds(ElementsAre("kept")));

  // The tree itself may be a link.
  ASSERT_EQ(symlink(outside.c_str(), tree.c_str()), 0);
  EXPECT_THAT(RemoveTree(tree), IsOk());
  EXPECT_FALSE(Exists(tree));
  EXPECT_TRUE(Exists(outside + "/kept"));
}

TEST(RemoveTree, WorksOnAFileAndOnNothing) {
  absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const std::string path = JoinPath(folder->path(), "x");
  EXPECT_THAT(RemoveTree(path), IsOk());
  ASSERT_THAT(WriteFileAtomic(path, "x"), IsOk());
  EXPECT_THAT(RemoveTree(path), IsOk());
  EXPECT_FALSE(Exists(path));
  EXPECT_THAT(RemoveTree("/proc/self/status"), ::testing::Not(IsOk()));
}

TEST(RemoveTree, NoTreeIsTooDeep) {
  absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const std::string tree = JoinPath(folder->path(), "tree");
  ASSERT_THAT(MakeDirectories(tree), IsOk());
  // A name that the removal itself would like to use.
  ASSERT_THAT(MakeDirectories(tree + "/.twinpath-remove-1/x"), IsOk());
  UniqueFd at(open(tree.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < 400; ++i) {
    ASSERT_EQ(mkdirat(at.get(), "d", 0700), 0);
    ASSERT_EQ(symlinkat("/", at.get(), "link"), 0);
    UniqueFd next(openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(next.valid());
    at = std::move(next);
  }
  at.Close();
  EXPECT_THAT(RemoveTree(tree), IsOk());
  EXPECT_FALSE(Exists(tree));
}

TEST(TempDirectory, IsPrivateAndGoesWithItsObject) {
  std::string path;
  {
    absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
    ASSERT_THAT(folder, IsOk());
    path = folder->path();
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700u);
    ASSERT_THAT(MakeDirectories(path + "/a/b"), IsOk());
    const TempDirectory moved(*std::move(folder));
    EXPECT_EQ(moved.path(), path);
    EXPECT_TRUE(Exists(path));
  }
  EXPECT_FALSE(Exists(path));
}

TEST(TempDirectory, LiesUnderTheParentNamed) {
  absl::StatusOr<TempDirectory> parent = TempDirectory::Make();
  ASSERT_THAT(parent, IsOk());
  absl::StatusOr<TempDirectory> one = TempDirectory::Make(parent->path());
  absl::StatusOr<TempDirectory> two = TempDirectory::Make(parent->path());
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(two, IsOk());
  EXPECT_EQ(DirName(one->path()), parent->path());
  const std::string second = two->path();
  *one = *std::move(two);
  EXPECT_EQ(one->path(), second);
  EXPECT_THAT(ListDirectory(parent->path()),
              IsOkAndHolds(ElementsAre(std::string(BaseName(second)))));
  EXPECT_THAT(TempDirectory::Make("/nonexistent"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nonexistent")));
}

}  // namespace
}  // namespace twinpath
