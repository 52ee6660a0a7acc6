// RunProcess: how a child starts - program, arguments, environment, folder,
// descriptors, signals, limits - and what a failed start says.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"
#include "tests/base/test_child.h"

namespace twinpath {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string OutputOf(const ProcessOptions& options) {
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  EXPECT_THAT(result, IsOk());
  if (!result.ok()) return "";
  EXPECT_TRUE(result->succeeded()) << result->Describe() << result->err.head;
  return result->out.head;
}

UniqueFd MemoryFile(const std::string& content) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC));
  EXPECT_THAT(WriteAll(fd.get(), content), IsOk());
  return fd;
}

TEST(SubprocessStart, PassesArgumentsUnchanged) {
  EXPECT_EQ(OutputOf(Child({"arguments", "a b", "", "$HOME", "\n*"})),
            "[a b][][$HOME][\n*]");
}

TEST(SubprocessStart, GivesExactlyTheEnvironmentNamed) {
  ProcessOptions options = Child({"environment"});
  EXPECT_EQ(OutputOf(options), "");
  options.environment = {"B=2", "A=", "C=x=y"};
  EXPECT_EQ(OutputOf(options), "B=2\nA=\nC=x=y\n");
}

TEST(SubprocessStart, MinimalEnvironmentHasThreeVariables) {
  ProcessOptions options = Child({"environment"});
  options.environment = MinimalEnvironment();
  EXPECT_THAT(OutputOf(options),
              ::testing::MatchesRegex("PATH=[^\n]+\nHOME=[^\n]+\nLANG=C\n"));
}

TEST(SubprocessStart, SearchesPathOfTheChild) {
  const std::string folder = DirName(Child({}).argv[0]);
  ProcessOptions options = Child({"exit", "0"});
  options.argv[0] = "base_test_child";
  options.environment = {absl::StrCat("PATH=/nonexistent::", folder)};
  EXPECT_EQ(OutputOf(options), "");

  options.environment = {"PATH=/nonexistent"};
  EXPECT_THAT(RunProcess(options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("in PATH")));
  options.environment = {};
  EXPECT_THAT(RunProcess(options), StatusIs(absl::StatusCode::kNotFound));
  // A folder that may not be searched says nothing of the program. Root may
  // search every folder and so sees the same.
  auto closed = TempDirectory::Make();
  ASSERT_THAT(closed, IsOk());
  ASSERT_EQ(chmod(closed->path().c_str(), 0), 0);
  options.environment = {
      absl::StrCat("PATH=", closed->path(), ":/nonexistent")};
  const absl::Status searched = RunProcess(options).status();
  ASSERT_EQ(chmod(closed->path().c_str(), 0700), 0);
  EXPECT_THAT(searched, StatusIs(absl::StatusCode::kNotFound));

  // The working folder is no part of PATH, even where PATH has an empty one.
  options.environment = {"PATH=:"};
  options.directory = folder;
  EXPECT_THAT(RunProcess(options), StatusIs(absl::StatusCode::kNotFound));
}

TEST(SubprocessStart, EntersTheWorkingFolder) {
  ProcessOptions options = Child({"directory"});
  options.directory = "/proc";
  EXPECT_EQ(OutputOf(options), "/proc");
  options.directory = "/nonexistent";
  EXPECT_THAT(RunProcess(options),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("enter folder /nonexistent")));
}

TEST(SubprocessStart, InheritsNoDescriptorThatWasNotNamed) {
  // Open and inheritable, as a library of the caller might leave them.
  const UniqueFd leaked(open("/dev/null", O_RDONLY));
  const UniqueFd far(fcntl(leaked.get(), F_DUPFD, 200));
  ASSERT_TRUE(far.valid());
  EXPECT_EQ(OutputOf(Child({"descriptors"})), "0 1 2 ");

  ProcessOptions options = Child({"descriptors"});
  options.descriptors = {{leaked.get(), 3}, {leaked.get(), 9}};
  EXPECT_EQ(OutputOf(options), "0 1 2 3 9 ");
}

TEST(SubprocessStart, InheritsNoneOnAnOldKernelEither) {
  const absl::StatusOr<ProcessResult> result =
      RunProcess(Child({"old-kernel"}));
  ASSERT_THAT(result, IsOk());
  if (result->exit_code == 77) GTEST_SKIP() << "the kernel lacks seccomp";
  EXPECT_TRUE(result->succeeded()) << result->Describe() << result->err.head;
  EXPECT_EQ(result->out.head, "0 1 2 7 ");
}

TEST(SubprocessStart, DescriptorsMayTradeNumbers) {
  const UniqueFd one = MemoryFile("one");
  const UniqueFd two = MemoryFile("two");
  ProcessOptions options = Child({"descriptor", absl::StrCat(one.get())});
  options.descriptors = {{one.get(), two.get()}, {two.get(), one.get()}};
  EXPECT_EQ(OutputOf(options), "two");
  options.argv.back() = absl::StrCat(two.get());
  EXPECT_EQ(OutputOf(options), "one");
}

TEST(SubprocessStart, RefusesImpossibleRequests) {
  ProcessOptions options = Child({"exit", "0"});
  options.descriptors = {{0, 2}};
  EXPECT_THAT(RunProcess(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("cannot be number 2")));
  options.descriptors = {{0, 5}, {1, 5}};
  EXPECT_THAT(RunProcess(options),
              StatusIs(absl::StatusCode::kInvalidArgument));
  options.descriptors = {{0, 1 << 20}};
  EXPECT_THAT(RunProcess(options),
              StatusIs(absl::StatusCode::kInvalidArgument));
  options.descriptors = {{987654, 3}};
  EXPECT_THAT(RunProcess(options), ::testing::Not(IsOk()));

  options = Child({std::string("a\0b", 3)});
  EXPECT_THAT(RunProcess(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("NUL")));
  options = Child({"exit", "0"});
  options.environment = {"NOVALUE"};
  EXPECT_THAT(RunProcess(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("NOVALUE")));
  options.argv.clear();
  EXPECT_THAT(RunProcess(options),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SubprocessStart, SaysWhyAProgramDoesNotStart) {
  absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const std::string path = JoinPath(folder->path(), "program");
  ProcessOptions options;
  options.argv = {path};
  EXPECT_THAT(RunProcess(options),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr(path), HasSubstr("no such program"))));

  ASSERT_THAT(WriteFileAtomic(path, "#!/bin/sh\nexit 0\n", 0644), IsOk());
  EXPECT_THAT(RunProcess(options), StatusIs(absl::StatusCode::kPermissionDenied,
                                            HasSubstr("may not be run")));

  ASSERT_THAT(WriteFileAtomic(path, "exit 0\n", 0755), IsOk());
  EXPECT_THAT(RunProcess(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("exec format")));

  ASSERT_THAT(WriteFileAtomic(path, "#!/nonexistent/sh\n", 0755), IsOk());
  EXPECT_THAT(RunProcess(options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("interpreter")));
  options.argv = {"./program"};
  options.directory = folder->path();
  EXPECT_THAT(RunProcess(options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("interpreter")));

  options.argv = {folder->path()};
  EXPECT_THAT(RunProcess(options),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST(SubprocessStart, FeedsStandardInput) {
  ProcessOptions options = Child({"copy-input"});
  EXPECT_EQ(OutputOf(options), "");
  // More than a pipe holds, and a child that does not read is no trouble.
  options.input = std::string(300'000, 'i') + std::string("\0end", 4);
  EXPECT_EQ(OutputOf(options), options.input);
  options.argv = Child({"exit", "0"}).argv;
  EXPECT_EQ(OutputOf(options), "");
}

TEST(SubprocessStart, ResetsSignals) {
  struct sigaction old_pipe {};
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &old_pipe);
  sigset_t blocked;
  sigset_t old_mask;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &old_mask);
  const std::string output = OutputOf(Child({"signals"}));
  sigset_t mask_behind;
  pthread_sigmask(SIG_SETMASK, &old_mask, &mask_behind);
  sigaction(SIGPIPE, &old_pipe, nullptr);

  EXPECT_EQ(output, "");
  // The caller's own mask came back.
  EXPECT_TRUE(sigismember(&mask_behind, SIGUSR1));
  EXPECT_FALSE(sigismember(&mask_behind, SIGINT));
}

TEST(SubprocessStart, SetsLimits) {
  ProcessOptions options = Child({"limits"});
  options.limits.open_files = 64;
  options.limits.file_bytes = 1 << 20;
  EXPECT_EQ(OutputOf(options), "0 64 1048576 ");
}

TEST(SubprocessStart, FileLimitEndsAWriter) {
  absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  ProcessOptions options =
      Child({"write-file", JoinPath(folder->path(), "large")});
  options.limits.file_bytes = 1 << 20;
  absl::StatusOr<ProcessResult> result = RunProcess(options);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->ending, ProcessResult::Ending::kSignaled);
  EXPECT_EQ(result->Describe(), "signal 25 (SIGXFSZ)");
}

TEST(SubprocessStart, CpuLimitNamesItself) {
  ProcessOptions options = Child({"spin"});
  options.limits.cpu_seconds = 1;
  absl::StatusOr<ProcessResult> result = RunProcess(options);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->Describe(), "signal 24 (SIGXCPU)");
}

}  // namespace
}  // namespace twinpath
