// Common to the tests that really run something: a work folder, the test
// program as the artifact, and a sandbox or a skip that says why there is none.

#ifndef TWINPATH_TESTS_RUNNER_RUN_FIXTURE_H_
#define TWINPATH_TESTS_RUNNER_RUN_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status_matchers.h"
#include "runner/run.h"
#include "runner/sandbox.h"

namespace twinpath::runner {

inline constexpr char kTestProgram[] = "runner_test_program";

class RunFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const absl::Status status = CheckSandbox(); !status.ok()) {
      GTEST_SKIP() << "no sandbox on this machine: " << status.message();
    }
    const char* bin = std::getenv("TWINPATH_BIN_DIR");
    ASSERT_NE(bin, nullptr) << "TWINPATH_BIN_DIR names the build's bin folder";
    auto artifact = TempDirectory::Make();
    auto work = TempDirectory::Make();
    ASSERT_THAT(artifact, IsOk());
    ASSERT_THAT(work, IsOk());
    artifact_.emplace(*std::move(artifact));
    work_.emplace(*std::move(work));
    const auto program = ReadFile(JoinPath(bin, kTestProgram), 64 << 20);
    ASSERT_THAT(program, IsOk());
    ASSERT_THAT(WriteFileAtomic(JoinPath(artifact_->path(), kTestProgram),
                                *program, 0755),
                IsOk());
  }

  // A plain run of the test program with these arguments.
  v1::RunRequest Request(const std::vector<std::string>& arguments,
                         v1::Path path = v1::PATH_PLAIN) const {
    v1::RunRequest request;
    request.set_attempt_id("0123456789abcdef0123456789abcdef");
    request.set_path(path);
    v1::Entry& entry = *request.mutable_entry();
    entry.set_name("entry");
    entry.add_command(kTestProgram);
    for (const std::string& argument : arguments) entry.add_command(argument);
    request.set_artifact_directory(artifact_->path());
    request.set_work_directory(work_->path());
    return request;
  }

  static v1::Observation Run(const v1::RunRequest& request) {
    return RunInChild(request, absl::Minutes(4), nullptr);
  }
  v1::Observation Run(const std::vector<std::string>& arguments) const {
    return Run(Request(arguments));
  }

  std::optional<TempDirectory> artifact_;
  std::optional<TempDirectory> work_;
};

}  // namespace twinpath::runner

#endif  // TWINPATH_TESTS_RUNNER_RUN_FIXTURE_H_
