#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>
#include <optional>
#include <string>
#include <thread>

#include "base/status_matchers.h"

namespace twinpath {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
    ASSERT_THAT(folder, IsOk());
    folder_.emplace(*std::move(folder));
  }
  std::string Path(absl::string_view name) const {
    return JoinPath(folder_->path(), name);
  }

  std::optional<TempDirectory> folder_;
};

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFd, ClosesOnce) {
  UniqueFd a(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = a.get();
  ASSERT_TRUE(IsOpen(number));
  UniqueFd b(std::move(a));
  EXPECT_FALSE(a.valid());
  EXPECT_TRUE(IsOpen(number));
  b = UniqueFd();
  EXPECT_FALSE(IsOpen(number));
  UniqueFd c(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int released = c.Release();
  c.Close();
  EXPECT_TRUE(IsOpen(released));
  close(released);
}

TEST_F(FileTest, OpensForReadingAndClosesOnExec) {
  ASSERT_THAT(WriteFileAtomic(Path("f"), "x"), IsOk());
  for (const auto open_file : {OpenForRead, OpenRegularFile}) {
    const absl::StatusOr<UniqueFd> fd = open_file(Path("f"));
    ASSERT_THAT(fd, IsOk());
    EXPECT_EQ(fcntl(fd->get(), F_GETFD), FD_CLOEXEC);
  }
  EXPECT_THAT(OpenForRead(Path("none")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(Path("none"))));
  EXPECT_THAT(OpenRegularFile(Path("none")),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(FileTest, SaysWhatIsNoRegularFile) {
  EXPECT_THAT(OpenRegularFile(folder_->path()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is a folder, not a regular file")));
  EXPECT_THAT(
      OpenRegularFile("/dev/null"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is a device")));
  // Opening it must not wait for a writer.
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(
      OpenRegularFile(Path("pipe")),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is a pipe")));
  EXPECT_THAT(
      ReadFile(folder_->path(), 10),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is a folder")));
}

TEST_F(FileTest, ReadsUpToTheLimit) {
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{65536}, size_t{3 * 1024 * 1024 + 7}}) {
    const std::string content(size, 'c');
    ASSERT_THAT(WriteFileAtomic(Path("f"), content), IsOk());
    EXPECT_THAT(ReadFile(Path("f"), size), IsOkAndHolds(content));
    EXPECT_THAT(ReadFile(Path("f"), std::numeric_limits<uint64_t>::max()),
                IsOkAndHolds(content));
    if (size == 0) continue;
    EXPECT_THAT(
        ReadFile(Path("f"), size - 1),
        StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(Path("f"))));
  }
}

TEST_F(FileTest, ReadsFilesThatStateNoSize) {
  EXPECT_THAT(ReadFile("/proc/self/status", 1 << 20),
              IsOkAndHolds(HasSubstr("Pid:")));
  EXPECT_THAT(ReadFile("/proc/self/status", 10),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(ReadFile("/dev/zero", 100'000),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(FileTest, PreadNeverAllocatesWhatIsNotThere) {
  ASSERT_THAT(WriteFileAtomic(Path("f"), "0123456789"), IsOk());
  absl::StatusOr<UniqueFd> fd = OpenForRead(Path("f"));
  ASSERT_THAT(fd, IsOk());
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  EXPECT_THAT(PreadUpTo(fd->get(), 2, 3), IsOkAndHolds("234"));
  EXPECT_THAT(PreadUpTo(fd->get(), 8, kHuge), IsOkAndHolds("89"));
  EXPECT_THAT(PreadUpTo(fd->get(), 10, 1), IsOkAndHolds(""));
  EXPECT_THAT(PreadUpTo(fd->get(), kHuge, kHuge), IsOkAndHolds(""));
  EXPECT_THAT(PreadUpTo(fd->get(), kHuge / 2, kHuge), IsOkAndHolds(""));
  EXPECT_THAT(PreadUpTo(-1, 0, 1), Not(IsOk()));
}

TEST_F(FileTest, WriteAllWaitsForASlowReader) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  fcntl(read_end.get(), F_SETFL, 0);
  const std::string data(500'000, 'w');
  std::string received;
  std::thread reader([&] {
    char buffer[4096];
    ssize_t got = 0;
    while ((got = read(read_end.get(), buffer, sizeof(buffer))) > 0) {
      received.append(buffer, static_cast<size_t>(got));
    }
  });
  EXPECT_THAT(WriteAll(write_end.get(), data), IsOk());
  write_end.Close();
  reader.join();
  EXPECT_EQ(received, data);
  EXPECT_THAT(WriteAll(-1, "x"), Not(IsOk()));
}

TEST_F(FileTest, AtomicWriteReplacesAndSetsTheMode) {
  ASSERT_THAT(WriteFileAtomic(Path("f"), "old", 0644), IsOk());
  ASSERT_THAT(WriteFileAtomic(Path("f"), "new", 0640), IsOk());
  EXPECT_THAT(ReadFile(Path("f"), 100), IsOkAndHolds("new"));
  struct stat info {};
  ASSERT_EQ(stat(Path("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
  EXPECT_THAT(ListDirectory(folder_->path()), IsOkAndHolds(ElementsAre("f")));
}

TEST_F(FileTest, AtomicWriteTakesTheLongestName) {
  const std::string path = Path(std::string(255, 'n'));
  EXPECT_THAT(WriteFileAtomic(path, "x"), IsOk());
}

TEST_F(FileTest, FailedAtomicWriteLeavesNothing) {
  ASSERT_THAT(WriteFileAtomic(Path("f"), "old"), IsOk());
  // As a full disk: the write fails half-way, here for a file-size limit.
  struct rlimit old_limit {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  struct rlimit small = old_limit;
  small.rlim_cur = 4096;
  struct sigaction old_action {};
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &ignore, &old_action);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status =
      WriteFileAtomic(Path("f"), std::string(100'000, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  sigaction(SIGXFSZ, &old_action, nullptr);

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr(Path("f"))));
  EXPECT_THAT(ReadFile(Path("f"), 100), IsOkAndHolds("old"));
  EXPECT_THAT(ListDirectory(folder_->path()), IsOkAndHolds(ElementsAre("f")));
}

TEST_F(FileTest, AtomicWriteNeedsItsFolder) {
  EXPECT_THAT(WriteFileAtomic(Path("none/f"), "x"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(Path("none"))));
  // A folder is not replaced.
  ASSERT_THAT(MakeDirectories(Path("d/e")), IsOk());
  EXPECT_THAT(WriteFileAtomic(Path("d"), "x"), Not(IsOk()));
  EXPECT_THAT(ListDirectory(folder_->path()), IsOkAndHolds(ElementsAre("d")));
}

TEST_F(FileTest, MakesFoldersWithParents) {
  EXPECT_THAT(MakeDirectories(Path("a//b/c/"), 0750), IsOk());
  struct stat info {};
  ASSERT_EQ(stat(Path("a/b/c").c_str(), &info), 0);
  EXPECT_TRUE(S_ISDIR(info.st_mode));
  EXPECT_THAT(MakeDirectories(Path("a/b/c")), IsOk());
  EXPECT_THAT(MakeDirectories("/"), IsOk());
  EXPECT_THAT(MakeDirectories("/proc"), IsOk());
  EXPECT_THAT(MakeDirectories(""),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(FileTest, AFileIsNoParent) {
  ASSERT_THAT(WriteFileAtomic(Path("f"), "x"), IsOk());
  EXPECT_THAT(MakeDirectories(Path("f/g")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(Path("f")), HasSubstr("not a folder"))));
  ASSERT_EQ(symlink("nowhere", Path("broken").c_str()), 0);
  EXPECT_THAT(MakeDirectories(Path("broken")), Not(IsOk()));
}

TEST_F(FileTest, ListsSorted) {
  EXPECT_THAT(ListDirectory(folder_->path()), IsOkAndHolds(IsEmpty()));
  for (const char* name : {"b", "a", ".hidden", "\xff"}) {
    ASSERT_THAT(WriteFileAtomic(Path(name), ""), IsOk());
  }
  EXPECT_THAT(ListDirectory(folder_->path()),
              IsOkAndHolds(ElementsAre(".hidden", "a", "b", "\xff")));
  EXPECT_THAT(ListDirectory(Path("none")),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ListDirectory(Path("a")),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(FileTest, SyncsFolders) {
  EXPECT_THAT(SyncDirectory(folder_->path()), IsOk());
  EXPECT_THAT(SyncDirectory(Path("none")),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(FileTest, MessagesArePrintable) {
  EXPECT_THAT(OpenForRead(Path("\x1b[2J")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\\x1b[2J")));
}

TEST(Paths, Join) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "/b"), "a/b");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
  EXPECT_EQ(JoinPath("a", ""), "a");
}

TEST(Paths, BaseAndFolder) {
  EXPECT_EQ(BaseName("/a/b"), "b");
  EXPECT_EQ(BaseName("b"), "b");
  EXPECT_EQ(BaseName("a/"), "");
  EXPECT_EQ(DirName("/a/b"), "/a");
  EXPECT_EQ(DirName("/x"), "/");
  EXPECT_EQ(DirName("x"), ".");
  EXPECT_EQ(DirName("a//b"), "a");
}

}  // namespace
}  // namespace twinpath
