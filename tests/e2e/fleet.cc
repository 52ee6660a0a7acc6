#include "tests/e2e/fleet.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "base/subprocess.h"

namespace twinpath::e2e {
namespace {

// Limit of every wait; only a broken build comes near it.
constexpr absl::Duration kPatience = absl::Minutes(2);

template <typename Condition>
absl::Status WaitUntil(absl::string_view what, const Condition& done) {
  const absl::Time end = absl::Now() + kPatience;
  while (!done()) {
    if (absl::Now() > end) {
      return absl::DeadlineExceededError(absl::StrCat("waiting for ", what));
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
  return absl::OkStatus();
}

std::string BinDirectory() {
  const char* folder = getenv("TWINPATH_BIN_DIR");
  return folder == nullptr ? "." : folder;
}

}  // namespace

std::string Program(absl::string_view name) {
  return JoinPath(BinDirectory(), name);
}

CliResult RunCli(const std::vector<std::string>& args,
                 absl::string_view address, const std::string& directory,
                 const std::string& input) {
  ProcessOptions options;
  options.argv = {Program("twinpath")};
  options.argv.insert(options.argv.end(), args.begin(), args.end());
  options.environment = MinimalEnvironment();
  options.environment.push_back("COLUMNS=160");
  if (const char* source = getenv("TWINPATH_SOURCE_DIR"); source != nullptr) {
    options.environment.push_back(absl::StrCat("TWINPATH_DATA=", source));
  }
  if (!address.empty()) {
    options.environment.push_back(
        absl::StrCat("TWINPATH_COORDINATOR=", address));
  }
  options.directory = directory;
  options.input = input;
  options.head_bytes = 64 << 20;
  options.timeout = kPatience;
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  if (!result.ok()) {
    return {-1, "", std::string(result.status().message())};
  }
  CliResult out;
  out.exit_code = result->ending == ProcessResult::Ending::kExited
                      ? result->exit_code
                      : 1000 + result->signal;
  out.out = result->out.head;
  out.err = result->err.head;
  return out;
}

absl::StatusOr<std::unique_ptr<Fleet>> Fleet::Start() {
  TWINPATH_ASSIGN_OR_RETURN(TempDirectory folder, TempDirectory::Make());
  std::unique_ptr<Fleet> fleet(new Fleet(std::move(folder)));
  TWINPATH_RETURN_IF_ERROR(fleet->StartCoordinator());
  return fleet;
}

std::string Fleet::JoinTokenFile() const {
  return JoinPath(folder(), "join-token");
}

absl::Status Fleet::StartCoordinator() {
  const std::string port_file = JoinPath(folder(), "address");
  unlink(port_file.c_str());
  cli::ChildOptions options;
  options.argv = {Program("twinpath-coordinator"),
                  "--state",
                  JoinPath(folder(), "coordinator"),
                  "--listen",
                  address_.empty() ? "127.0.0.1:0" : address_,
                  "--port-file",
                  port_file,
                  "--join-token-file",
                  JoinTokenFile()};
  options.log_path = JoinPath(folder(), "coordinator.log");
  options.daemon = true;
  TWINPATH_ASSIGN_OR_RETURN(cli::ChildProcess process,
                            cli::ChildProcess::Start(options));
  coordinator_.emplace(std::move(process));
  absl::Status ended;
  TWINPATH_RETURN_IF_ERROR(WaitUntil("the coordinator to listen", [&] {
    if (const std::optional<int> status = coordinator_->Poll();
        status.has_value()) {
      ended = absl::InternalError(absl::StrCat(
          "the coordinator ended with ", *status, ": ", Log("coordinator")));
      return true;
    }
    const absl::StatusOr<std::string> text = ReadFile(port_file, 4096);
    if (!text.ok() || !absl::EndsWith(*text, "\n")) return false;
    address_ = std::string(absl::StripTrailingAsciiWhitespace(*text));
    return access(JoinTokenFile().c_str(), F_OK) == 0;
  }));
  TWINPATH_RETURN_IF_ERROR(ended);
  // One client for all lives of the coordinator: a watch may be using it.
  if (client_ == nullptr) {
    TWINPATH_ASSIGN_OR_RETURN(client_, cli::Client::Make(address_));
  }
  return absl::OkStatus();
}

absl::Status Fleet::KillCoordinator() {
  coordinator_->Signal(SIGKILL);
  if (!coordinator_->WaitFor(kPatience).has_value()) {
    return absl::InternalError("the coordinator outlived SIGKILL");
  }
  return absl::OkStatus();
}

absl::Status Fleet::StartAgent(const std::string& name,
                               const std::string& profile,
                               const std::vector<std::string>& environment,
                               absl::string_view config) {
  cli::ChildOptions options;
  options.argv = {Program("twinpath-agent"),
                  "--state",
                  JoinPath(folder(), absl::StrCat("agent-", name)),
                  "--coordinator",
                  address_,
                  "--join-token-file",
                  JoinTokenFile(),
                  "--host-name",
                  name};
  if (!config.empty()) {
    const std::string file = absl::StrCat(name, ".yaml");
    TWINPATH_RETURN_IF_ERROR(Write(file, config, 0600));
    options.argv.push_back("--config");
    options.argv.push_back(JoinPath(folder(), file));
  }
  if (!profile.empty()) {
    options.argv.push_back("--simulate");
    options.argv.push_back(profile);
  }
  options.set = environment;
  options.log_path = JoinPath(folder(), absl::StrCat(name, ".log"));
  options.daemon = true;
  TWINPATH_ASSIGN_OR_RETURN(cli::ChildProcess process,
                            cli::ChildProcess::Start(options));
  agents_.erase(name);
  agents_.emplace(name, std::move(process));
  return absl::OkStatus();
}

absl::Status Fleet::StopAgent(const std::string& name, int signal) {
  cli::ChildProcess& agent = agents_.at(name);
  agent.Signal(signal);
  if (!agent.WaitFor(kPatience).has_value()) {
    return absl::InternalError(absl::StrCat(name, " does not end"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Fleet::WaitForAgent(const std::string& name) {
  const std::optional<int> status = agents_.at(name).WaitFor(kPatience);
  if (!status.has_value()) {
    return absl::DeadlineExceededError(absl::StrCat(name, " does not end"));
  }
  return *status;
}

absl::Status Fleet::WaitForHosts(size_t count) {
  return WithContext(WaitUntil(absl::StrCat(count, " hosts"),
                               [&] {
                                 const auto hosts = client_->ListHosts({});
                                 if (!hosts.ok()) return false;
                                 size_t ready = 0;
                                 for (const v1::Host& host : *hosts) {
                                   if (host.connected() && host.has_facts())
                                     ++ready;
                                 }
                                 return ready >= count;
                               }),
                     Log("coordinator"));
}

absl::StatusOr<v1::Sweep> Fleet::WaitForSweep(const std::string& id) {
  v1::Sweep sweep;
  TWINPATH_RETURN_IF_ERROR(WaitUntil(absl::StrCat("sweep ", id), [&] {
    const absl::StatusOr<v1::Sweep> now = client_->GetSweep(id);
    if (!now.ok()) return false;
    sweep = *now;
    return sweep.state() != v1::SWEEP_STATE_RUNNING;
  }));
  return sweep;
}

absl::Status Fleet::Write(const std::string& name, absl::string_view text,
                          uint32_t mode) const {
  return WriteFileAtomic(JoinPath(folder(), name), text, mode);
}

std::string Fleet::Log(const std::string& name) const {
  const absl::StatusOr<std::string> text =
      ReadFile(JoinPath(folder(), absl::StrCat(name, ".log")), 64 << 20);
  if (!text.ok()) return "";
  return text->size() > 4000 ? text->substr(text->size() - 4000) : *text;
}

std::string SamplePtx(absl::string_view name) {
  return absl::StrCat(
      "//\n// Generated for a test\n//\n\n.version 6.3\n.target sm_75\n"
      ".address_size 64\n\n.visible .entry ",
      name, "()\n{\n\tret;\n}\n");
}

std::string SampleSweep(absl::string_view tail) {
  return absl::StrCat(
      "name: sample\n"
      "artifact: {files: [kernel.ptx]}\n"
      "entries:\n"
      "  - name: run\n"
      "    command: [/bin/true]\n"
      "    covers: [kernel.ptx]\n",
      tail);
}

}  // namespace twinpath::e2e
