#include "runner/run.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "runner/facts.h"
#include "runner/load_run.h"
#include "runner/loader.h"
#include "runner/oci_run.h"
#include "runner/output_files.h"
#include "runner/paths.h"
#include "runner/process_watch.h"
#include "runner/program_check.h"
#include "runner/program_runner.h"
#include "runner/run_folder.h"
#include "runner/run_parts.h"
#include "runner/run_watch.h"
#include "runner/sandbox.h"
#include "runner/toolchain.h"
#include "runner/trace_result.h"
#include "runner/trace_setup.h"

namespace twinpath::runner {
namespace {

// Users that systemd makes for a unit and that nobody else has
// (systemd.exec(5), DynamicUser).
constexpr uid_t kFirstDynamicUser = 61184;
constexpr uid_t kLastDynamicUser = 65519;
// How long twinpath-run may take, told to end, to end a container and remove
// its storage.
constexpr absl::Duration kTidyLimit = absl::Minutes(3);
// How long processes may take to go after SIGKILL; one that waits for a device
// may never.
constexpr int kReapTries = 100;
constexpr useconds_t kReapPause = 50'000;

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

// Where a run takes place.
struct Place {
  const char* name;
  bool unit;
  std::function<bool()> abandoned;
};

v1::Observation RunAt(const Place& place, const v1::RunRequest& request) {
  v1::Observation observation = BeginObservation(request);
  const v1::Entry& entry = request.entry();
  if (entry.kind() == v1::ENTRY_KIND_OCI) {
    return place.unit
               ? NoSandbox(std::move(observation),
                           "entries of oci_images run in twinpath-oci@.service")
               : RunInContainer(request, false, place.abandoned);
  }
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
  absl::StatusOr<std::vector<v1::EnvironmentVariable>> environment =
      RunEnvironment(request, folders);
  if (!environment.ok()) {
    return NotStarted(std::move(observation), MessageOf(environment.status()));
  }
  std::optional<TraceSetup> trace;
  if (request.traced()) {
    absl::StatusOr<TraceSetup> setup =
        TraceSetup::Make(request.work_directory());
    if (!setup.ok()) {
      return NotStarted(std::move(observation), MessageOf(setup.status()));
    }
    trace.emplace(*std::move(setup));
    trace->AddVariables(*environment);
  }
  const std::string environment_bytes =
      EnvironmentBlock(*environment, observation);
  spec.work_directory = request.work_directory();
  spec.artifact_directory = request.artifact_directory();
  spec.current_directory = folder->home();
  spec.devices = GpuDevices();
  // Shown although /run is private; a no-op where they do not exist.
  spec.read_only = {"/proc/driver/nvidia", "/run/nvidia/driver",
                    "/run/opengl-driver"};
  if (trace) {
    for (std::string& file : trace->Shown()) {
      spec.read_only.push_back(std::move(file));
    }
  }

  const absl::StatusOr<UniqueFd> report = MemoryFile("report", "");
  const absl::StatusOr<UniqueFd> variables =
      MemoryFile("environment", environment_bytes);
  if (!report.ok() || !variables.ok()) {
    return NotStarted(std::move(observation), "memory files for the sandbox");
  }
  const uint64_t limit = OutputLimit(request);
  WatchLimits limits;
  limits.memory_bytes = entry.memory_bytes() != 0 ? entry.memory_bytes()
                                                  : HostMemoryBytes() / 10 * 9;
  limits.control_group = place.unit;
  limits.disk_bytes = DiskLimit();
  limits.disk_folders = {request.work_directory()};
  if (place.unit) {
    // Both are the run's alone (PrivateTmp) and on the host's disk; the work
    // folder and the copy of the artifact, which counts, lie in the second.
    limits.disk_folders = {"/tmp", "/var/tmp"};
    for (const std::string& folder :
         {request.work_directory(), request.artifact_directory()}) {
      if (!folder.empty() && !absl::StartsWith(folder, "/tmp/") &&
          !absl::StartsWith(folder, "/var/tmp/")) {
        limits.disk_folders.push_back(folder);
      }
    }
  }
  RunWatch watch(limits);
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
  const uint64_t taken_before = TakenForMemory().value_or(0);
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
      UsesCacheFolder(request.path(),
                      request.jit_proof() || request.traced())) {
    *observation.mutable_cache() = folder->CacheEvidenceNow();
  }
  const InsideReport ended = ReadInsideReport(report->get());
  observation.set_landlock_abi(static_cast<uint32_t>(ended.landlock_abi));
  SetEnding(*result, ended, watch, *program, observation);
  if (place.unit && observation.ending() == v1::ENDING_SIGNALED &&
      observation.signal() == SIGKILL && watch.problem().empty() &&
      TakenForMemory().value_or(0) > taken_before) {
    observation.set_problem(std::string(kTakenForMemory));
  }
  if (!all_ended && observation.problem().empty()) {
    observation.set_problem("hung: a process of the run survived SIGKILL");
  }
  AddOutputFiles(request, limit, observation);
  if (trace) {
    *observation.mutable_trace() =
        CollectTrace(*trace, request,
                     absl::StrCat(observation.driver_log().head(), "\n",
                                  observation.driver_log().tail()),
                     place.unit);
  }
  return observation;
}

v1::RunResponse ResponseOf(v1::Observation observation) {
  v1::RunResponse response;
  *response.mutable_observation() = std::move(observation);
  return response;
}

// The whole entry, whatever its kind.
v1::RunResponse RunEntryAt(const Place& place, const v1::RunRequest& request) {
  const ProgramRunner run = [&](const v1::RunRequest& program) {
    return RunAt(place, program);
  };
  switch (request.entry().kind()) {
    case v1::ENTRY_KIND_IMAGES:
      return RunImagesEntry(request, run);
    case v1::ENTRY_KIND_TOOLCHAIN:
      return RunToolchainEntry(request, run);
    default:
      return ResponseOf(RunAt(place, request));
  }
}

}  // namespace

v1::RunResponse RunHere(const v1::RunRequest& request,
                        const std::function<bool()>& abandoned) {
  return RunEntryAt({kBubblewrapSandbox, false, abandoned}, request);
}

v1::RunResponse RunHereInUnit(const v1::RunRequest& request,
                              const std::function<bool()>& abandoned) {
  const uid_t user = geteuid();
  if (user < kFirstDynamicUser || user > kLastDynamicUser || getuid() != user) {
    return ResponseOf(
        NoSandbox(BeginObservation(request),
                  absl::StrCat("the run unit must have DynamicUser=yes and no "
                               "User=; this is user ",
                               user)));
  }
  return RunEntryAt({kUnitSandbox, true, abandoned}, request);
}

v1::RunResponse RunHereInOciUnit(const v1::RunRequest& request,
                                 const std::function<bool()>& abandoned) {
  return ResponseOf(RunInContainer(request, true, abandoned));
}

v1::Observation RunInChild(const v1::RunRequest& request,
                           absl::Duration deadline,
                           std::function<bool()> cancelled) {
  return RunEntryInChild(request, deadline, std::move(cancelled)).observation();
}

v1::RunResponse RunEntryInChild(const v1::RunRequest& request,
                                absl::Duration deadline,
                                std::function<bool()> cancelled) {
  v1::Observation observation = BeginObservation(request);
  const absl::StatusOr<std::string> program = FindCompanion("twinpath-run");
  if (!program.ok()) {
    return ResponseOf(
        NotStarted(std::move(observation), MessageOf(program.status())));
  }
  const uint64_t limit = OutputLimit(request);
  ProcessOptions options;
  options.argv = {*program};
  options.environment = MinimalEnvironment();
  for (const char* name :
       {"TWINPATH_LIBEXEC", "TWINPATH_BWRAP", "TWINPATH_OCI_RUNTIME",
        "TWINPATH_CUPTI", kDiskLimitVariable, kUnseenVariable, kRunsVariable,
        "CUDA_HOME", "LD_LIBRARY_PATH"}) {
    // LD_LIBRARY_PATH is for twinpath-run's own libraries in a bundle; the
    // sandboxed program does not get it.
    if (const char* value = std::getenv(name); value != nullptr) {
      options.environment.push_back(absl::StrCat(name, "=", value));
    }
  }
  options.input = request.SerializeAsString();
  // Head and tail of three streams, and the rest of the message.
  options.head_bytes = 6 * limit + (8 << 20);
  if (request.entry().kind() != v1::ENTRY_KIND_UNSPECIFIED) {
    // A report on every image, or the runs of a toolchain check.
    options.head_bytes += 512 << 20;
  }
  options.timeout = deadline;
  if (request.entry().kind() == v1::ENTRY_KIND_OCI) options.grace = kTidyLimit;
  options.cancelled = std::move(cancelled);
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  if (!result.ok()) {
    return ResponseOf(
        NotStarted(std::move(observation), MessageOf(result.status())));
  }
  SetDuration(result->duration, observation.mutable_duration());
  switch (result->ending) {
    case ProcessResult::Ending::kCancelled:
      observation.set_ending(v1::ENDING_INTERRUPTED);
      observation.set_problem("cancelled");
      return ResponseOf(std::move(observation));
    case ProcessResult::Ending::kTimedOut:
    case ProcessResult::Ending::kHung:
      observation.set_ending(v1::ENDING_TIMED_OUT);
      observation.set_problem(absl::StrCat(
          result->ending == ProcessResult::Ending::kHung ? "hung: " : "",
          "the run was not over ", absl::FormatDuration(deadline),
          " after its start and was ended as a whole"));
      return ResponseOf(std::move(observation));
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
    return ResponseOf(std::move(observation));
  }
  return response;
}

}  // namespace twinpath::runner
