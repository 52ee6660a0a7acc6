// How one program is started and waited for, confined: RunInChild on the
// command line and in the agent, RunHere or RunHereInUnit inside the child.
// What starts several programs after each other takes one, and tests give their
// own.

#ifndef TWINPATH_RUNNER_PROGRAM_RUNNER_H_
#define TWINPATH_RUNNER_PROGRAM_RUNNER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {

// Runs what the request says; never fails as a whole.
using ProgramRunner =
    std::function<v1::Observation(const v1::RunRequest& request)>;

// A request for a tool of the host, such as a compiler: no path of the driver
// is set, `work_directory` may hold files of earlier tools. The tool's current
// folder is "home" in it, where the files of `files_directory` (may be empty)
// stand as links.
v1::RunRequest ToolRequest(absl::string_view name,
                           const std::vector<std::string>& argv,
                           const std::string& files_directory,
                           const std::string& work_directory,
                           absl::Duration timeout);

// How a run ended, in a few words: "exit 1", "signal 11", "time limit: ...",
// "not started: ...".
std::string EndingOf(const v1::Observation& observation);

// All that was written, where nothing was cut.
bool IsWhole(const v1::CapturedOutput& output);

// Where the sandbox shows nothing of the host: folders like /tmp. Empty: `path`
// is shown; else the folder that hides it.
absl::string_view HiddenBySandbox(absl::string_view path);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_PROGRAM_RUNNER_H_
