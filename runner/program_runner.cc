#include "runner/program_runner.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/text.h"

namespace twinpath::runner {
namespace {

// Kept of each end of a tool's output.
constexpr uint32_t kToolOutputBytes = 64 << 10;

}  // namespace

v1::RunRequest ToolRequest(absl::string_view name,
                           const std::vector<std::string>& argv,
                           const std::string& files_directory,
                           const std::string& work_directory,
                           absl::Duration timeout) {
  v1::RunRequest request;
  request.set_attempt_id(RandomHex(16));
  request.set_path(v1::PATH_PLAIN);
  request.set_bare_environment(true);
  v1::Entry& entry = *request.mutable_entry();
  entry.set_name(std::string(name));
  for (const std::string& word : argv) entry.add_command(word);
  entry.mutable_timeout()->set_seconds(absl::ToInt64Seconds(timeout));
  request.set_artifact_directory(files_directory);
  request.set_work_directory(work_directory);
  request.set_output_limit_bytes(kToolOutputBytes);
  return request;
}

std::string EndingOf(const v1::Observation& observation) {
  const std::string why =
      observation.problem().empty()
          ? ""
          : absl::StrCat(": ", Printable(observation.problem()));
  switch (observation.ending()) {
    case v1::ENDING_EXITED:
      return absl::StrCat("exit ", observation.exit_code());
    case v1::ENDING_SIGNALED:
      return absl::StrCat("signal ", observation.signal(), why);
    case v1::ENDING_TIMED_OUT:
      return absl::StrCat("time limit", why);
    case v1::ENDING_NOT_STARTED:
      return absl::StrCat("not started", why);
    case v1::ENDING_INTERRUPTED:
      return absl::StrCat("interrupted", why);
    case v1::ENDING_SKIPPED:
      return absl::StrCat("skipped", why);
    default:
      return absl::StrCat("no answer", why);
  }
}

bool IsWhole(const v1::CapturedOutput& output) {
  return output.total_bytes() == output.head().size() + output.tail().size();
}

absl::string_view HiddenBySandbox(absl::string_view path) {
  for (const absl::string_view folder :
       {"/tmp", "/var/tmp", "/run", "/dev", "/proc"}) {
    if (path == folder || absl::StartsWith(path, absl::StrCat(folder, "/"))) {
      return folder;
    }
  }
  return "";
}

}  // namespace twinpath::runner
