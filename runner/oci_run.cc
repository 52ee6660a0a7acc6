#include "runner/oci_run.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "runner/facts.h"
#include "runner/oci_image.h"
#include "runner/oci_users.h"
#include "runner/output_files.h"
#include "runner/paths.h"
#include "runner/podman.h"
#include "runner/process_watch.h"
#include "runner/run_folder.h"
#include "runner/run_parts.h"
#include "runner/run_watch.h"
#include "runner/sandbox.h"

namespace twinpath::runner {
namespace {

// Podman and the runtime until process 1 is there, and behind its end.
constexpr absl::Duration kStartLimit = absl::Minutes(5);
constexpr absl::Duration kEndLimit = absl::Seconds(20);
constexpr uint64_t kPrivateBytes = uint64_t{2} << 30;
constexpr uint64_t kMaxFileBytes = uint64_t{64} << 30;
constexpr uint64_t kMaxOpenFiles = 65536;

std::string Ulimit(const char* name, __rlimit_resource_t resource,
                   uint64_t most) {
  struct rlimit limit {};
  if (getrlimit(resource, &limit) == 0 && limit.rlim_max != RLIM_INFINITY) {
    most = std::min<uint64_t>(most, limit.rlim_max);
  }
  return absl::StrCat("--ulimit=", name, "=", most, ":", most);
}

// Mounts of the run are seen by nobody else and go with its last process.
void OwnMounts() {
  if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0) {
    mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr);
  }
}

// Ends what podman left running, conmon and the container's processes, which
// are all below this process.
void EndDescendants() {
  constexpr int kTries = 200;
  for (int i = 0; i < kTries; ++i) {
    const std::vector<pid_t> pids = DescendantsOf(getpid());
    for (const pid_t pid : pids) kill(pid, SIGKILL);
    pid_t ended;
    do {
      ended = waitpid(-1, nullptr, WNOHANG);
    } while (ended > 0);
    if (pids.empty()) return;
    usleep(50'000);
  }
}

// Process 1 of the container among the processes below this one; 0: not there.
pid_t ContainerInit() {
  for (const pid_t pid : DescendantsOf(getpid())) {
    const auto status = ReadFile(absl::StrCat("/proc/", pid, "/status"), 65536);
    if (!status.ok()) continue;
    const size_t at = status->find("\nNSpid:");
    if (at == std::string::npos) continue;
    const absl::string_view line = absl::string_view(*status).substr(
        at + 1, status->find('\n', at + 1) - at - 1);
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, '\t', absl::SkipEmpty());
    if (fields.size() >= 3 && fields.back() == "1") return pid;
  }
  return 0;
}

// Opens the run's folders to the users the container has; the folder above is
// closed to all others.
absl::Status OpenToContainer(const RunFolder& folder, const std::string& work) {
  for (const std::string& path : {work, folder.home(), folder.cache()}) {
    if (chmod(path.c_str(), 0777) != 0) {
      return ErrnoStatus(errno, "chmod of the run's folder");
    }
  }
  return absl::OkStatus();
}

// What one run has, from the first check to the last removal.
class ContainerRun {
 public:
  ContainerRun(const v1::RunRequest& request, bool unit,
               const std::function<bool()>& abandoned)
      : request_(request), unit_(unit), abandoned_(abandoned) {}
  ContainerRun(const ContainerRun&) = delete;
  ContainerRun& operator=(const ContainerRun&) = delete;
  ~ContainerRun() {
    if (podman_) podman_->Remove();
  }

  v1::Observation Run() {
    observation_ = BeginObservation(request_);
    if (absl::Status status = Prepare(); !status.ok()) {
      return NotStarted(std::move(observation_), MessageOf(status));
    }
    const absl::Status status = Start();
    if (!status.ok()) {
      return NotStarted(std::move(observation_), MessageOf(status));
    }
    return std::move(observation_);
  }

 private:
  bool Abandoned() const { return abandoned_ && abandoned_(); }

  // Device names for podman, and the variables CDI sets with them.
  absl::Status FindGpus() {
    if (request_.gpu_uuids().empty()) return absl::OkStatus();
    const CdiDevices cdi = ReadCdi(CdiFolders());
    for (const std::string& uuid : request_.gpu_uuids()) {
      TWINPATH_RETURN_IF_ERROR(CheckGpuUuid(uuid));
      const CdiDevice* const device = cdi.Find(uuid);
      if (device == nullptr) {
        std::string detail = absl::StrCat(
            "TP135 gpu-not-described-for-containers: no ", kCdiGpuKind, "=",
            uuid, " in ", absl::StrJoin(CdiFolders(), ", "), " (files there: ",
            cdi.files.empty() ? "none" : absl::StrJoin(cdi.files, ", "), ")");
        for (const std::string& problem : cdi.problems) {
          absl::StrAppend(&detail, "; ", problem);
        }
        absl::StrAppend(&detail,
                        "; run as root: nvidia-ctk cdi generate "
                        "--device-name-strategy=uuid "
                        "--output=/etc/cdi/nvidia.yaml");
        return absl::FailedPreconditionError(detail);
      }
      gpus_.push_back(absl::StrCat("--device=", kCdiGpuKind, "=", uuid));
      for (const std::string& variable : device->environment) {
        cdi_environment_.push_back(variable);
      }
    }
    return absl::OkStatus();
  }

  // What the run takes, from before its image is unpacked.
  void StartWatch() {
    WatchLimits limits;
    limits.memory_bytes = MemoryLimit();
    limits.disk_bytes = DiskLimit();
    limits.disk_folders = {request_.work_directory()};
    if (unit_ && !request_.artifact_directory().empty()) {
      limits.disk_folders.push_back(request_.artifact_directory());
    }
    // Podman and conmon are not the run's.
    limits.usage = [init = pid_t{0}]() mutable {
      if (init == 0) init = ContainerInit();
      return init == 0 ? TreeUsage() : UsageOfDescendants(init);
    };
    watch_.emplace(std::move(limits));
  }

  // The image in podman's storage. What is unpacked counts as the run's.
  absl::StatusOr<OciImage> Take(v1::CpuArchitecture host) {
    absl::StatusOr<OciImage> image = TakeImage(
        *podman_, request_.artifact_directory(), request_.entry().oci_image(),
        host, [this] { return Abandoned() || watch_->Exceeded(); });
    if (Abandoned()) return absl::CancelledError("cancelled");
    if (image.ok()) watch_->ExceededNow();
    if (watch_->problem().empty()) return image;
    return absl::ResourceExhaustedError(
        absl::StrCat("TP115 artifact-not-staged: unpacking the oci_image: ",
                     watch_->problem()));
  }

  // Everything up to the command line.
  absl::Status Prepare() {
    TWINPATH_ASSIGN_OR_RETURN(inside_, FindCompanion("twinpath-inside"));
    TWINPATH_RETURN_IF_ERROR(FindGpus());
    OwnMounts();
    // Conmon goes away from podman and comes to this process.
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    const std::string work = JoinPath(request_.work_directory(), "run");
    const std::string scratch = JoinPath(request_.work_directory(), "podman");
    TWINPATH_RETURN_IF_ERROR(MakeDirectories(work, 0700));
    TWINPATH_RETURN_IF_ERROR(MakeDirectories(scratch, 0700));
    TWINPATH_ASSIGN_OR_RETURN(Podman podman, Podman::Make(scratch));
    podman_.emplace(std::move(podman));
    const v1::CpuArchitecture host = HostCpuArchitecture();
    StartWatch();
    TWINPATH_ASSIGN_OR_RETURN(const OciImage taken, Take(host));
    const v1::OciImageFacts& image = taken.facts;
    *observation_.mutable_oci_image() = image;
    volumes_ = taken.volumes;
    if (image.cpu_architecture() != v1::CPU_ARCHITECTURE_UNSPECIFIED &&
        image.cpu_architecture() != host) {
      return absl::FailedPreconditionError(absl::StrCat(
          "exec format error: the oci_image is built for ",
          image.cpu_architecture() == v1::CPU_ARCHITECTURE_AARCH64 ? "aarch64"
                                                                   : "x86-64",
          ", this host is ",
          host == v1::CPU_ARCHITECTURE_AARCH64 ? "aarch64" : "x86-64"));
    }
    TWINPATH_ASSIGN_OR_RETURN(
        RunFolder folder,
        RunFolder::Make(work, "", request_.bare_environment()));
    folder_.emplace(std::move(folder));
    TWINPATH_RETURN_IF_ERROR(OpenToContainer(*folder_, work));
    RunFolders inside;
    inside.home = JoinPath(kContainerWork, "home");
    inside.cache = JoinPath(kContainerWork, "cache");
    inside.driver_log = JoinPath(kContainerWork, "driver.log");
    TWINPATH_ASSIGN_OR_RETURN(const std::vector<v1::EnvironmentVariable> own,
                              RunEnvironment(request_, inside));
    const std::string block = EnvironmentBlock(
        ContainerEnvironment(image, cdi_environment_, request_.entry(), own),
        observation_);
    TWINPATH_ASSIGN_OR_RETURN(report_, MemoryFile("report", ""));
    TWINPATH_ASSIGN_OR_RETURN(variables_, MemoryFile("environment", block));
    return absl::OkStatus();
  }

  std::vector<std::string> Arguments() {
    const v1::OciImageFacts& image = observation_.oci_image();
    const std::string work = JoinPath(request_.work_directory(), "run");
    std::vector<std::string> argv = podman_->argv();
    for (const char* word :
         {"run", "--rm", "--pull=never", "--network=none", "--no-hosts",
          "--hostname=twinpath", "--read-only", "--read-only-tmpfs=false",
          "--cap-drop=all", "--security-opt=no-new-privileges", "--ipc=private",
          "--http-proxy=false", "--systemd=false", "--image-volume=bind",
          "--log-driver=none", "--stop-timeout=0", "--preserve-fds=3"}) {
      argv.emplace_back(word);
    }
    for (const char* folder : {"/tmp", "/var/tmp", "/run"}) {
      argv.push_back(
          absl::StrCat("--tmpfs=", folder,
                       ":rw,nosuid,nodev,mode=1777,size=", kPrivateBytes));
    }
    argv.push_back(absl::StrCat("--shm-size=", kPrivateBytes));
    argv.push_back(absl::StrCat("--volume=", work, ":", kContainerWork, ":rw"));
    argv.push_back(absl::StrCat("--volume=", inside_, ":", kInsidePath, ":ro"));
    argv.push_back(absl::StrCat("--entrypoint=", kInsidePath));
    if (image.working_directory().empty() || image.working_directory() == "/") {
      argv.push_back(absl::StrCat("--workdir=", kContainerWork, "/home"));
    }
    argv.push_back(Ulimit("nofile", RLIMIT_NOFILE, kMaxOpenFiles));
    argv.push_back(Ulimit("nproc", RLIMIT_NPROC, kMaxRunTasks));
    argv.push_back(Ulimit("fsize", RLIMIT_FSIZE, kMaxFileBytes));
    argv.push_back(Ulimit("core", RLIMIT_CORE, 0));
    if (geteuid() == 0) {
      argv.push_back(absl::StrCat("--pids-limit=", kMaxRunTasks));
      argv.push_back(absl::StrCat("--memory=", MemoryLimit()));
      argv.push_back(absl::StrCat("--memory-swap=", MemoryLimit()));
      // Of the unit's control group, so that its end is the container's.
      if (unit_) argv.emplace_back("--cgroups=split");
      if (RootHereMayBeReal()) {
        const uint32_t first = UserBlock();
        argv.push_back(absl::StrCat("--uidmap=0:", first, ":", kUserBlockSize));
        argv.push_back(absl::StrCat("--gidmap=0:", first, ":", kUserBlockSize));
      }
    }
    argv.insert(argv.end(), gpus_.begin(), gpus_.end());
    argv.emplace_back(absl::StripPrefix(image.id(), "sha256:"));
    argv.emplace_back("--lifeline");
    argv.push_back(absl::StrCat(kLifelineFd));
    for (const std::string& volume : volumes_) {
      argv.insert(argv.end(), {"--writable", volume});
    }
    for (std::string& word : InsideArguments(kContainerWork, false)) {
      argv.push_back(std::move(word));
    }
    for (const std::string& word : image.entrypoint()) argv.push_back(word);
    for (const std::string& word : request_.entry().command()) {
      argv.push_back(word);
    }
    return argv;
  }

  uint64_t MemoryLimit() const {
    const uint64_t own = request_.entry().memory_bytes();
    return own != 0 ? own : HostMemoryBytes() / 10 * 9;
  }

  // Runs it; the error of a run that did not start.
  absl::Status Start() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
    UniqueFd lifeline_read(ends[0]);
    UniqueFd lifeline(ends[1]);
    const uint64_t limit = OutputLimit(request_);
    const absl::Duration time_limit =
        TimeLimit(request_.entry(), request_.path());
    absl::Time up = absl::InfiniteFuture();
    absl::Time told_to_end = absl::InfiniteFuture();
    bool timed_out = false;
    bool abandoned = false;
    ProcessOptions options;
    options.argv = Arguments();
    options.environment = podman_->environment();
    options.directory = podman_->folder();
    options.descriptors = {{report_.get(), kReportFd},
                           {variables_.get(), kEnvironmentFd},
                           {lifeline_read.get(), kLifelineFd}};
    options.head_bytes = limit;
    options.tail_bytes = limit;
    options.timeout = time_limit + kStartLimit + kEndLimit;
    options.cancelled = [&] {
      const absl::Time now = absl::Now();
      if (now > told_to_end) return now - told_to_end > kEndLimit;
      if (up == absl::InfiniteFuture() && ReadInsideReport(report_.get()).up) {
        up = now;
      }
      timed_out = now - up > time_limit;
      abandoned = Abandoned();
      if (timed_out || abandoned || watch_->Exceeded()) {
        // Process 1 ends, with everything below it, and podman tidies up.
        told_to_end = now;
        lifeline = UniqueFd();
      }
      return false;
    };
    SetTime(absl::Now(), observation_.mutable_start_time());
    const absl::StatusOr<ProcessResult> result = RunProcess(options);
    const absl::Time end = absl::Now();
    lifeline = UniqueFd();
    lifeline_read = UniqueFd();
    EndDescendants();
    if (!result.ok()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "TP134 containers-unavailable: ", MessageOf(result.status())));
    }
    const InsideReport report = ReadInsideReport(report_.get());
    observation_.set_sandbox(kPodmanSandbox);
    observation_.set_landlock_abi(static_cast<uint32_t>(report.landlock_abi));
    SetDuration(up < end ? end - up : result->duration,
                observation_.mutable_duration());
    SetCapture(result->out, observation_.mutable_stdout());
    SetCapture(result->err, observation_.mutable_stderr());
    *observation_.mutable_driver_log() = folder_->DriverLogNow(limit);
    if (!request_.bare_environment() &&
        UsesCacheFolder(request_.path(), request_.jit_proof())) {
      *observation_.mutable_cache() = folder_->CacheEvidenceNow();
    }
    v1::RunRequest seen = request_;
    seen.set_work_directory(JoinPath(request_.work_directory(), "run"));
    AddOutputFiles(seen, limit, observation_);
    Decide(*result, report, timed_out, abandoned);
    return absl::OkStatus();
  }

  void Decide(ProcessResult result, const InsideReport& report, bool timed_out,
              bool abandoned) {
    if (!report.up) {
      // Podman or the runtime: what they say is on standard error.
      observation_.set_ending(v1::ENDING_NOT_STARTED);
      observation_.set_problem(absl::StrCat(
          "TP134 containers-unavailable: podman run: ", result.Describe(), ": ",
          Printable(absl::string_view(result.err.head).substr(0, 700))));
      return;
    }
    if (report.word.empty()) {
      if (abandoned) {
        observation_.set_ending(v1::ENDING_INTERRUPTED);
        observation_.set_problem("cancelled");
        return;
      }
      if (timed_out) result.ending = ProcessResult::Ending::kTimedOut;
      if (!watch_->problem().empty()) {
        result.ending = ProcessResult::Ending::kCancelled;
      }
    }
    const auto& entry = observation_.oci_image().entrypoint();
    SetEnding(result, report, *watch_,
              entry.empty() ? request_.entry().command_size() > 0
                                  ? request_.entry().command(0)
                                  : std::string()
                            : entry[0],
              observation_);
  }

  const v1::RunRequest& request_;
  const bool unit_;
  const std::function<bool()>& abandoned_;
  v1::Observation observation_;
  std::string inside_;
  std::vector<std::string> gpus_;
  std::vector<std::string> volumes_;
  std::vector<std::string> cdi_environment_;
  std::optional<Podman> podman_;
  std::optional<RunWatch> watch_;
  std::optional<RunFolder> folder_;
  UniqueFd report_;
  UniqueFd variables_;
};

}  // namespace

v1::Observation RunInContainer(const v1::RunRequest& request, bool unit,
                               const std::function<bool()>& abandoned) {
  ContainerRun run(request, unit, abandoned);
  return run.Run();
}

std::vector<v1::EnvironmentVariable> ContainerEnvironment(
    const v1::OciImageFacts& image, absl::Span<const std::string> cdi,
    const v1::Entry& entry, const std::vector<v1::EnvironmentVariable>& own) {
  std::map<std::string, std::string> variables;
  const auto add = [&](absl::string_view text) {
    const size_t equals = text.find('=');
    if (equals == absl::string_view::npos || equals == 0) return;
    const std::string name(text.substr(0, equals));
    if (IsJitVariable(name) || text.find('\0') != absl::string_view::npos) {
      return;
    }
    variables[name] = std::string(text.substr(equals + 1));
  };
  for (const std::string& text : image.environment()) add(text);
  for (const std::string& text : cdi) add(text);
  for (const v1::EnvironmentVariable& variable : own) {
    const bool images =
        (variable.name() == "PATH" || variable.name() == "LANG") &&
        variables.count(variable.name()) > 0;
    const bool entrys = std::any_of(
        entry.environment().begin(), entry.environment().end(),
        [&](const auto& set) { return set.name() == variable.name(); });
    if (!images || entrys) variables[variable.name()] = variable.value();
  }
  std::vector<v1::EnvironmentVariable> result;
  for (const auto& [name, value] : variables) {
    v1::EnvironmentVariable& variable = result.emplace_back();
    variable.set_name(name);
    variable.set_value(value);
  }
  return result;
}

}  // namespace twinpath::runner
