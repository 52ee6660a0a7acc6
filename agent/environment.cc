#include "agent/environment.h"

#include <stdlib.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "runner/leaks.h"
#include "runner/paths.h"

extern char** environ;

namespace twinpath::agent {

std::vector<v1::EnvironmentLeak> ScrubEnvironment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  for (const std::string& variable : variables) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(variable, absl::MaxSplits('=', 1));
    if (runner::IsJitVariable(parts.first) ||
        runner::IsLeak(parts.first, parts.second)) {
      unsetenv(parts.first.c_str());
    }
  }
  return runner::LeaksOfEnvironment(variables);
}

}  // namespace twinpath::agent
