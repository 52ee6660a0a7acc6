// RunProcess: how a child ends - by itself, by a signal, at the deadline, by
// the caller's wish - and what is kept of its output.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"
#include "tests/base/test_child.h"

namespace twinpath {
namespace {

using Ending = ProcessResult::Ending;
using ::testing::AnyOf;
using ::testing::StartsWith;

// A pipe by which a child tells that it is ready, and that it is gone.
class ReadyPipe {
 public:
  ReadyPipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_end_ = UniqueFd(ends[0]);
    write_end_ = UniqueFd(ends[1]);
  }

  // Gives the child the writing end as number 3.
  void AddTo(ProcessOptions& options) {
    options.descriptors = {{write_end_.get(), 3}};
  }
  // Returns whether the child has written; does not wait.
  bool IsReady() {
    fcntl(read_end_.get(), F_SETFL, O_NONBLOCK);
    char byte;
    if (read(read_end_.get(), &byte, 1) == 1) ready_ = true;
    return ready_;
  }
  // Waits until nobody holds the writing end any more.
  void WaitForEnd() {
    write_end_.Close();
    fcntl(read_end_.get(), F_SETFL, 0);
    char byte;
    while (read(read_end_.get(), &byte, 1) > 0) {
    }
  }
  int read_fd() const { return read_end_.get(); }
  void CloseWriteEnd() { write_end_.Close(); }

 private:
  UniqueFd read_end_;
  UniqueFd write_end_;
  bool ready_ = false;
};

TEST(SubprocessEnd, ReportsTheExitCode) {
  for (const int code : {0, 1, 127, 255}) {
    const absl::StatusOr<ProcessResult> result =
        RunProcess(Child({"exit", absl::StrCat(code)}));
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->ending, Ending::kExited);
    EXPECT_EQ(result->exit_code, code);
    EXPECT_EQ(result->succeeded(), code == 0);
    EXPECT_EQ(result->Describe(), absl::StrCat("exit ", code));
    EXPECT_GT(result->max_rss_bytes, 0u);
    EXPECT_GT(result->duration, absl::ZeroDuration());
  }
}

TEST(SubprocessEnd, ReportsTheSignal) {
  const absl::StatusOr<ProcessResult> result =
      RunProcess(Child({"signal", absl::StrCat(SIGSEGV)}));
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->ending, Ending::kSignaled);
  EXPECT_EQ(result->signal, SIGSEGV);
  EXPECT_FALSE(result->succeeded());
  EXPECT_EQ(result->Describe(), "signal 11 (SIGSEGV)");
}

TEST(SubprocessEnd, DeadlineSendsSigterm) {
  ProcessOptions options = Child({"forever"});
  options.timeout = absl::Milliseconds(20);
  options.grace = absl::InfiniteDuration();
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->ending, Ending::kTimedOut);
  EXPECT_EQ(result->signal, SIGTERM);
  EXPECT_FALSE(result->succeeded());
  EXPECT_THAT(result->Describe(), StartsWith("timed out after "));
}

TEST(SubprocessEnd, IgnoredSigtermIsFollowedBySigkill) {
  ReadyPipe ready;
  ProcessOptions options = Child({"ignore-sigterm"});
  ready.AddTo(options);
  options.cancelled = [&ready] { return ready.IsReady(); };
  options.grace = absl::Milliseconds(20);
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->ending, Ending::kCancelled);
  EXPECT_EQ(result->signal, SIGKILL);
  EXPECT_EQ(result->Describe(), "cancelled");
}

TEST(SubprocessEnd, AChildMayEndWellWithinTheGrace) {
  ReadyPipe ready;
  ProcessOptions options = Child({"goodbye"});
  ready.AddTo(options);
  options.cancelled = [&ready] { return ready.IsReady(); };
  options.grace = absl::InfiniteDuration();
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->ending, Ending::kCancelled);
  EXPECT_EQ(result->exit_code, 7);
  EXPECT_EQ(result->out.head, "goodbye");
}

TEST(SubprocessEnd, CancelledBeforeTheStart) {
  ProcessOptions options = Child({"forever"});
  options.cancelled = [] { return true; };
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->ending, Ending::kCancelled);
}

TEST(SubprocessEnd, ADaemonHoldingTheOutputDoesNotBlock) {
  ReadyPipe alive;
  ProcessOptions options = Child({"leave-daemon"});
  options.descriptors = {{alive.read_fd(), 3}};
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  alive.CloseWriteEnd();  // Ends the daemon.
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->succeeded());
  EXPECT_EQ(result->out.head, "parent\n");
}

TEST(SubprocessEnd, DescendantsOfTheGroupDieWithTheChild) {
  ReadyPipe held;
  ProcessOptions options = Child({"leave-writer"});
  held.AddTo(options);
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->succeeded());
  // Returns only once the descendant, which holds the other end, is dead.
  held.WaitForEnd();
}

TEST(SubprocessEnd, AChildDiesWithItsCaller) {
  ReadyPipe held;
  ProcessOptions options = Child({"nest"});
  held.AddTo(options);
  options.cancelled = [&held] { return held.IsReady(); };
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->ending, Ending::kCancelled);
  // The grandchild is in a group of its own and lost its caller.
  held.WaitForEnd();
}

TEST(SubprocessEnd, KeepsHeadAndTailOfAFlood) {
  constexpr int kLines = 400'000;
  std::string all;
  for (int i = 0; i < kLines; ++i) absl::StrAppend(&all, "line ", i, "\n");
  ProcessOptions options = Child({"flood", absl::StrCat(kLines)});
  options.head_bytes = 1000;
  options.tail_bytes = 300;
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  ASSERT_THAT(result, IsOk());
  for (const StreamCapture* stream : {&result->out, &result->err}) {
    EXPECT_EQ(stream->total_bytes, all.size());
    EXPECT_EQ(stream->head, all.substr(0, 1000));
    EXPECT_EQ(stream->tail, all.substr(all.size() - 300));
    EXPECT_EQ(stream->digest, Sha256Of(all));
    EXPECT_FALSE(stream->complete());
  }
}

TEST(SubprocessEnd, KeepsAllThatFits) {
  const std::string all = "line 0\nline 1\nline 2\n";
  ProcessOptions options = Child({"flood", "3"});
  options.head_bytes = 10;
  options.tail_bytes = 11;
  absl::StatusOr<ProcessResult> result = RunProcess(options);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->out.head + result->out.tail, all);
  EXPECT_TRUE(result->out.complete());

  options.tail_bytes = 10;
  result = RunProcess(options);
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->out.complete());

  options.head_bytes = 0;
  options.tail_bytes = 0;
  result = RunProcess(options);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->out.head, "");
  EXPECT_EQ(result->out.digest, Sha256Of(all));
}

TEST(SubprocessEnd, AFloodDoesNotHideTheDeadline) {
  ProcessOptions options = Child({"flood-forever"});
  options.timeout = absl::Milliseconds(50);
  options.head_bytes = 100;
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->ending, Ending::kTimedOut);
}

TEST(SubprocessEnd, AChildGivenUpIsReapedByALaterCall) {
  ReadyPipe ready;
  ProcessOptions options = Child({"ignore-sigterm"});
  ready.AddTo(options);
  options.cancelled = [&ready] { return ready.IsReady(); };
  options.grace = absl::ZeroDuration();
  options.abandon_after = absl::ZeroDuration();
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  ASSERT_THAT(result, IsOk());
  // No time was left behind SIGKILL; the kernel may have been quick though.
  EXPECT_THAT(result->ending, AnyOf(Ending::kHung, Ending::kCancelled));
  while (waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) {
    ASSERT_THAT(RunProcess(Child({"exit", "0"})), IsOk());
  }
}

TEST(SubprocessEnd, ALostStatusIsNoSuccess) {
  // The kernel throws statuses away while SIGCHLD is ignored.
  struct sigaction old_action {};
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGCHLD, &ignore, &old_action);
  const absl::StatusOr<ProcessResult> result = RunProcess(Child({"exit", "0"}));
  sigaction(SIGCHLD, &old_action, nullptr);
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->succeeded());
}

TEST(SubprocessEnd, ManyThreadsRunChildrenAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      for (int round = 0; round < 5; ++round) {
        ProcessOptions options = Child({"copy-input"});
        options.input = absl::StrCat("thread ", i, " round ", round);
        const absl::StatusOr<ProcessResult> result = RunProcess(options);
        ASSERT_THAT(result, IsOk());
        EXPECT_EQ(result->out.head, options.input);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace twinpath
