#include "agent/config.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "agent/endpoint.h"
#include "agent/spool.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "base/yaml_document.h"

namespace twinpath::agent {
namespace {

constexpr uint64_t kMaxConfig = 1 << 20;

void ReadHost(YamlReader root, AgentOptions* options) {
  if (YamlReader name = root.Optional("host_name"); name.present()) {
    options->host_name = name.String();
  }
  YamlReader labels = root.Optional("labels");
  if (!labels.present()) return;
  options->labels.clear();
  for (auto& [key, value] : labels.Mapping()) {
    std::string label = absl::StrCat(key, "=", value.String());
    if (const absl::Status status = CheckAgentLabel(label); !status.ok()) {
      value.Error(MessageOf(status));
    }
    options->labels.push_back(std::move(label));
  }
}

// A command as a list of arguments; nothing goes through a shell.
std::vector<std::string> ReadCommand(YamlReader reader) {
  if (!reader.present()) return {};
  std::vector<std::string> argv = reader.StringSequence();
  if (argv.empty()) {
    reader.Error("names no program");
  } else if (!absl::StartsWith(argv[0], "/")) {
    reader.Error("the program must be an absolute path");
  }
  return argv;
}

void ReadGpuUse(YamlReader root, AgentOptions* options) {
  YamlReader use = root.Optional("gpu_use");
  if (use.present()) {
    const std::string choice = use.Choice({"idle", "always", "reserved"});
    options->gpu_policy = choice == "always"     ? GpuPolicy::kAlways
                          : choice == "reserved" ? GpuPolicy::kReserved
                                                 : GpuPolicy::kIdle;
  }
  YamlReader reserve = root.Optional("gpu_reserve");
  YamlReader release = root.Optional("gpu_release");
  options->reservation.reserve = ReadCommand(reserve);
  options->reservation.release = ReadCommand(release);
  if (YamlReader timeout = root.Optional("gpu_command_timeout");
      timeout.present()) {
    options->reservation.timeout = timeout.Duration();
    if (options->reservation.timeout < absl::Seconds(1) ||
        options->reservation.timeout > absl::Minutes(10)) {
      timeout.Error("must be 1s to 10m");
    }
  }
  const bool reserved = options->gpu_policy == GpuPolicy::kReserved;
  if (reserved && !(reserve.present() && release.present())) {
    use.Error("\"reserved\" needs the commands gpu_reserve and gpu_release");
  }
  if (!reserved && (reserve.present() || release.present())) {
    (reserve.present() ? reserve : release)
        .Error("is used with gpu_use: reserved only");
  }
}

void ReadLimits(YamlReader root, AgentOptions* options) {
  YamlReader cache = root.Optional("cache");
  if (YamlReader bytes = cache.Optional("max_bytes"); bytes.present()) {
    options->cache.max_bytes = bytes.Bytes();
  }
  cache.RejectUnknownKeys();
  YamlReader spool = root.Optional("spool");
  if (YamlReader bytes = spool.Optional("max_bytes"); bytes.present()) {
    options->spool.max_bytes = bytes.Bytes();
  }
  if (YamlReader results = spool.Optional("max_results"); results.present()) {
    options->spool.max_results =
        static_cast<uint32_t>(results.Int(1, kMostSpoolResults));
  }
  spool.RejectUnknownKeys();
}

}  // namespace

absl::Status CheckAgentLabel(absl::string_view label) {
  const size_t equals = label.find('=');
  const auto good = [](absl::string_view text, bool key) {
    for (const char c : text) {
      const unsigned char byte = static_cast<unsigned char>(c);
      if (key ? !absl::ascii_isalnum(byte) && c != '.' && c != '_' && c != '-'
              : !absl::ascii_isprint(byte)) {
        return false;
      }
    }
    return text.size() <= (key ? 64u : 256u);
  };
  if (equals == absl::string_view::npos || equals == 0 ||
      !good(label.substr(0, equals), true) ||
      !good(label.substr(equals + 1), false)) {
    return absl::InvalidArgumentError(
        absl::StrCat("label \"", Printable(label),
                     "\" is not key=value (key: letters, digits, . _ -)"));
  }
  return absl::OkStatus();
}

absl::Status ParseConfig(absl::string_view text, absl::string_view file,
                         AgentOptions* options) {
  TWINPATH_ASSIGN_OR_RETURN(YamlDocument document,
                            YamlDocument::Parse(text, file));
  YamlReader root = document.root();
  if (YamlReader state = root.Optional("state"); state.present()) {
    options->state_directory = state.String();
  }
  if (YamlReader coordinator = root.Optional("coordinator");
      coordinator.present()) {
    options->coordinator = coordinator.String();
    const absl::Status status = CheckLoopbackEndpoint(options->coordinator);
    if (!status.ok()) coordinator.Error(MessageOf(status));
  }
  if (YamlReader token = root.Optional("join_token_file"); token.present()) {
    options->join_token_file = token.String();
  }
  ReadHost(root, options);
  ReadGpuUse(root, options);
  if (YamlReader unsigned_runs = root.Optional("allow_unsigned_runs");
      unsigned_runs.present()) {
    options->allow_unsigned_runs = unsigned_runs.Bool();
  }
  if (YamlReader interval = root.Optional("facts_interval");
      interval.present()) {
    options->facts_interval = interval.Duration();
    if (options->facts_interval < absl::Seconds(10)) {
      interval.Error("must be at least 10s");
    }
  }
  ReadLimits(root, options);
  root.RejectUnknownKeys();
  return document.status();
}

absl::Status LoadConfig(const std::string& path, AgentOptions* options) {
  TWINPATH_ASSIGN_OR_RETURN_CTX(const std::string text,
                                ReadFile(path, kMaxConfig),
                                "reading the configuration");
  return ParseConfig(text, path, options);
}

}  // namespace twinpath::agent
