#include "runner/paths.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace twinpath::runner {
namespace {

constexpr absl::string_view kJitVariables[] = {
    "CUDA_FORCE_PTX_JIT", "CUDA_FORCE_JIT",     "CUDA_DISABLE_PTX_JIT",
    "CUDA_DISABLE_JIT",   "CUDA_CACHE_DISABLE", "CUDA_CACHE_PATH",
    "CUDA_CACHE_MAXSIZE"};

// What the runner sets itself or what would decide what a run proves.
constexpr absl::string_view kReservedVariables[] = {"CUDA_DEVICE_ORDER",
                                                    "CUDA_VISIBLE_DEVICES",
                                                    "CUDA_LOG_FILE",
                                                    "CUDA_MODULE_LOADING",
                                                    "HOME",
                                                    "TMPDIR"};

// Far above "MIG-" with a UUID and two indexes.
constexpr size_t kMostUuid = 128;

constexpr absl::string_view kPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

constexpr absl::Duration kDefaultTimeout = absl::Seconds(60);
constexpr absl::Duration kLeastJitTimeout = absl::Minutes(15);
constexpr int kJitTimeoutFactor = 10;

bool IsVariableName(absl::string_view name) {
  if (name.empty() || absl::ascii_isdigit(static_cast<unsigned char>(name[0])))
    return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return c == '_' || absl::ascii_isalnum(static_cast<unsigned char>(c));
  });
}

// Variables are handed on as a block of zero-terminated text: a zero byte in
// one of them would begin another variable.
absl::Status CheckVariable(const v1::EnvironmentVariable& variable) {
  if (!IsVariableName(variable.name())) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment: not a variable name: ",
                     absl::CHexEscape(variable.name())));
  }
  if (variable.value().find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "environment: ", variable.name(), ": the value holds a zero byte"));
  }
  return absl::OkStatus();
}

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) +
         absl::Nanoseconds(duration.nanos());
}

}  // namespace

absl::Span<const absl::string_view> JitVariables() { return kJitVariables; }

bool IsJitVariable(absl::string_view name) {
  return std::find(std::begin(kJitVariables), std::end(kJitVariables), name) !=
         std::end(kJitVariables);
}

bool UsesCacheFolder(v1::Path path, bool jit_proof) {
  return path == v1::PATH_PLAIN || (path == v1::PATH_PTX_JIT && jit_proof);
}

absl::Status CheckEntryEnvironment(const v1::Entry& entry) {
  for (const v1::EnvironmentVariable& variable : entry.environment()) {
    const absl::string_view name = variable.name();
    if (const absl::Status status = CheckVariable(variable); !status.ok()) {
      return WithContext(status, absl::StrCat("entry ", entry.name()));
    }
    const bool reserved =
        std::find(std::begin(kReservedVariables), std::end(kReservedVariables),
                  name) != std::end(kReservedVariables);
    if (absl::StartsWith(name, "LD_") || IsJitVariable(name) || reserved ||
        absl::StartsWith(name, "CUDA_INJECTION") ||
        absl::StartsWith(name, "NVTX_INJECTION") ||
        absl::StartsWith(name, "TWINPATH_TRACE_")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "entry ", entry.name(), ": environment: ", name,
          " decides what a run proves and may not be set by an entry; remove "
          "it, the paths set it themselves"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGpuUuid(absl::string_view uuid) {
  const bool good = !uuid.empty() && uuid.size() <= kMostUuid &&
                    std::all_of(uuid.begin(), uuid.end(), [](char c) {
                      return c == '-' || c == '/' ||
                             absl::ascii_isalnum(static_cast<unsigned char>(c));
                    });
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("TP106 no-gpu: not the UUID of a GPU: ",
                   absl::CHexEscape(uuid.substr(0, kMostUuid))));
}

absl::StatusOr<std::vector<v1::EnvironmentVariable>> RunEnvironment(
    const v1::RunRequest& request, const RunFolders& folders) {
  for (const std::string& uuid : request.gpu_uuids()) {
    if (absl::Status status = CheckGpuUuid(uuid); !status.ok()) return status;
  }
  if (absl::Status status = CheckEntryEnvironment(request.entry());
      !status.ok()) {
    return status;
  }
  std::map<std::string, std::string> variables = {
      {"PATH", std::string(kPath)},
      {"LANG", "C.UTF-8"},
      {"HOME", folders.home},
      {"TMPDIR", "/tmp"},
      {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
      {"CUDA_LOG_FILE", folders.driver_log},
  };
  if (!request.gpu_uuids().empty()) {
    variables["CUDA_VISIBLE_DEVICES"] = absl::StrJoin(request.gpu_uuids(), ",");
  }
  if (!folders.driver_folder.empty()) {
    variables["LD_LIBRARY_PATH"] = folders.driver_folder;
  }
  for (const v1::EnvironmentVariable& variable :
       request.entry().environment()) {
    variables[variable.name()] = variable.value();
  }
  if (!request.bare_environment()) {
    switch (request.path()) {
      case v1::PATH_NATIVE:
        variables["CUDA_DISABLE_PTX_JIT"] = "1";
        variables["CUDA_CACHE_DISABLE"] = "1";
        break;
      case v1::PATH_PTX_JIT:
        variables["CUDA_FORCE_PTX_JIT"] = "1";
        if (request.jit_proof() || request.traced()) {
          variables["CUDA_CACHE_PATH"] = folders.cache;
        } else {
          variables["CUDA_CACHE_DISABLE"] = "1";
        }
        break;
      case v1::PATH_PLAIN:
        variables["CUDA_CACHE_PATH"] = folders.cache;
        break;
      default:
        return absl::InvalidArgumentError(
            absl::StrCat("entry ", request.entry().name(), ": path ",
                         static_cast<int>(request.path()),
                         " is none of native, ptx-jit, plain"));
    }
  }
  for (const v1::EnvironmentVariable& variable :
       request.experiment_environment()) {
    variables[variable.name()] = variable.value();
  }
  std::vector<v1::EnvironmentVariable> result;
  for (const auto& [name, value] : variables) {
    v1::EnvironmentVariable& variable = result.emplace_back();
    variable.set_name(name);
    variable.set_value(value);
    if (absl::Status status = CheckVariable(variable); !status.ok()) {
      return status;
    }
  }
  return result;
}

absl::Duration TimeLimit(const v1::Entry& entry, v1::Path path) {
  absl::Duration timeout = ToDuration(entry.timeout());
  if (timeout <= absl::ZeroDuration()) {
    const bool long_by_nature = entry.kind() == v1::ENTRY_KIND_IMAGES ||
                                entry.kind() == v1::ENTRY_KIND_TOOLCHAIN;
    timeout = long_by_nature ? kLeastJitTimeout : kDefaultTimeout;
  }
  if (path != v1::PATH_PTX_JIT) return timeout;
  const absl::Duration jit = ToDuration(entry.jit_timeout());
  if (jit > absl::ZeroDuration()) return jit;
  return std::max(timeout * kJitTimeoutFactor, kLeastJitTimeout);
}

absl::string_view PathName(v1::Path path) {
  switch (path) {
    case v1::PATH_NATIVE:
      return "native";
    case v1::PATH_PTX_JIT:
      return "ptx-jit";
    case v1::PATH_PLAIN:
      return "plain";
    default:
      return "unspecified";
  }
}

}  // namespace twinpath::runner
