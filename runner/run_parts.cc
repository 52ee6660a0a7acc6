#include "runner/run_parts.h"

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "runner/program_check.h"

namespace twinpath::runner {
namespace {

constexpr uint32_t kDefaultOutputBytes = 64 << 10;
constexpr uint32_t kMaxOutputBytes = 4 << 20;

}  // namespace

void SetTime(absl::Time time, google::protobuf::Timestamp* out) {
  const int64_t seconds = absl::ToUnixSeconds(time);
  out->set_seconds(seconds);
  out->set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
}

void SetDuration(absl::Duration duration, google::protobuf::Duration* out) {
  out->set_seconds(absl::ToInt64Seconds(duration));
  out->set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(duration % absl::Seconds(1))));
}

v1::Observation BeginObservation(const v1::RunRequest& request) {
  v1::Observation observation;
  observation.set_attempt_id(request.attempt_id());
  observation.set_path(request.path());
  observation.set_jit_proof(request.jit_proof());
  observation.set_traced(request.traced());
  for (const std::string& uuid : request.gpu_uuids()) {
    if (!observation.gpu_uuid().empty()) {
      observation.mutable_gpu_uuid()->push_back(',');
    }
    observation.mutable_gpu_uuid()->append(uuid);
  }
  SetTime(absl::Now(), observation.mutable_start_time());
  return observation;
}

v1::Observation NotStarted(v1::Observation observation,
                           absl::string_view problem) {
  observation.set_ending(v1::ENDING_NOT_STARTED);
  observation.set_problem(std::string(problem));
  return observation;
}

v1::Observation NoSandbox(v1::Observation observation,
                          absl::string_view reason) {
  return NotStarted(std::move(observation),
                    absl::StrCat("TP114 sandbox-unavailable: ", reason));
}

void SetCapture(const StreamCapture& stream, v1::CapturedOutput* out) {
  out->set_head(stream.head);
  out->set_tail(stream.tail);
  out->set_total_bytes(stream.total_bytes);
  out->mutable_digest()->set_sha256(stream.digest.Raw());
}

absl::StatusOr<UniqueFd> MemoryFile(const char* name, absl::string_view data) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "memfd_create");
  TWINPATH_RETURN_IF_ERROR(WriteAll(fd.get(), data));
  return fd;
}

InsideReport ReadInsideReport(int fd) {
  InsideReport report;
  const auto text = PreadUpTo(fd, 0, 4096);
  if (!text.ok()) return report;
  for (const absl::string_view line :
       absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    if (line == "up") {
      report.up = true;
      continue;
    }
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    int number = 0;
    if (words.size() != 2 || !absl::SimpleAtoi(words[1], &number)) continue;
    if (words[0] == "landlock") {
      report.landlock_abi = std::max(number, 0);
    } else {
      report.word = words[0];
      report.number = number;
    }
  }
  return report;
}

uint64_t OutputLimit(const v1::RunRequest& request) {
  return request.output_limit_bytes() == 0
             ? kDefaultOutputBytes
             : std::min(request.output_limit_bytes(), kMaxOutputBytes);
}

std::string EnvironmentBlock(
    const std::vector<v1::EnvironmentVariable>& variables,
    v1::Observation& observation) {
  std::string bytes;
  for (const v1::EnvironmentVariable& variable : variables) {
    *observation.add_environment() = variable;
    absl::StrAppend(&bytes, variable.name(), "=", variable.value());
    bytes.push_back('\0');
  }
  return bytes;
}

void SetEnding(const ProcessResult& result, const InsideReport& report,
               const RunWatch& watch, const std::string& program,
               v1::Observation& observation) {
  switch (result.ending) {
    case ProcessResult::Ending::kTimedOut:
      observation.set_ending(v1::ENDING_TIMED_OUT);
      return;
    case ProcessResult::Ending::kHung:
      observation.set_ending(v1::ENDING_TIMED_OUT);
      observation.set_problem(
          "hung: the process survived SIGKILL and was abandoned");
      return;
    case ProcessResult::Ending::kCancelled:
      observation.set_ending(v1::ENDING_SIGNALED);
      observation.set_signal(SIGKILL);
      observation.set_problem(watch.problem());
      return;
    default:
      break;
  }
  if (report.word == "exit") {
    observation.set_ending(v1::ENDING_EXITED);
    observation.set_exit_code(report.number);
  } else if (report.word == "signal") {
    observation.set_ending(v1::ENDING_SIGNALED);
    observation.set_signal(report.number);
  } else if (report.word == "confine") {
    observation.set_ending(v1::ENDING_NOT_STARTED);
    observation.set_problem(absl::StrCat(
        "TP114 sandbox-unavailable: the kernel does not confine the program: ",
        std::strerror(report.number),
        "; it needs seccomp filters (CONFIG_SECCOMP_FILTER)"));
  } else if (report.word == "start") {
    observation.set_ending(v1::ENDING_NOT_STARTED);
    observation.set_problem(StartErrorText(report.number, program));
  } else if (report.up) {
    // Killed together with its watcher, as by the kernel when memory is short.
    observation.set_ending(v1::ENDING_SIGNALED);
    observation.set_signal(SIGKILL);
    observation.set_problem(absl::StrCat(
        "the sandbox was killed from outside: ", result.Describe()));
  } else {
    observation.set_ending(v1::ENDING_NOT_STARTED);
    observation.set_problem(absl::StrCat(
        "TP114 sandbox-unavailable: ", observation.sandbox(), ": ",
        result.Describe(), ": ",
        Printable(absl::string_view(result.err.head).substr(0, 500)),
        observation.sandbox() == kUnitSandbox
            ? ""
            : "; allow unprivileged user namespaces for bwrap, or run as "
              "root"));
  }
}

}  // namespace twinpath::runner
