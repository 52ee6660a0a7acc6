// The CUDA errors that the tables know, for tests that meet each of them.

#ifndef TWINPATH_TESTS_RUNNER_KNOWN_ERRORS_H_
#define TWINPATH_TESTS_RUNNER_KNOWN_ERRORS_H_

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "tests/runner/load_fixture.h"

namespace twinpath::runner {

// Numbers of compat/tables/errors.yaml, with the name where the driver has one.
struct KnownError {
  int code = 0;
  std::string name;
};
inline std::vector<KnownError> KnownErrors() {
  const auto text = ReadFile(JoinPath(TestVariable("TWINPATH_SOURCE_DIR"),
                                      "compat/tables/errors.yaml"),
                             1 << 20);
  std::vector<KnownError> errors;
  if (!text.ok()) return errors;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    int code = 0;
    if (absl::ConsumePrefix(&line, "- code: ") &&
        absl::SimpleAtoi(line, &code)) {
      errors.push_back({code, ""});
    } else if (absl::ConsumePrefix(&line, "  driver: ") && !errors.empty()) {
      errors.back().name = std::string(line);
    }
  }
  return errors;
}

}  // namespace twinpath::runner

#endif  // TWINPATH_TESTS_RUNNER_KNOWN_ERRORS_H_
