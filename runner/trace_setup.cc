#include "runner/trace_setup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "runner/loader.h"
#include "runner/toolkit.h"
#include "runner/trace/record.h"

namespace twinpath::runner {
namespace {

constexpr absl::string_view kLibrary = "libcupti.so.";
constexpr size_t kMaxCupti = 8;

// Without links; "" if it does not exist.
std::string Resolved(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) == nullptr ? "" : resolved;
}

// Beside the programs that only other programs start. It is no program itself,
// and some systems install libraries without the right to execute them.
std::string LibraryPath(absl::string_view name) {
  const absl::StatusOr<std::string> inside = FindCompanion("twinpath-inside");
  if (!inside.ok()) return "";
  std::string path = Resolved(JoinPath(DirName(*inside), name));
  return access(path.c_str(), R_OK) == 0 ? path : "";
}

// Folders of Python packages below `root`, as far as they are in usual places.
std::vector<std::string> PackageFolders(const std::string& root) {
  std::vector<std::string> result;
  for (const char* parent : {"/usr/local/lib", "/usr/lib"}) {
    const auto versions = ListDirectory(root + parent);
    if (!versions.ok()) continue;
    for (const std::string& version : *versions) {
      if (!absl::StartsWith(version, "python3")) continue;
      for (const char* kind : {"dist-packages", "site-packages"}) {
        result.push_back(JoinPath(JoinPath(root + parent, version), kind) +
                         "/nvidia");
      }
    }
  }
  return result;
}

}  // namespace

std::vector<std::string> FindCupti(
    const std::string& root, const std::vector<std::string>& environment) {
  // By major version, the newest first; of one version the first found.
  std::vector<std::pair<int, std::string>> found;
  std::set<std::string> seen;
  const auto consider = [&](const std::string& path) {
    const absl::string_view name = BaseName(path);
    int major = 0;
    // Exactly libcupti.so.N: what its soname is.
    if (!absl::StartsWith(name, kLibrary) ||
        !absl::SimpleAtoi(name.substr(kLibrary.size()), &major) ||
        path.find(':') != std::string::npos) {
      return;
    }
    // Links on the way need not lead to the same place in the sandbox.
    const std::string resolved = Resolved(path);
    if (access(resolved.c_str(), R_OK) != 0 || !seen.insert(resolved).second) {
      return;
    }
    found.emplace_back(major, resolved);
  };
  const auto look = [&](const std::string& folder) {
    const auto names = ListDirectory(folder);
    if (!names.ok()) return;
    for (const std::string& name : *names) consider(JoinPath(folder, name));
  };
  for (const std::string& toolkit : FindToolkits(root, environment)) {
    for (const char* folder : {"extras/CUPTI/lib64", "lib64", "lib"}) {
      look(JoinPath(toolkit, folder));
    }
  }
  if (root.empty()) {
    for (const CachedLibrary& library : LoaderCache()) {
      if (absl::StartsWith(library.soname, kLibrary)) consider(library.path);
    }
  }
  for (const std::string& packages : PackageFolders(root)) {
    for (const char* package : {"cuda_cupti", "cu13", "cu12"}) {
      look(JoinPath(JoinPath(packages, package), "lib"));
    }
  }
  std::stable_sort(
      found.begin(), found.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> result;
  for (auto& [major, path] : found) {
    if (result.size() == kMaxCupti) break;
    result.push_back(std::move(path));
  }
  return result;
}

std::vector<std::string> FindCupti() {
  if (const char* named = std::getenv("TWINPATH_CUPTI");
      named != nullptr && *named != '\0') {
    return {Resolved(named).empty() ? named : Resolved(named)};
  }
  std::vector<std::string> environment;
  for (const char* name : {"PATH", "CUDA_HOME", "CUDA_PATH"}) {
    if (const char* value = std::getenv(name); value != nullptr) {
      environment.push_back(absl::StrCat(name, "=", value));
    }
  }
  return FindCupti("", environment);
}

absl::Status CheckTraceLibraries() {
  for (const char* name : {"twinpath-audit.so", "twinpath-trace.so"}) {
    if (LibraryPath(name).empty()) {
      return absl::NotFoundError(absl::StrCat(
          name,
          " is not installed beside twinpath-inside; install the package "
          "again"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TraceSetup> TraceSetup::Make(const std::string& work_directory) {
  TraceSetup setup;
  setup.folder_ = JoinPath(work_directory, "trace");
  if (mkdir(setup.folder_.c_str(), 0700) != 0) {
    return ErrnoStatus(errno, absl::StrCat("make ", setup.folder_));
  }
  setup.folder_fd_ = UniqueFd(open(
      setup.folder_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!setup.folder_fd_.valid()) {
    return ErrnoStatus(errno, absl::StrCat("open ", setup.folder_));
  }
  setup.audit_ = LibraryPath("twinpath-audit.so");
  setup.trace_ = LibraryPath("twinpath-trace.so");
  setup.cupti_ = FindCupti();
  return setup;
}

void TraceSetup::AddVariables(
    std::vector<v1::EnvironmentVariable>& environment) const {
  const auto set = [&](const char* name, std::string value) {
    if (value.empty()) return;
    v1::EnvironmentVariable& variable = environment.emplace_back();
    variable.set_name(name);
    variable.set_value(std::move(value));
  };
  // The loader splits at colons and has no escape for them.
  if (audit_.find(':') == std::string::npos) set("LD_AUDIT", audit_);
  set("CUDA_INJECTION64_PATH", trace_);
  set(TP_TRACE_FOLDER_VARIABLE, folder_);
  set(TP_TRACE_CUPTI_VARIABLE, absl::StrJoin(cupti_, ":"));
  std::sort(
      environment.begin(), environment.end(),
      [](const v1::EnvironmentVariable& a, const v1::EnvironmentVariable& b) {
        return a.name() < b.name();
      });
}

std::vector<std::string> TraceSetup::Shown() const {
  std::vector<std::string> files = cupti_;
  files.push_back(audit_);
  files.push_back(trace_);
  std::vector<std::string> result;
  for (std::string& file : files) {
    // Everything else is there as it is on the host.
    for (const char* folder : {"/tmp/", "/run/", "/var/tmp/", "/dev/"}) {
      if (absl::StartsWith(file, folder)) {
        result.push_back(std::move(file));
        break;
      }
    }
  }
  return result;
}

bool IsTraceVariable(absl::string_view name) {
  return name == "LD_AUDIT" || name == "CUDA_INJECTION64_PATH" ||
         name == TP_TRACE_FOLDER_VARIABLE || name == TP_TRACE_CUPTI_VARIABLE;
}

}  // namespace twinpath::runner
