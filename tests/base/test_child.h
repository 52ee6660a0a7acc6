// The child of the subprocess tests (base_test_child), told what to do.

#ifndef TWINPATH_TESTS_BASE_TEST_CHILD_H_
#define TWINPATH_TESTS_BASE_TEST_CHILD_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"

namespace twinpath {

// A call of it without a time limit.
inline ProcessOptions Child(std::vector<std::string> arguments) {
  ProcessOptions options;
  const absl::StatusOr<std::string> program = FindCompanion("base_test_child");
  EXPECT_THAT(program, IsOk());
  options.argv = {program.value_or("")};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.timeout = absl::InfiniteDuration();
  return options;
}

}  // namespace twinpath

#endif  // TWINPATH_TESTS_BASE_TEST_CHILD_H_
