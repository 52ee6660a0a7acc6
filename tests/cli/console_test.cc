#include "cli/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/status_matchers.h"

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

}  // namespace
}  // namespace twinpath::cli
