#include "cli/console.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"

namespace twinpath::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A stream whose content can be read back.
class Captured {
 public:
  Captured() : file_(tmpfile()) {}
  ~Captured() { fclose(file_); }
  FILE* file() { return file_; }
  std::string Text() {
    fflush(file_);
    rewind(file_);
    std::string out;
    char buffer[4096];
    size_t got;
    while ((got = fread(buffer, 1, sizeof buffer, file_)) > 0) {
      out.append(buffer, got);
    }
    return out;
  }

 private:
  FILE* file_;
};

TEST(WantsColor, FollowsTheUsualOrder) {
  // (choice, terminal, NO_COLOR, FORCE_COLOR, TERM)
  EXPECT_TRUE(WantsColor(Color::kAuto, true, nullptr, nullptr, "xterm"));
  EXPECT_FALSE(WantsColor(Color::kAuto, false, nullptr, nullptr, "xterm"));
  EXPECT_FALSE(WantsColor(Color::kAuto, true, "1", nullptr, "xterm"));
  // An empty NO_COLOR is as good as none (https://no-color.org).
  EXPECT_TRUE(WantsColor(Color::kAuto, true, "", nullptr, "xterm"));
  EXPECT_FALSE(WantsColor(Color::kAuto, true, nullptr, nullptr, "dumb"));
  EXPECT_TRUE(WantsColor(Color::kAuto, false, nullptr, "1", "dumb"));
  EXPECT_FALSE(WantsColor(Color::kAuto, true, "1", "1", "xterm"));
  EXPECT_TRUE(WantsColor(Color::kAlways, false, "1", nullptr, "dumb"));
  EXPECT_FALSE(WantsColor(Color::kNever, true, nullptr, "1", "xterm"));
}

TEST(Console, ResultsAndTalkGoToTheirOwnStreams) {
  Captured out;
  Captured err;
  Console console(out.file(), err.file(), {});
  console.Print("result\n");
  console.Say("talk");
  console.Warn("careful");
  EXPECT_EQ(
      console.Fail(absl::NotFoundError("reading x: no such file"), "try y"),
      kExitUsage);
  EXPECT_EQ(out.Text(), "result\n");
  EXPECT_EQ(err.Text(),
            "talk\nwarning: careful\nerror: reading x: no such file\n"
            "hint: try y\n");
}

TEST(Console, QuietKeepsWarningsAndErrors) {
  Captured out;
  Captured err;
  ConsoleOptions options;
  options.quiet = true;
  Console console(out.file(), err.file(), options);
  console.Say("talk");
  console.Warn("careful");
  EXPECT_EQ(err.Text(), "warning: careful\n");
}

TEST(Console, EveryLineOfAnErrorIsMarkedAndPrintable) {
  Captured out;
  Captured err;
  Console console(out.file(), err.file(), {});
  console.Error("one\ntwo\x1b[31m");
  const std::string text = err.Text();
  EXPECT_THAT(text, HasSubstr("error: one\nerror: two"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(Console, AFullDiskIsNoticed) {
  FILE* full = fopen("/dev/full", "w");
  if (full == nullptr) GTEST_SKIP() << "needs /dev/full";
  Captured err;
  Console console(full, err.file(), {});
  console.Print("result\n");
  EXPECT_THAT(console.Flush(), StatusIs(absl::StatusCode::kResourceExhausted));
  fclose(full);
}

// The end of a pipe that nobody reads.
UniqueFd ClosedPipe() {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return UniqueFd();
  close(ends[0]);
  return UniqueFd(ends[1]);
}

TEST(Console, AClosedPipeIsNoFault) {
  const auto before = signal(SIGPIPE, SIG_IGN);
  UniqueFd pipe = ClosedPipe();
  ASSERT_TRUE(pipe.valid());
  FILE* const out = fdopen(pipe.Release(), "w");
  Captured err;
  {
    Console console(out, err.file(), {});
    console.Print("result\n");
    EXPECT_FALSE(console.closed());
    EXPECT_THAT(console.Flush(), StatusIs(absl::StatusCode::kCancelled));
    EXPECT_TRUE(console.closed());
  }
  fclose(out);
  signal(SIGPIPE, before);
  EXPECT_EQ(err.Text(), "");
}

// Some programs leave a pipe that they share non-blocking.
TEST(Console, APipeThatDoesNotBlockGetsAll) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const UniqueFd reader(ends[0]);
  std::string expected;
  std::thread writer([&expected, fd = ends[1]] {
    FILE* const out = fdopen(fd, "w");
    Captured err;
    {
      Console console(out, err.file(), {});
      for (int i = 0; i < 20000; ++i) {
        const std::string line = absl::StrCat("line ", i, "\n");
        expected += line;
        console.Print(line);
      }
      EXPECT_THAT(console.Flush(), IsOk());
    }
    fclose(out);
  });
  std::string got;
  while (true) {
    pollfd wait{reader.get(), POLLIN, 0};
    ASSERT_EQ(poll(&wait, 1, -1), 1);
    char buffer[1000];
    const ssize_t n = read(reader.get(), buffer, sizeof buffer);
    if (n <= 0) break;
    got.append(buffer, static_cast<size_t>(n));
  }
  writer.join();
  EXPECT_GT(expected.size(), size_t{65536});
  EXPECT_EQ(got, expected);
}

// What a shell shows of `twinpath COMMAND | true`, and what it says.
struct Piped {
  int code = 0;
  std::string err;
};
Piped RunIntoClosedPipe(const std::string& command) {
  Piped piped;
  const absl::StatusOr<std::string> program = FindCompanion("twinpath");
  EXPECT_THAT(program, IsOk());
  const UniqueFd pipe = ClosedPipe();
  ProcessOptions options;
  options.argv = {
      "/bin/sh", "-c",
      absl::StrCat("exec '", program.value_or(""), "' ", command, " >&3")};
  options.environment = MinimalEnvironment();
  options.descriptors = {{pipe.get(), 3}};
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  EXPECT_THAT(result, IsOk());
  if (!result.ok()) return piped;
  EXPECT_EQ(result->ending, ProcessResult::Ending::kExited);
  return {result->exit_code, result->err.head};
}

TEST(ClosedPipe, EndsQuietlyAsOfSigpipe) {
  for (const char* const command :
       {"version", "--version", "--help", "--format json version"}) {
    const Piped piped = RunIntoClosedPipe(command);
    EXPECT_EQ(piped.code, 128 + SIGPIPE) << command;
    EXPECT_EQ(piped.err, "") << command;
  }
}

TEST(ClosedPipe, AnErrorKeepsItsCode) {
  const Piped piped = RunIntoClosedPipe("explain 999999");
  EXPECT_NE(piped.code, kExitPass);
  EXPECT_NE(piped.code, 128 + SIGPIPE);
  EXPECT_THAT(piped.err, Not(HasSubstr("written")));
}

}  // namespace
}  // namespace twinpath::cli
