#include "cli/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/file.h"
#include "base/status_matchers.h"

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ChildProcess, PassesExitCodeAndKeepsTheLog) {
  const absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  setenv("TWINPATH_TEST_GONE", "1", 1);
  ChildOptions options;
  options.argv = {"/bin/sh", "-c", "env; echo talk >&2; exit 7"};
  options.log_path = JoinPath(folder->path(), "log");
  options.set = {"TWINPATH_TEST_SET=yes"};
  options.unset = {"TWINPATH_TEST_GONE"};
  absl::StatusOr<ChildProcess> child = ChildProcess::Start(options);
  ASSERT_THAT(child, IsOk());
  const std::optional<int> status = child->WaitFor(absl::Minutes(1));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(ShellExitCode(*status), 7);
  const absl::StatusOr<std::string> log = ReadFile(options.log_path, 1 << 20);
  ASSERT_THAT(log, IsOk());
  EXPECT_THAT(*log, AllOf(HasSubstr("TWINPATH_TEST_SET=yes"), HasSubstr("talk"),
                          Not(HasSubstr("TWINPATH_TEST_GONE"))));
}

TEST(ChildProcess, AMissingProgramIsAnErrorNotAnExitCode) {
  ChildOptions options;
  options.argv = {"/nonexistent/program"};
  EXPECT_THAT(
      ChildProcess::Start(options),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nonexistent/program")));
}

TEST(ChildProcess, SignalsAreReportedAsAShellDoes) {
  ChildOptions options;
  options.argv = {"/bin/sleep", "600"};
  options.log_path = "/dev/null";
  absl::StatusOr<ChildProcess> child = ChildProcess::Start(options);
  ASSERT_THAT(child, IsOk());
  EXPECT_FALSE(child->Poll().has_value());
  child->Signal(SIGTERM);
  const std::optional<int> status = child->WaitFor(absl::Minutes(1));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(ShellExitCode(*status), 128 + SIGTERM);
}

TEST(ChildProcess, DiesWithItsObject) {
  pid_t pid = 0;
  {
    ChildOptions options;
    options.argv = {"/bin/sleep", "600"};
    options.log_path = "/dev/null";
    absl::StatusOr<ChildProcess> child = ChildProcess::Start(options);
    ASSERT_THAT(child, IsOk());
    pid = child->pid();
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

}  // namespace
}  // namespace twinpath::cli
