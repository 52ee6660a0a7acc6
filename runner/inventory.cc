#include "runner/inventory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/yaml_document.h"

namespace twinpath::runner {
namespace {

constexpr const char* kRuntimes[] = {"podman", "docker", "runc", "crun",
                                     "nvidia-ctk"};
// A specification of sixteen GPUs with MIG has some hundred kilobytes.
constexpr uint64_t kMaxSpecBytes = 2 << 20;
constexpr size_t kMaxSpecs = 64;
constexpr size_t kMaxDevices = 1024;
constexpr size_t kMaxNameBytes = 200;

bool IsDigit(char c) {
  return absl::ascii_isdigit(static_cast<unsigned char>(c));
}

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '-' || c == '.' || c == ':';
}

// A name as the specification allows it.
bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), IsNameCharacter);
}

// "nvidia.com/gpu", "nvidia.com/mig", "k8s.device-plugin.nvidia.com/gpu".
bool IsNvidiaKind(absl::string_view kind) {
  const std::vector<absl::string_view> parts = absl::StrSplit(kind, '/');
  return parts.size() == 2 && IsName(parts[0]) && IsName(parts[1]) &&
         (parts[0] == "nvidia.com" || absl::EndsWith(parts[0], ".nvidia.com"));
}

std::string AskVersion(const std::string& program, absl::Duration deadline) {
  ProcessOptions options;
  options.argv = {program, "--version"};
  options.environment = MinimalEnvironment();
  options.head_bytes = 4 << 10;
  options.timeout = deadline;
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  if (!result.ok() || !result->succeeded()) return "";
  return VersionInText(result->out.head);
}

// The library in a folder: libcupti.so.13 rather than libcupti.so.2025.3.1.
std::string CuptiIn(const std::string& root, const std::string& folder) {
  const auto names = ListDirectory(root + folder);
  if (!names.ok()) return "";
  std::string best;
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, "libcupti.so.")) continue;
    if (best.empty() || name.size() < best.size()) best = name;
  }
  return best.empty() ? "" : JoinPath(folder, best);
}

std::string CuptiOf(const std::string& root, const v1::Toolkit& toolkit) {
  for (const char* folder :
       {"extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib",
        "targets/sbsa-linux/lib", "targets/aarch64-linux/lib"}) {
    std::string path = CuptiIn(root, JoinPath(toolkit.path(), folder));
    if (!path.empty()) return path;
  }
  return "";
}

// {13, 0} of "13.0.88"; {0, 0}: no version.
std::pair<uint32_t, uint32_t> TwoParts(absl::string_view version) {
  const std::vector<absl::string_view> parts = absl::StrSplit(version, '.');
  std::pair<uint32_t, uint32_t> result = {0, 0};
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &result.first) ||
      !absl::SimpleAtoi(parts[1], &result.second)) {
    return {0, 0};
  }
  return result;
}

}  // namespace

std::string VersionInText(absl::string_view text) {
  for (absl::string_view word :
       absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty())) {
    if (word.size() > 64 || !IsDigit(word.front())) continue;
    word = word.substr(0, word.find_first_of(",;"));
    if (absl::StrContains(word, '.') &&
        std::all_of(word.begin(), word.end(), absl::ascii_isgraph)) {
      return std::string(word);
    }
  }
  return "";
}

std::vector<v1::OciRuntime> FindOciRuntimes(absl::string_view path,
                                            absl::Duration deadline) {
  std::vector<v1::OciRuntime> runtimes;
  for (const char* name : kRuntimes) {
    for (const absl::string_view folder :
         absl::StrSplit(path, ':', absl::SkipEmpty())) {
      // A relative folder would mean another program for each caller.
      if (folder.front() != '/') continue;
      const std::string program = JoinPath(folder, name);
      struct stat info;
      if (stat(program.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
          access(program.c_str(), X_OK) != 0) {
        continue;
      }
      v1::OciRuntime& runtime = runtimes.emplace_back();
      runtime.set_name(name);
      runtime.set_path(program);
      runtime.set_version(AskVersion(program, deadline));
      break;
    }
  }
  return runtimes;
}

std::vector<std::string> CdiDevicesOf(absl::string_view text,
                                      absl::string_view file) {
  std::vector<std::string> devices;
  // JSON is read as the YAML it is.
  absl::StatusOr<YamlDocument> document = YamlDocument::Parse(text, file);
  if (!document.ok()) return devices;
  YamlReader root = document->root();
  if (!root.IsMapping()) return devices;
  const std::string kind = root.Required("kind").String();
  if (!IsNvidiaKind(kind)) return devices;
  YamlReader list = root.Required("devices");
  if (!list.IsSequence()) return devices;
  for (YamlReader& device : list.Sequence()) {
    if (devices.size() == kMaxDevices) break;
    if (!device.IsMapping()) continue;
    const std::string name = device.Required("name").String();
    if (IsName(name)) devices.push_back(absl::StrCat(kind, "=", name));
  }
  return devices;
}

std::vector<std::string> CdiDevices(const std::string& root) {
  std::set<std::string> devices;
  size_t specs = 0;
  for (const char* folder : {"/var/run/cdi", "/etc/cdi"}) {
    const auto names = ListDirectory(root + folder);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      if (!absl::EndsWith(name, ".json") && !absl::EndsWith(name, ".yaml")) {
        continue;
      }
      if (++specs > kMaxSpecs) break;
      const std::string path = absl::StrCat(root, folder, "/", name);
      // Not a FIFO or a device, which would never end.
      if (!OpenRegularFile(path).ok()) continue;
      const auto text = ReadFile(path, kMaxSpecBytes);
      if (!text.ok()) continue;
      for (std::string& device : CdiDevicesOf(*text, path)) {
        if (devices.size() < kMaxDevices) devices.insert(std::move(device));
      }
    }
  }
  return {devices.begin(), devices.end()};
}

std::string FindCupti(const std::string& root, const v1::HostFacts& facts,
                      const std::vector<std::string>& loader_paths) {
  // CUPTI wants a driver at least as new as itself; which of several fits a
  // program is for the program's own run time to say.
  const std::pair<uint32_t, uint32_t> driver = {
      facts.driver().cuda_version().major(),
      facts.driver().cuda_version().minor()};
  std::string best;
  std::string any;
  std::pair<uint32_t, uint32_t> best_version = {0, 0};
  for (const v1::Toolkit& toolkit : facts.toolkits()) {
    std::string path = CuptiOf(root, toolkit);
    if (path.empty()) continue;
    if (any.empty()) any = path;
    const auto version = TwoParts(toolkit.nvcc_version());
    if (driver.first == 0 || version > driver || version < best_version) {
      continue;
    }
    if (best.empty() || version > best_version) {
      best = std::move(path);
      best_version = version;
    }
  }
  if (!best.empty()) return best;
  for (const std::string& path : loader_paths) {
    if (absl::StartsWith(BaseName(path), "libcupti.so.")) return path;
  }
  return any;
}

}  // namespace twinpath::runner
