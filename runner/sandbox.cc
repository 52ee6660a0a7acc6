#include "runner/sandbox.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace twinpath::runner {
namespace {

// Private memory file systems are bounded, since their pages belong to no
// process and the memory watch does not see them.
constexpr const char* kPrivateBytes = "2147483648";

bool IsExecutable(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

void AddMatching(const std::string& folder,
                 const std::vector<absl::string_view>& prefixes,
                 std::vector<std::string>& devices) {
  const auto names = ListDirectory(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    for (const absl::string_view prefix : prefixes) {
      if (!absl::StartsWith(name, prefix)) continue;
      const std::string path = JoinPath(folder, name);
      struct stat info;
      if (stat(path.c_str(), &info) == 0 && S_ISCHR(info.st_mode)) {
        devices.push_back(path);
      }
      break;
    }
  }
}

}  // namespace

std::vector<std::string> SandboxArguments(const SandboxSpec& spec) {
  const std::string user = absl::StrCat(spec.uid);
  std::vector<std::string> argv = {
      spec.bwrap,
      // Everything of its own: users, processes, IPC, network, host name.
      "--unshare-all", "--unshare-user", "--uid", user, "--gid", user,
      // As root bwrap would keep every capability inside.
      "--cap-drop", "ALL",
      // Ends with its parent; no terminal to push input into; process 1 is the
      // one that reports, and its end is the end of all.
      "--die-with-parent", "--new-session", "--as-pid-1",
      // Order matters: what comes later covers what came before.
      "--ro-bind", "/", "/", "--dev", "/dev"};
  for (const char* folder : {"/dev/shm", "/tmp", "/run", "/var/tmp"}) {
    struct stat info;
    // --dev has made /dev/shm whatever the host has.
    const bool made = absl::StartsWith(folder, "/dev");
    if (!made && (lstat(folder, &info) != 0 || !S_ISDIR(info.st_mode))) {
      continue;
    }
    argv.insert(argv.end(), {"--size", kPrivateBytes, "--tmpfs", folder});
  }
  // Started as root, the program still reads as root; secrets of the host are
  // not there for it.
  for (const char* folder : {"/etc/twinpath", "/etc/ssh", "/etc/ssl/private"}) {
    struct stat info;
    if (lstat(folder, &info) == 0 && S_ISDIR(info.st_mode)) {
      argv.insert(argv.end(), {"--size", kPrivateBytes, "--tmpfs", folder});
    }
  }
  for (const char* file :
       {"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-"}) {
    struct stat info;
    if (lstat(file, &info) == 0 && S_ISREG(info.st_mode)) {
      argv.insert(argv.end(), {"--ro-bind", "/dev/null", file});
    }
  }
  argv.insert(argv.end(), {"--proc", "/proc"});
  for (const std::string& device : spec.devices) {
    argv.insert(argv.end(), {"--dev-bind-try", device, device});
  }
  for (const std::string& path : spec.read_only) {
    argv.insert(argv.end(), {"--ro-bind-try", path, path});
  }
  if (!spec.artifact_directory.empty()) {
    argv.insert(argv.end(), {"--ro-bind", spec.artifact_directory,
                             spec.artifact_directory});
  }
  if (!spec.work_directory.empty()) {
    argv.insert(argv.end(),
                {"--bind", spec.work_directory, spec.work_directory});
  }
  argv.insert(argv.end(), {"--ro-bind", spec.inside_program, kInsidePath});
  const std::string& current = spec.current_directory.empty()
                                   ? spec.work_directory
                                   : spec.current_directory;
  argv.insert(argv.end(),
              {"--chdir", current.empty() ? "/" : current, "--", kInsidePath});
  return argv;
}

std::vector<std::string> InsideArguments(const std::string& work_directory,
                                         bool unit) {
  std::vector<std::string> folders = {"/tmp", "/dev/shm", "/dev/mqueue"};
  if (!work_directory.empty()) folders.push_back(work_directory);
  if (!unit) folders.insert(folders.end(), {"/var/tmp", "/run"});
  std::vector<std::string> arguments;
  for (const std::string& folder : folders) {
    arguments.insert(arguments.end(), {"--writable", folder});
  }
  arguments.push_back("--");
  return arguments;
}

std::vector<std::string> GpuDevices() {
  std::vector<std::string> devices;
  // nvidia: discrete and DGX Spark; nvmap, nvhost, nvgpu, nvsciipc: Tegra;
  // dxg: WSL.
  AddMatching("/dev", {"nvidia", "nvmap", "nvhost-", "nvsciipc", "dxg"},
              devices);
  AddMatching("/dev/nvidia-caps", {"nvidia-cap"}, devices);
  AddMatching("/dev/nvgpu", {"igpu"}, devices);
  if (const auto folders = ListDirectory("/dev/nvgpu"); folders.ok()) {
    for (const std::string& folder : *folders) {
      AddMatching(JoinPath("/dev/nvgpu", folder), {""}, devices);
    }
  }
  return devices;
}

absl::StatusOr<std::string> FindBubblewrap() {
  if (const char* named = std::getenv("TWINPATH_BWRAP");
      named != nullptr && *named != '\0') {
    if (IsExecutable(named)) return std::string(named);
    return absl::NotFoundError(
        absl::StrCat("TWINPATH_BWRAP names no program: ", Printable(named)));
  }
  if (auto companion = FindCompanion("bwrap"); companion.ok()) {
    return companion;
  }
  const char* path = std::getenv("PATH");
  for (const absl::string_view folder :
       absl::StrSplit(absl::StrCat(path == nullptr ? "" : path,
                                   ":/usr/bin:/usr/local/bin:/bin"),
                      ':', absl::SkipEmpty())) {
    const std::string program = JoinPath(folder, "bwrap");
    if (absl::StartsWith(program, "/") && IsExecutable(program)) return program;
  }
  return absl::NotFoundError(
      "bwrap is not installed; install the package bubblewrap");
}

absl::Status CheckSandbox() {
  SandboxSpec spec;
  absl::StatusOr<std::string> bwrap = FindBubblewrap();
  absl::StatusOr<std::string> inside = FindCompanion("twinpath-inside");
  for (const absl::Status& status : {bwrap.status(), inside.status()}) {
    if (!status.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("TP114 sandbox-unavailable: ", MessageOf(status)));
    }
  }
  spec.bwrap = *bwrap;
  spec.inside_program = *inside;
  spec.devices = GpuDevices();
  ProcessOptions options;
  options.argv = SandboxArguments(spec);
  // Without arguments it refuses with this code: it has been reached.
  constexpr int kInsideReached = 125;
  options.timeout = absl::Seconds(20);
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  if (!result.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "TP114 sandbox-unavailable: ", MessageOf(result.status())));
  }
  if (result->ending == ProcessResult::Ending::kExited &&
      result->exit_code == kInsideReached) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "TP114 sandbox-unavailable: bwrap: ", result->Describe(), ": ",
      Printable(absl::string_view(result->err.head).substr(0, 500)),
      "; allow unprivileged user namespaces for bwrap, or run as root"));
}

}  // namespace twinpath::runner
