#include "runner/disk_use.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "runner/run_watch.h"

namespace twinpath::runner {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMuch = uint64_t{1} << 40;
constexpr uint64_t kMiB = 1 << 20;

class DiskUseTest : public ::testing::Test {
 protected:
  DiskUseTest() : folder_(*TempDirectory::Make()) {}
  std::string Path(absl::string_view name) const {
    return JoinPath(folder_.path(), name);
  }
  void Write(absl::string_view name, size_t bytes) {
    ASSERT_THAT(MakeDirectories(DirName(Path(name)), 0755), IsOk());
    ASSERT_THAT(WriteFileAtomic(Path(name), std::string(bytes, 'x'), 0600),
                IsOk());
  }
  DiskUse Below(absl::string_view name) const {
    return DiskUseBelow(Path(name), kMuch, absl::InfiniteFuture());
  }

  const TempDirectory folder_;
};

TEST_F(DiskUseTest, CountsWhatLiesBelowAndFollowsNoLink) {
  Write("a/b/file", kMiB);
  Write("elsewhere", kMiB);
  ASSERT_EQ(symlink(Path("elsewhere").c_str(), Path("a/link").c_str()), 0);
  const DiskUse use = Below("a");
  EXPECT_GE(use.bytes, kMiB);
  EXPECT_LT(use.bytes, 2 * kMiB);
  EXPECT_EQ(use.unseen, "");
  EXPECT_EQ(Below("none").bytes, 0u);
  EXPECT_EQ(Below("none").unseen, "");
}

TEST_F(DiskUseTest, FoldersTheOwnerClosedAreOpenedForTheLookAlone) {
  Write("a/closed/below/file", kMiB);
  Write("a/no-names/file", kMiB);
  Write("a/no-way/file", kMiB);
  ASSERT_EQ(chmod(Path("a/closed/below").c_str(), 0), 0);
  ASSERT_EQ(chmod(Path("a/closed").c_str(), 0), 0);
  ASSERT_EQ(chmod(Path("a/no-names").c_str(), 0311), 0);
  ASSERT_EQ(chmod(Path("a/no-way").c_str(), 0644), 0);
  const DiskUse use = Below("a");
  EXPECT_GE(use.bytes, 3 * kMiB);
  EXPECT_EQ(use.unseen, "");
  const auto mode = [&](absl::string_view name) {
    struct stat info {};
    EXPECT_EQ(stat(Path(name).c_str(), &info), 0);
    return info.st_mode & 07777;
  };
  EXPECT_EQ(mode("a/closed"), 0u);
  EXPECT_EQ(mode("a/no-names"), 0311u);
  EXPECT_EQ(mode("a/no-way"), 0644u);
  // So that they can be removed.
  ASSERT_EQ(chmod(Path("a/closed").c_str(), 0700), 0);
  EXPECT_EQ(mode("a/closed/below"), 0u);
  ASSERT_EQ(chmod(Path("a/closed/below").c_str(), 0700), 0);
}

TEST_F(DiskUseTest, DeepFoldersAreCountedAndTooDeepOnesAreSaid) {
  std::string name = "a";
  for (int i = 0; i < 200; ++i) name += "/d";
  Write(name + "/file", kMiB);
  EXPECT_GE(Below("a").bytes, kMiB);
  EXPECT_EQ(Below("a").unseen, "");
  for (int i = 0; i < 100; ++i) name += "/d";
  Write(name + "/file", kMiB);
  EXPECT_THAT(Below("a").unseen, HasSubstr("deep"));
}

TEST_F(DiskUseTest, AWalkThatIsTooLongEndsAndSaysSo) {
  for (int i = 0; i < 3; ++i) Write("a/" + std::to_string(i), 1);
  const DiskUse use = DiskUseBelow(Path("a"), kMuch, absl::InfinitePast());
  EXPECT_THAT(use.unseen, HasSubstr("too many"));
}

TEST_F(DiskUseTest, DeletedFilesThatAreOpenCountOnce) {
  Write("file", kMiB);
  const UniqueFd fd(open(Path("file").c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd again(open(Path("file").c_str(), O_RDONLY | O_CLOEXEC));
  const std::string places[] = {folder_.path()};
  const pid_t self[] = {getpid(), getpid()};
  const auto deleted = [&] {
    return DeletedFilesOf(self, places, absl::InfiniteFuture()).bytes;
  };
  const uint64_t before = deleted();
  ASSERT_EQ(unlink(Path("file").c_str()), 0);
  EXPECT_GE(deleted(), before + kMiB);
  EXPECT_LT(deleted(), before + 2 * kMiB);
  // Memory is no disk.
  const UniqueFd memory(memfd_create("memory", MFD_CLOEXEC));
  ASSERT_THAT(WriteAll(memory.get(), std::string(4 * kMiB, 'x')), IsOk());
  EXPECT_LT(deleted(), before + 2 * kMiB);
}

TEST_F(DiskUseTest, AProcessThatMayNotBeLookedIntoIsSaid) {
  const std::string places[] = {folder_.path()};
  const auto unseen = [&](pid_t pid) {
    const pid_t pids[] = {pid};
    return DeletedFilesOf(pids, places, absl::InfiniteFuture()).unseen;
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(0);
  // It has ended, but is still there.
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT),
            0);
  EXPECT_EQ(unseen(child), "");
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(unseen(child), "");
  EXPECT_EQ(unseen(getpid()), "");
  if (geteuid() == 0) GTEST_SKIP() << "root may look into every process";
  EXPECT_THAT(unseen(1), HasSubstr("process 1 (Permission denied)"));
}

// A watch of one file of a MiB that may have four, on a file system that has
// what `free` says.
class LostSpace : public DiskUseTest {
 protected:
  void SetUp() override {
    Write("a/file", kMiB);
    limits_.disk_folders = {Path("a")};
    limits_.disk_bytes = 4 * kMiB;
    limits_.unseen_bytes = 0;
    limits_.runs_at_once = 1;
    limits_.free_bytes = [this] { return std::optional<uint64_t>(free_); };
  }
  WatchLimits limits_;
  uint64_t free_ = 100 * kMiB;
};

TEST_F(LostSpace, OtherRunsOfTheHostMayHaveTheirs) {
  RunWatch alone(limits_);
  limits_.runs_at_once = 3;
  RunWatch one_of_three(limits_);
  free_ -= 10 * kMiB;
  EXPECT_TRUE(alone.Exceeded());
  EXPECT_THAT(alone.problem(), HasSubstr("cannot be told"));
  EXPECT_FALSE(one_of_three.ExceededNow()) << one_of_three.problem();
  free_ -= 2 * kMiB;
  EXPECT_TRUE(one_of_three.ExceededNow());
  EXPECT_THAT(one_of_three.problem(), HasSubstr("the 3 runs this host may"));
}

// The next look is a second away.
TEST_F(LostSpace, ItEndsTheRunWithoutWaitingForALook) {
  RunWatch watch(limits_);
  free_ -= 2 * kMiB;
  EXPECT_FALSE(watch.ExceededNow()) << watch.problem();
  free_ -= 2 * kMiB;
  EXPECT_TRUE(watch.Exceeded());
}

TEST_F(LostSpace, AnAllowanceWithoutEndIsNone) {
  limits_.unseen_bytes = UINT64_MAX;
  limits_.runs_at_once = 16;
  RunWatch watch(limits_);
  free_ = 0;
  EXPECT_FALSE(watch.ExceededNow()) << watch.problem();
}

TEST_F(DiskUseTest, ThereIsARunOnEachGpu) {
  EXPECT_EQ(RunsAtOnce(folder_.path()), 1u);
  for (const char* gpu : {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"}) {
    ASSERT_THAT(MakeDirectories(
                    Path(absl::StrCat("proc/driver/nvidia/gpus/", gpu)), 0755),
                IsOk());
  }
  EXPECT_EQ(RunsAtOnce(folder_.path()), 3u);
  setenv(kRunsVariable, "2", 1);
  EXPECT_EQ(RunsAtOnce(folder_.path()), 2u);
  setenv(kRunsVariable, "0", 1);
  EXPECT_EQ(RunsAtOnce(folder_.path()), 1u);
  unsetenv(kRunsVariable);
}

TEST_F(DiskUseTest, TheWatchEndsWhatIsOverTheLimit) {
  Write("a/file", kMiB);
  WatchLimits limits;
  limits.disk_folders = {Path("a")};
  limits.disk_bytes = 4 * kMiB;
  RunWatch enough(limits);
  EXPECT_FALSE(enough.Exceeded()) << enough.problem();
  limits.disk_bytes = kMiB / 2;
  RunWatch over(limits);
  EXPECT_TRUE(over.Exceeded());
  EXPECT_THAT(over.problem(), HasSubstr("disk limit"));
}

// /proc has no blocks, as a file system would that does not say what is free.
TEST_F(DiskUseTest, WhereNothingCanBeMeasuredNothingRuns) {
  WatchLimits limits;
  limits.disk_folders = {"/proc/self/task"};
  limits.disk_bytes = kMuch;
  RunWatch watch(limits);
  EXPECT_TRUE(watch.Exceeded());
  EXPECT_THAT(watch.problem(), HasSubstr("cannot be measured"));
}

}  // namespace
}  // namespace twinpath::runner
