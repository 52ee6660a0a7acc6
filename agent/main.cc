// twinpath-agent: the daemon on a GPU host. Crash-only: it may be killed at any
// point and accounts for what it had started when it comes back; SIGTERM and
// SIGINT end what runs first. Exit codes: 0 ended by signal; 2 usage,
// configuration or state folder, which do not heal by starting again; 1 what
// may (disk full); 70 a bug.

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "agent/agent.h"
#include "agent/config.h"
#include "agent/environment.h"
#include "agent/fault_point.h"
#include "agent/pause.h"
#include "agent/spool.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/status.h"
#include "base/version.h"
#include "compat/profile.h"
#include "google/protobuf/util/json_util.h"

namespace twinpath::agent {
namespace {

std::atomic<bool> stop{false};

struct Flags {
  std::string config;
  std::string state;
  std::string coordinator;
  std::string join_token_file;
  std::string host_name;
  std::string simulate;
  std::vector<std::string> labels;
  std::string gpu_use;
  uint64_t cache_bytes = 0;
  uint32_t spool_results = 0;
  bool once_facts = false;
  std::string pause_for;
  std::vector<std::string> pause_reason;
  bool pause_now = false;
  bool verbose = false;
};

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--config", flags.config, "Configuration file (agent.yaml)");
  app.add_option("--state", flags.state,
                 "Folder for identity, journal, spool and cache; one agent a "
                 "folder (default /var/lib/twinpath-agent)");
  app.add_option("--coordinator", flags.coordinator,
                 "HOST:PORT of the coordinator (default 127.0.0.1:7711)");
  app.add_option("--join-token-file", flags.join_token_file,
                 "File with a join token; needed until the host is enrolled");
  app.add_option("--host-name", flags.host_name,
                 "Name to enrol under (default: the kernel's)");
  app.add_option("--simulate", flags.simulate,
                 "Be a simulated host made from this profile (name or file); "
                 "simulated never passes a gate");
  app.add_option("--label", flags.labels, "Label key=value; may be repeated");
  app.add_option("--gpu-use", flags.gpu_use,
                 "When runs may use a GPU: idle (no compute process on it) or "
                 "always (default idle); agent.yaml also knows reserved")
      ->check(CLI::IsMember({"idle", "always"}));
  app.add_option("--cache-bytes", flags.cache_bytes,
                 "Most bytes of cached artifact files (default 32 GiB)")
      ->check(CLI::PositiveNumber);
  app.add_option("--spool-results", flags.spool_results,
                 "Most results that wait for the coordinator (default 1000)")
      ->check(CLI::Range(1u, kMostSpoolResults));
  app.add_flag("--once-facts", flags.once_facts,
               "Print this host's facts as JSON and exit");
  app.add_flag("--verbose", flags.verbose, "Log more");
  app.set_version_flag("--version", std::string(kVersion));
}

absl::Status ApplyFlags(const Flags& flags, AgentOptions* options) {
  if (!flags.config.empty()) {
    TWINPATH_RETURN_IF_ERROR(LoadConfig(flags.config, options));
  }
  const auto set = [](const std::string& flag, std::string* option) {
    if (!flag.empty()) *option = flag;
  };
  set(flags.state, &options->state_directory);
  set(flags.coordinator, &options->coordinator);
  set(flags.join_token_file, &options->join_token_file);
  set(flags.host_name, &options->host_name);
  if (!flags.labels.empty()) options->labels = flags.labels;
  for (const std::string& label : options->labels) {
    TWINPATH_RETURN_IF_ERROR(CheckAgentLabel(label));
  }
  if (!flags.gpu_use.empty()) {
    options->gpu_policy =
        flags.gpu_use == "always" ? GpuPolicy::kAlways : GpuPolicy::kIdle;
  }
  if (flags.cache_bytes != 0) options->cache.max_bytes = flags.cache_bytes;
  if (flags.spool_results != 0) {
    options->spool.max_results = flags.spool_results;
  }
  if (!flags.simulate.empty()) {
    TWINPATH_ASSIGN_OR_RETURN(options->profile,
                              compat::LoadProfile(flags.simulate));
  }
  options->session.agent_version = std::string(kVersion);
  return absl::OkStatus();
}

absl::Status PrintFacts(const AgentOptions& options) {
  v1::HostFacts facts =
      CollectAgentFacts(options, FactsScope::kFull, /*machine_id=*/"");
  for (const v1::EnvironmentLeak& leak : options.leaks) {
    *facts.add_leaks() = leak;
  }
  google::protobuf::util::JsonPrintOptions json_options;
  json_options.add_whitespace = true;
  json_options.always_print_primitive_fields = true;
  json_options.preserve_proto_field_names = true;
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(facts, &json, json_options)
           .ok()) {
    return absl::InternalError("the facts cannot be printed as JSON");
  }
  return WriteAll(STDOUT_FILENO, json);
}

// Where the pause is kept; as StateDirectory::paused_file.
std::string PausedFile(const AgentOptions& options) {
  return JoinPath(options.state_directory, "paused");
}

absl::Status PauseHost(const Flags& flags) {
  AgentOptions options;
  TWINPATH_RETURN_IF_ERROR(ApplyFlags(flags, &options));
  Pause pause;
  if (!flags.pause_for.empty()) {
    absl::Duration length;
    if (!absl::ParseDuration(flags.pause_for, &length) ||
        length < absl::Seconds(1) || length > absl::Hours(24 * 366)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--for ", flags.pause_for, " is no length of time: 90m, 2h, 36h"));
    }
    pause.until = absl::Now() + length;
  }
  pause.reason = absl::StrJoin(flags.pause_reason, " ");
  pause.now = flags.pause_now;
  TWINPATH_RETURN_IF_ERROR(WritePause(PausedFile(options), pause));
  std::printf("%s; what runs is %s\n", Describe(pause).c_str(),
              pause.now ? "ended" : "finished");
  return absl::OkStatus();
}

absl::Status ResumeHost(const Flags& flags) {
  AgentOptions options;
  TWINPATH_RETURN_IF_ERROR(ApplyFlags(flags, &options));
  const bool paused = ReadPause(PausedFile(options), absl::Now()).has_value();
  TWINPATH_RETURN_IF_ERROR(RemovePause(PausedFile(options)));
  std::printf("%s\n", paused ? "resumed" : "was not paused");
  return absl::OkStatus();
}

absl::Status Start(const Flags& flags) {
  AgentOptions options;
  TWINPATH_RETURN_IF_ERROR(ApplyFlags(flags, &options));
  options.leaks = ScrubEnvironment();
  for (const v1::EnvironmentLeak& leak : options.leaks) {
    Log(LogLevel::kWarning,
        "a switch of the JIT was set in the agent's environment; it was "
        "removed and is reported",
        {{"variable", leak.variable()}, {"value", leak.value()}});
  }
  if (flags.once_facts) return PrintFacts(options);
  const Notify notify = Notify::Open();
  ArmFaultPointFromEnvironment();
  unsetenv("TWINPATH_CRASH_AT");
  Log(LogLevel::kInfo, "agent starts",
      {{"version", std::string(kVersion)},
       {"state", options.state_directory},
       {"coordinator", options.coordinator},
       {"simulates", flags.simulate}});
  if (options.allow_unsigned_runs && !options.profile) {
    Log(LogLevel::kWarning,
        "allow_unsigned_runs is set: whoever controls the coordinator decides "
        "what runs on this host",
        {{"config", flags.config}});
  }
  TWINPATH_RETURN_IF_ERROR(
      RunAgent(options, notify, [] { return stop.load(); }));
  Log(LogLevel::kInfo, "agent ended");
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app{
      "The Twinpath agent: runs what the coordinator leases to this host and "
      "reports what was seen."};
  Flags flags;
  AddFlags(app, flags);
  // Options of the whole program may stand behind the subcommand, too.
  app.fallthrough();
  CLI::App* pause = app.add_subcommand(
      "pause",
      "Run nothing more on this host until resume; holds over restarts");
  pause->add_option("--for", flags.pause_for,
                    "How long, such as 90m or 2h (default: until resume)");
  pause->add_flag("--now", flags.pause_now,
                  "End what runs instead of finishing it");
  pause->add_option("REASON", flags.pause_reason,
                    "Why, for those who look at the fleet");
  const CLI::App* resume = app.add_subcommand("resume", "Take leases again");
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    app.exit(error, std::cout, std::cerr);
    return kExitUsage;
  }
  if (flags.verbose) SetLogLevel(LogLevel::kDebug);

  struct sigaction action = {};
  // Only a flag: the daemon looks at it twice a second.
  action.sa_handler = [](int) { stop.store(true); };
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  // Writing to a closed pipe or past a file limit is an error, no death.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);

  const absl::Status status = pause->parsed()    ? PauseHost(flags)
                              : resume->parsed() ? ResumeHost(flags)
                                                 : Start(flags);
  if (status.ok()) return kExitPass;
  std::fprintf(stderr, "twinpath-agent: %s\n",
               std::string(MessageOf(status)).c_str());
  switch (status.code()) {
    case absl::StatusCode::kInternal:
      return kExitInternal;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnknown:
      return kExitFail;
    default:
      return kExitUsage;
  }
}

}  // namespace
}  // namespace twinpath::agent

int main(int argc, char** argv) {
  // CLI11 and the standard library may throw; nothing else does.
  try {
    return twinpath::agent::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "twinpath-agent: %s\n", error.what());
    return twinpath::kExitInternal;
  }
}
