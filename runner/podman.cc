#include "runner/podman.h"

#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace twinpath::runner {
namespace {

constexpr uint64_t kMaxConfBytes = 1 << 20;
constexpr absl::string_view kPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// The program in PATH, with its path; empty: not installed.
std::string Installed(absl::string_view name) {
  for (const absl::string_view folder : absl::StrSplit(kPath, ':')) {
    const std::string path = JoinPath(folder, name);
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

// A key of TOML, "graphroot = \"/var/lib/containers/storage\"".
std::string TomlText(absl::string_view text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, key)) continue;
    line = absl::StripLeadingAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, "=")) continue;
    line = absl::StripAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, "\"")) continue;
    return std::string(line.substr(0, line.find('"')));
  }
  return "";
}

}  // namespace

absl::Status ContainersUnavailable(absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("TP134 containers-unavailable: ", why));
}

absl::Status Podman::WriteStorageConf(absl::string_view driver,
                                      absl::string_view image_store) const {
  std::string text = absl::StrCat(
      "[storage]\ndriver = \"", driver, "\"\ngraphroot = \"", folder_,
      "/storage\"\nrunroot = \"", folder_, "/run\"\n[storage.options]\n");
  if (!image_store.empty()) {
    absl::StrAppend(&text, "additionalimagestores = [\"", image_store, "\"]\n");
  }
  // An ordinary user may have one number only, and owns every file then.
  if (rootless_) {
    absl::StrAppend(&text, "[storage.options.", driver,
                    "]\nignore_chown_errors = \"true\"\n");
  }
  return WriteFileAtomic(JoinPath(folder_, "storage.conf"), text, 0600);
}

absl::StatusOr<Podman> Podman::Make(const std::string& folder) {
  Podman podman;
  podman.folder_ = folder;
  podman.rootless_ = geteuid() != 0;
  podman.podman_ = Installed("podman");
  if (podman.podman_.empty()) {
    return ContainersUnavailable(
        "podman is not installed; install the packages podman and runc");
  }
  const char* const named = std::getenv("TWINPATH_OCI_RUNTIME");
  std::string runtime = named != nullptr ? named : "";
  for (const char* name : {"runc", "crun"}) {
    if (runtime.empty()) runtime = Installed(name);
  }
  if (runtime.empty() || access(runtime.c_str(), X_OK) != 0) {
    return ContainersUnavailable(absl::StrCat(
        "no runtime: ",
        runtime.empty()
            ? "install the package runc, or crun"
            : absl::StrCat("TWINPATH_OCI_RUNTIME names no program: ",
                           Printable(runtime))));
  }
  if (folder.find_first_of("\"\\\n:") != std::string::npos) {
    return ContainersUnavailable(absl::StrCat(
        "a work folder that podman cannot name: ", Printable(folder)));
  }
  for (const char* name : {"storage", "run", "tmp", "hooks", "home"}) {
    TWINPATH_RETURN_IF_ERROR(MakeDirectories(JoinPath(folder, name), 0700));
  }
  TWINPATH_RETURN_IF_ERROR(WriteFileAtomic(
      JoinPath(folder, "containers.conf"),
      absl::StrCat(
          "[engine]\nevents_logger = \"none\"\ncgroup_manager = "
          "\"cgroupfs\"\nruntime = \"",
          runtime, "\"\nimage_copy_tmp_dir = \"", folder,
          "/tmp\"\n[containers]\nlog_driver = \"k8s-file\"\nkeyring = false\n"),
      0600));
  podman.argv_ = {podman.podman_, "--log-level=error",
                  absl::StrCat("--tmpdir=", folder, "/tmp"),
                  absl::StrCat("--runtime=", runtime),
                  // Hooks of the host's are not the product's; CDI brings its
                  // own.
                  absl::StrCat("--hooks-dir=", folder, "/hooks")};
  podman.environment_ = {
      absl::StrCat("PATH=", kPath), "LANG=C.UTF-8",
      // Rootless podman looks the user's subordinate numbers up and keeps
      // nothing there.
      absl::StrCat("HOME=", folder, "/home"),
      absl::StrCat("XDG_RUNTIME_DIR=", folder, "/run"),
      absl::StrCat("TMPDIR=", folder, "/tmp"),
      absl::StrCat("CONTAINERS_STORAGE_CONF=", folder, "/storage.conf"),
      absl::StrCat("CONTAINERS_CONF=", folder, "/containers.conf")};
  // Overlay where the file system below can be one, copies elsewhere.
  absl::Status status;
  for (const char* driver : {"overlay", "vfs"}) {
    TWINPATH_RETURN_IF_ERROR(podman.WriteStorageConf(driver, ""));
    status = podman
                 .Run({"info", "--format", "{{.Store.GraphRoot}}"},
                      kPodmanQuestionLimit, nullptr)
                 .status();
    if (status.ok()) return podman;
    RemoveTree(JoinPath(folder, "storage")).IgnoreError();
    TWINPATH_RETURN_IF_ERROR(
        MakeDirectories(JoinPath(folder, "storage"), 0700));
  }
  return status;
}

absl::Status Podman::ShowHostStorage() {
  std::string root = "/var/lib/containers/storage";
  std::string conf = "/etc/containers/storage.conf";
  if (rootless_) {
    const char* const home = std::getenv("HOME");
    if (home == nullptr) return absl::UnavailableError("no home folder");
    root = JoinPath(home, ".local/share/containers/storage");
    conf = JoinPath(home, ".config/containers/storage.conf");
  }
  if (const auto text = ReadFile(conf, kMaxConfBytes); text.ok()) {
    const std::string named = TomlText(*text, "graphroot");
    if (absl::StartsWith(named, "/")) root = named;
  }
  for (const char* driver : {"overlay", "vfs", "btrfs"}) {
    const std::string images =
        JoinPath(root, absl::StrCat(driver, "-images/images.json"));
    if (access(images.c_str(), R_OK) != 0) continue;
    // Both storages have to be of one kind. What was loaded so far is not the
    // image looked for.
    for (const char* name : {"storage", "run"}) {
      RemoveTree(JoinPath(folder_, name)).IgnoreError();
      TWINPATH_RETURN_IF_ERROR(MakeDirectories(JoinPath(folder_, name), 0700));
    }
    return WriteStorageConf(driver, root);
  }
  return absl::UnavailableError(absl::StrCat("no images in ", root));
}

absl::StatusOr<std::string> Podman::Run(
    const std::vector<std::string>& arguments, absl::Duration limit,
    const std::function<bool()>& cancelled) const {
  ProcessOptions options;
  options.argv = argv_;
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.environment = environment_;
  options.directory = folder_;
  options.timeout = limit;
  options.cancelled = cancelled;
  options.head_bytes = 8 << 20;
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  if (!result.ok()) return ContainersUnavailable(MessageOf(result.status()));
  if (result->ending == ProcessResult::Ending::kCancelled) {
    return absl::CancelledError("cancelled");
  }
  if (!result->succeeded()) {
    absl::string_view said = absl::StripAsciiWhitespace(result->err.head);
    constexpr size_t kWords = 700;
    if (said.size() > kWords) said = said.substr(said.size() - kWords);
    return ContainersUnavailable(absl::StrCat("podman ", arguments[0], ": ",
                                              result->Describe(), ": ",
                                              Printable(said)));
  }
  return result->out.head;
}

void Podman::Remove() const {
  Run({"rm", "--all", "--force", "--time", "0"}, absl::Seconds(30), nullptr)
      .status()
      .IgnoreError();
  if (rootless_) {
    // Files of other users' numbers can only be removed from where podman maps
    // them.
    Run({"unshare", "rm", "-rf", JoinPath(folder_, "storage")},
        absl::Minutes(2), nullptr)
        .status()
        .IgnoreError();
  } else if (const auto text = ReadFile("/proc/self/mountinfo", 16 << 20);
             text.ok()) {
    // The innermost last, so from the back.
    std::vector<std::string> below;
    for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
      const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
      if (fields.size() > 4 &&
          absl::StartsWith(fields[4], absl::StrCat(folder_, "/"))) {
        below.emplace_back(fields[4]);
      }
    }
    for (auto it = below.rbegin(); it != below.rend(); ++it) {
      umount2(it->c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
    }
  }
  RemoveTree(folder_).IgnoreError();
}

}  // namespace twinpath::runner
