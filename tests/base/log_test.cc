#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"

namespace twinpath {
namespace {

using ::testing::ElementsAre;
using ::testing::MatchesRegex;

// Lines that a child writes to its standard error.
std::vector<std::string> LinesOf(const std::string& mode) {
  ProcessOptions options;
  const absl::StatusOr<std::string> program = FindCompanion("base_test_child");
  EXPECT_THAT(program, IsOk());
  options.argv = {program.value_or(""), mode};
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  EXPECT_THAT(result, IsOk());
  if (!result.ok()) return {};
  std::vector<std::string> lines = absl::StrSplit(result->err.head, '\n');
  EXPECT_EQ(lines.back(), "");
  lines.pop_back();
  return lines;
}

TEST(Log, WritesOneLineWithTimeAndFields) {
  const std::string time =
      "[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9][0-9][0-9]Z ";
  EXPECT_THAT(
      LinesOf("log"),
      ElementsAre(
          MatchesRegex(time + "info session opened host=n1 "
                              "note=\"two words \\\\\"x\\\\\"\" none=\"\""),
          MatchesRegex(time + "error bad \\\\x1b\\[31m\\\\x0aname")));
}

// sd-daemon(3): SD_INFO is "<6>", SD_ERR is "<3>".
TEST(Log, GivesTheJournalPriorities) {
  EXPECT_THAT(LinesOf("log-journal"),
              ElementsAre("<6>session opened host=n1 "
                          "note=\"two words \\\"x\\\"\" none=\"\"",
                          "<3>bad \\x1b[31m\\x0aname"));
}

}  // namespace
}  // namespace twinpath
