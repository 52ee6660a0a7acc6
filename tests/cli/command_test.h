// A fixture for tests that run the installed twinpath as its users do, in a
// folder of their own.

#ifndef TWINPATH_TESTS_CLI_COMMAND_TEST_H_
#define TWINPATH_TESTS_CLI_COMMAND_TEST_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"

namespace twinpath::cli {

struct Said {
  int code = -1;
  std::string out;
  std::string err;
};

class CommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
    ASSERT_THAT(folder, IsOk());
    folder_.emplace(*std::move(folder));
    const absl::StatusOr<std::string> program = FindCompanion("twinpath");
    ASSERT_THAT(program, IsOk());
    program_ = *program;
  }

  std::string Path(absl::string_view name) {
    return JoinPath(folder_->path(), name);
  }
  void Write(absl::string_view name, absl::string_view text) {
    EXPECT_THAT(WriteFileAtomic(Path(name), text, 0644), IsOk());
  }
  Said Run(std::vector<std::string> arguments,
           const std::vector<std::string>& variables = {},
           const std::string& input = "") {
    ProcessOptions options;
    options.argv = std::move(arguments);
    options.argv.insert(options.argv.begin(), program_);
    options.environment = MinimalEnvironment();
    for (const char* name : {"TWINPATH_BIN_DIR", "TWINPATH_LIBEXEC"}) {
      if (const char* value = getenv(name); value != nullptr) {
        options.environment.push_back(absl::StrCat(name, "=", value));
      }
    }
    options.environment.insert(options.environment.end(), variables.begin(),
                               variables.end());
    options.directory = folder_->path();
    options.input = input;
    const absl::StatusOr<ProcessResult> result = RunProcess(options);
    EXPECT_THAT(result, IsOk());
    if (!result.ok()) return {};
    return {result->exit_code, result->out.head, result->err.head};
  }

  std::optional<TempDirectory> folder_;
  std::string program_;
};

}  // namespace twinpath::cli

#endif  // TWINPATH_TESTS_CLI_COMMAND_TEST_H_
