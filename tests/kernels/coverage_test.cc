// The coverage suite on a machine without a driver: every program fails
// honestly, and the sweep file, the build's list and the table name the same
// programs. With a driver tests/gpu says what they do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"

namespace twinpath {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Source(const std::string& name) {
  const char* source = std::getenv("TWINPATH_SOURCE_DIR");
  const auto text =
      ReadFile(JoinPath(source == nullptr ? "." : source, name), 1 << 20);
  EXPECT_THAT(text, IsOk()) << name;
  return text.ok() ? *text : "";
}

// Names of kernels/variants.cmake's list.
std::set<std::string> Programs() {
  const std::string text = Source("kernels/variants.cmake");
  const size_t at = text.find("set(TWINPATH_COVERAGE_PROGRAMS");
  std::set<std::string> programs;
  if (at == std::string::npos) return programs;
  for (absl::string_view line : absl::StrSplit(text.substr(at), '\n')) {
    line = absl::StripPrefix(line, "  \"");
    const size_t bar = line.find('|');
    if (bar != absl::string_view::npos) {
      programs.emplace(line.substr(0, bar));
    }
  }
  return programs;
}

TEST(Coverage, BuildSweepAndTableNameTheSamePrograms) {
  const std::set<std::string> programs = Programs();
  EXPECT_EQ(programs.size(), 26u);
  std::set<std::string> in_sweep;
  for (absl::string_view line :
       absl::StrSplit(Source("config/sweeps/coverage.yaml"), '\n')) {
    if (absl::ConsumePrefix(&line, "  - name: ")) in_sweep.emplace(line);
  }
  std::set<std::string> in_table;
  for (absl::string_view line :
       absl::StrSplit(Source("kernels/coverage/README.md"), '\n')) {
    if (!absl::ConsumePrefix(&line, "| ")) continue;
    const absl::string_view name = line.substr(0, line.find(' '));
    if (name != "program") in_table.emplace(name);
  }
  EXPECT_EQ(in_sweep, programs);
  EXPECT_EQ(in_table, programs);
}

TEST(Coverage, WithoutADriverEveryProgramFailsAndSaysWhere) {
  const char* folder = std::getenv("TWINPATH_KERNELS_DIR");
  if (folder == nullptr ||
      access(JoinPath(folder, "coverage/fp64").c_str(), X_OK) != 0) {
    GTEST_SKIP() << "not built: no nvcc of CUDA 12.8 or later, or a "
                    "sanitizer's preset";
  }
  for (const std::string& program : Programs()) {
    SCOPED_TRACE(program);
    ProcessOptions options;
    options.argv = {JoinPath(folder, "coverage/" + program)};
    options.environment = MinimalEnvironment();
    options.environment.push_back("CUDA_VISIBLE_DEVICES=");
    options.timeout = absl::Minutes(2);
    const auto result = RunProcess(options);
    ASSERT_THAT(result, IsOk());
    // 1: a call failed; 3: a library that the program opens is not here.
    EXPECT_TRUE(result->exit_code == 1 || result->exit_code == 3)
        << result->exit_code;
    EXPECT_THAT(result->out.head, Not(HasSubstr("PASS")));
    if (result->exit_code == 1) {
      EXPECT_THAT(result->err.head, HasSubstr("CUDA error"));
    } else {
      EXPECT_THAT(result->err.head, HasSubstr("not applicable: "));
    }
  }
}

}  // namespace
}  // namespace twinpath
