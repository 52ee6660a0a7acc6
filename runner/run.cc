#include "runner/run.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "runner/facts.h"
#include "runner/loader.h"
#include "runner/paths.h"
#include "runner/process_watch.h"
#include "runner/program_check.h"
#include "runner/run_folder.h"
#include "runner/sandbox.h"

namespace twinpath::runner {
namespace {

constexpr uint32_t kDefaultOutputBytes = 64 << 10;
constexpr uint32_t kMaxOutputBytes = 4 << 20;
// Threads and processes of one run together.
constexpr uint64_t kMaxTasks = 4096;
constexpr int kReportFd = 3;
constexpr int kEnvironmentFd = 4;
constexpr const char* kBubblewrapName = "bubblewrap";
constexpr const char* kUnitName = "systemd";
// Users that systemd makes for a unit and that nobody else has
// (systemd.exec(5), DynamicUser).
constexpr uid_t kFirstDynamicUser = 61184;
constexpr uid_t kLastDynamicUser = 65519;
// How long processes may take to go after SIGKILL; one that waits for a device
// may never.
constexpr int kReapTries = 100;
constexpr useconds_t kReapPause = 50'000;

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

// What every observation of this request holds, however it ends.
v1::Observation Begin(const v1::RunRequest& request) {
  v1::Observation observation;
  observation.set_attempt_id(request.attempt_id());
  observation.set_path(request.path());
  observation.set_jit_proof(request.jit_proof());
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

// How process 1 of the sandbox said the program ended.
struct Report {
  bool up = false;
  std::string word;  // "exit", "signal", "start" or ""
  int number = 0;
  int landlock_abi = 0;
};

Report ReadReport(int fd) {
  Report report;
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

// Ends a run that takes more than its share; looked at by RunProcess about
// every 100 ms.
class Watch {
 public:
  // `control_group`: this process and the run are alone in it.
  Watch(uint64_t memory_bytes, bool control_group)
      : memory_bytes_(memory_bytes), control_group_(control_group) {
    if (control_group_) own_ = UsageOfControlGroup();
  }

  bool Exceeded() {
    TreeUsage usage = UsageOfDescendants(getpid());
    if (control_group_) {
      const TreeUsage group = UsageOfControlGroup();
      usage.resident_bytes =
          std::max(usage.resident_bytes,
                   Less(group.resident_bytes, own_.resident_bytes));
      usage.tasks = std::max(usage.tasks, Less(group.tasks, own_.tasks));
    }
    if (memory_bytes_ > 0 && usage.resident_bytes > memory_bytes_) {
      problem_ = absl::StrCat("memory limit: the run's processes held ",
                              HumanBytes(usage.resident_bytes), " of ",
                              HumanBytes(memory_bytes_), " allowed");
    } else if (usage.tasks > kMaxTasks) {
      problem_ =
          absl::StrCat("task limit: the run had ", usage.tasks,
                       " threads and processes of ", kMaxTasks, " allowed");
    }
    return !problem_.empty();
  }
  const std::string& problem() const { return problem_; }

 private:
  static uint64_t Less(uint64_t all, uint64_t own) {
    return all > own ? all - own : 0;
  }

  const uint64_t memory_bytes_;
  const bool control_group_;
  // What this process itself had before the run.
  TreeUsage own_;
  std::string problem_;
};

// Kills every process of this user but this one, and waits for them. At the
// system call all of them get the signal at once, those just being forked too.
// Returns false if some are still there.
bool EndEverythingElse() {
  for (int i = 0; i < kReapTries; ++i) {
    kill(-1, SIGKILL);
    pid_t ended;
    do {
      ended = waitpid(-1, nullptr, WNOHANG);
    } while (ended > 0);
    if (ended < 0 && errno == ECHILD) return true;
    usleep(kReapPause);
  }
  return false;
}

// Fills in how it ended.
void SetEnding(const ProcessResult& result, const Report& report,
               const Watch& watch, const std::string& program,
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
        observation.sandbox() == kUnitName
            ? ""
            : "; allow unprivileged user namespaces for bwrap, or run as "
              "root"));
  }
}

// Where a run takes place.
struct Place {
  const char* name;
  bool unit;
  std::function<bool()> abandoned;
};

v1::Observation RunAt(const Place& place, const v1::RunRequest& request) {
  v1::Observation observation = Begin(request);
  const v1::Entry& entry = request.entry();
  const absl::string_view word =
      entry.command().empty() ? absl::string_view() : entry.command(0);
  const absl::StatusOr<std::string> program =
      ProgramPath(word, request.artifact_directory());
  if (!program.ok()) {
    return NotStarted(std::move(observation), MessageOf(program.status()));
  }
  if (const absl::Status status = CheckProgram(*program, HostCpuArchitecture());
      !status.ok()) {
    return NotStarted(std::move(observation), MessageOf(status));
  }
  SandboxSpec spec;
  if (!place.unit) {
    if (absl::StatusOr<std::string> bwrap = FindBubblewrap(); bwrap.ok()) {
      spec.bwrap = *bwrap;
    } else {
      return NoSandbox(std::move(observation), MessageOf(bwrap.status()));
    }
  }
  if (absl::StatusOr<std::string> inside = FindCompanion("twinpath-inside");
      inside.ok()) {
    spec.inside_program = *inside;
  } else {
    return NoSandbox(std::move(observation), MessageOf(inside.status()));
  }
  const absl::StatusOr<RunFolder> folder =
      RunFolder::Make(request.work_directory(), request.artifact_directory(),
                      request.bare_environment());
  if (!folder.ok()) {
    return NotStarted(std::move(observation), MessageOf(folder.status()));
  }
  RunFolders folders;
  folders.home = folder->home();
  folders.cache = folder->cache();
  folders.driver_log = folder->driver_log();
  folders.driver_folder = DriverFolder();
  const absl::StatusOr<std::vector<v1::EnvironmentVariable>> environment =
      RunEnvironment(request, folders);
  if (!environment.ok()) {
    return NotStarted(std::move(observation), MessageOf(environment.status()));
  }
  std::string environment_bytes;
  for (const v1::EnvironmentVariable& variable : *environment) {
    *observation.add_environment() = variable;
    absl::StrAppend(&environment_bytes, variable.name(), "=", variable.value());
    environment_bytes.push_back('\0');
  }
  spec.work_directory = request.work_directory();
  spec.artifact_directory = request.artifact_directory();
  spec.current_directory = folder->home();
  spec.devices = GpuDevices();
  // Shown although /run is private; a no-op where they do not exist.
  spec.read_only = {"/proc/driver/nvidia", "/run/nvidia/driver",
                    "/run/opengl-driver"};

  const absl::StatusOr<UniqueFd> report = MemoryFile("report", "");
  const absl::StatusOr<UniqueFd> variables =
      MemoryFile("environment", environment_bytes);
  if (!report.ok() || !variables.ok()) {
    return NotStarted(std::move(observation), "memory files for the sandbox");
  }
  const uint64_t limit =
      request.output_limit_bytes() == 0
          ? kDefaultOutputBytes
          : std::min(request.output_limit_bytes(), kMaxOutputBytes);
  Watch watch(entry.memory_bytes() != 0 ? entry.memory_bytes()
                                        : HostMemoryBytes() / 10 * 9,
              place.unit);
  ProcessOptions options;
  if (place.unit) {
    options.argv = {spec.inside_program, "--guard", absl::StrCat(getpid())};
    options.directory = folder->home();
  } else {
    options.argv = SandboxArguments(spec);
  }
  for (std::string& argument :
       InsideArguments(request.work_directory(), place.unit)) {
    options.argv.push_back(std::move(argument));
  }
  options.argv.push_back(*program);
  for (int i = 1; i < entry.command_size(); ++i) {
    options.argv.push_back(entry.command(i));
  }
  options.descriptors = {{report->get(), kReportFd},
                         {variables->get(), kEnvironmentFd}};
  options.head_bytes = limit;
  options.tail_bytes = limit;
  options.timeout = TimeLimit(entry, request.path());
  options.cancelled = [&] {
    return watch.Exceeded() || (place.abandoned && place.abandoned());
  };
  SetTime(absl::Now(), observation.mutable_start_time());
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  if (!result.ok()) {
    return NoSandbox(std::move(observation), MessageOf(result.status()));
  }
  observation.set_sandbox(place.name);
  bool all_ended = true;
  if (place.unit) all_ended = EndEverythingElse();
  SetDuration(result->duration, observation.mutable_duration());
  SetCapture(result->out, observation.mutable_stdout());
  SetCapture(result->err, observation.mutable_stderr());
  *observation.mutable_driver_log() = folder->DriverLogNow(limit);
  if (!request.bare_environment() &&
      UsesCacheFolder(request.path(), request.jit_proof())) {
    *observation.mutable_cache() = folder->CacheEvidenceNow();
  }
  const Report ended = ReadReport(report->get());
  observation.set_landlock_abi(static_cast<uint32_t>(ended.landlock_abi));
  SetEnding(*result, ended, watch, *program, observation);
  if (!all_ended && observation.problem().empty()) {
    observation.set_problem("hung: a process of the run survived SIGKILL");
  }
  return observation;
}

}  // namespace

v1::Observation RunHere(const v1::RunRequest& request) {
  return RunAt({kBubblewrapName, false, nullptr}, request);
}

v1::Observation RunHereInUnit(const v1::RunRequest& request,
                              const std::function<bool()>& abandoned) {
  const uid_t user = geteuid();
  if (user < kFirstDynamicUser || user > kLastDynamicUser || getuid() != user) {
    return NoSandbox(Begin(request),
                     absl::StrCat("the run unit must have DynamicUser=yes and "
                                  "no User=; this is user ",
                                  user));
  }
  return RunAt({kUnitName, true, abandoned}, request);
}

v1::Observation RunInChild(const v1::RunRequest& request,
                           absl::Duration deadline,
                           std::function<bool()> cancelled) {
  v1::Observation observation = Begin(request);
  const absl::StatusOr<std::string> program = FindCompanion("twinpath-run");
  if (!program.ok()) {
    return NotStarted(std::move(observation), MessageOf(program.status()));
  }
  const uint64_t limit =
      request.output_limit_bytes() == 0
          ? kDefaultOutputBytes
          : std::min(request.output_limit_bytes(), kMaxOutputBytes);
  ProcessOptions options;
  options.argv = {*program};
  options.environment = MinimalEnvironment();
  for (const char* name :
       {"TWINPATH_LIBEXEC", "TWINPATH_BWRAP", "LD_LIBRARY_PATH"}) {
    // LD_LIBRARY_PATH is for twinpath-run's own libraries in a bundle; the
    // sandboxed program does not get it.
    if (const char* value = std::getenv(name); value != nullptr) {
      options.environment.push_back(absl::StrCat(name, "=", value));
    }
  }
  options.input = request.SerializeAsString();
  // Head and tail of three streams, and the rest of the message.
  options.head_bytes = 6 * limit + (8 << 20);
  options.timeout = deadline;
  options.cancelled = std::move(cancelled);
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  if (!result.ok()) {
    return NotStarted(std::move(observation), MessageOf(result.status()));
  }
  SetDuration(result->duration, observation.mutable_duration());
  switch (result->ending) {
    case ProcessResult::Ending::kCancelled:
      observation.set_ending(v1::ENDING_INTERRUPTED);
      observation.set_problem("cancelled");
      return observation;
    case ProcessResult::Ending::kTimedOut:
    case ProcessResult::Ending::kHung:
      observation.set_ending(v1::ENDING_TIMED_OUT);
      observation.set_problem(absl::StrCat(
          result->ending == ProcessResult::Ending::kHung ? "hung: " : "",
          "the run was not over ", absl::FormatDuration(deadline),
          " after its start and was ended as a whole"));
      return observation;
    default:
      break;
  }
  v1::RunResponse response;
  if (!result->succeeded() || !result->out.complete() ||
      !response.ParseFromString(result->out.head)) {
    observation.set_ending(v1::ENDING_INTERRUPTED);
    observation.set_problem(absl::StrCat(
        "twinpath-run ended without an answer: ", result->Describe(), ": ",
        Printable(absl::string_view(result->err.head).substr(0, 500))));
    return observation;
  }
  return response.observation();
}

}  // namespace twinpath::runner
