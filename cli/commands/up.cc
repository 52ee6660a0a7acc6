// twinpath up: coordinator and agent of this host on loopback, for trying it.

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/child_process.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "compat/profile.h"
#include "runner/paths.h"

namespace twinpath::cli {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(60);
constexpr absl::Duration kStopTimeout = absl::Seconds(10);

constexpr char kAgentConfig[] =
    "# Written by twinpath up at each start. Its coordinator listens on\n"
    "# loopback and belongs to the person who tries Twinpath out here: sweeps\n"
    "# need no signature.\n"
    "allow_unsigned_runs: true\n";

absl::StatusOr<std::string> StateFolder(const std::string& given) {
  if (!given.empty()) {
    return given[0] == '/' ? given : JoinPath(get_current_dir_name(), given);
  }
  const char* xdg = getenv("XDG_STATE_HOME");
  if (xdg != nullptr && xdg[0] == '/') return JoinPath(xdg, "twinpath");
  const char* home = getenv("HOME");
  if (home != nullptr && home[0] == '/') {
    return JoinPath(home, ".local/state/twinpath");
  }
  return absl::InvalidArgumentError(
      "state folder: neither XDG_STATE_HOME nor HOME is set; give --state DIR");
}

// Whether the coordinator can listen there. It would say so itself, but in a
// log, among words of gRPC.
absl::Status CheckFree(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  if (colon == std::string::npos || absl::StartsWith(listen, "unix:")) {
    return absl::OkStatus();
  }
  std::string host = listen.substr(0, colon);
  if (absl::StartsWith(host, "[")) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), listen.substr(colon + 1).c_str(), &hints,
                  &found) != 0) {
    return absl::OkStatus();
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found,
                                                             freeaddrinfo);
  const UniqueFd socket_fd(
      socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Connections of an `up` that has ended do not count.
  const int yes = 1;
  if (!socket_fd.valid() ||
      setsockopt(socket_fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) !=
          0 ||
      bind(socket_fd.get(), found->ai_addr, found->ai_addrlen) == 0) {
    return absl::OkStatus();
  }
  if (errno == EADDRINUSE) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot listen on ", Printable(listen), ": another program does"));
  }
  return ErrnoStatus(errno,
                     absl::StrCat("cannot listen on ", Printable(listen)));
}

// One started daemon.
struct Daemon {
  std::string name;
  std::string log;
  ChildProcess process;
};

std::string LogTail(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, 16u << 20);
  if (!text.ok()) return "";
  const size_t begin = text->size() > 2000 ? text->size() - 2000 : 0;
  return Printable(absl::StripTrailingAsciiWhitespace(text->substr(begin)),
                   /*keep_lines=*/true);
}

class Up {
 public:
  Up(const UpOptions& options, Console& console)
      : options_(options), console_(console) {}

  int Run() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    signals_ = UniqueFd(signalfd(-1, &signals, SFD_CLOEXEC));
    if (const absl::Status started = Start(); !started.ok()) {
      Stop();
      if (stopping_) return 128 + signal_;
      return console_.Fail(
          started, in_use_          ? "twinpath up --listen 127.0.0.1:0 takes "
                                      "any free port"
                   : state_.empty() ? std::string()
                                    : absl::StrCat("logs are in ", state_));
    }
    const int code = WaitForEnd();
    Stop();
    return code;
  }

 private:
  absl::Status Start() {
    TWINPATH_RETURN_IF_ERROR(CheckLoopback(options_.listen));
    for (const std::string& profile : options_.simulate) {
      TWINPATH_RETURN_IF_ERROR(compat::LoadProfile(profile).status());
    }
    TWINPATH_ASSIGN_OR_RETURN(state_, StateFolder(options_.state));
    TWINPATH_RETURN_IF_ERROR(MakeDirectories(state_));
    TWINPATH_RETURN_IF_ERROR(Lock());
    if (absl::Status free = CheckFree(options_.listen); !free.ok()) {
      // There are no logs yet.
      in_use_ = absl::IsFailedPrecondition(free);
      state_.clear();
      return free;
    }
    TWINPATH_ASSIGN_OR_RETURN(const std::string coordinator,
                              FindCompanion("twinpath-coordinator"));
    TWINPATH_ASSIGN_OR_RETURN(const std::string agent,
                              FindCompanion("twinpath-agent"));
    const std::string port_file = JoinPath(state_, "address");
    const std::string token_file = JoinPath(state_, "join-token");
    unlink(port_file.c_str());
    Progress progress(console_);
    progress.Show("starting the coordinator");
    TWINPATH_RETURN_IF_ERROR(StartDaemon(
        "coordinator", {coordinator, "--state", JoinPath(state_, "coordinator"),
                        "--listen", options_.listen, "--port-file", port_file,
                        "--join-token-file", token_file}));
    TWINPATH_RETURN_IF_ERROR(WaitUntil("the coordinator to listen", [&] {
      const absl::StatusOr<std::string> text = ReadFile(port_file, 4096);
      if (!text.ok() || !absl::EndsWith(*text, "\n")) return false;
      address_ = std::string(absl::StripTrailingAsciiWhitespace(*text));
      return access(token_file.c_str(), F_OK) == 0;
    }));
    progress.Show("starting the agents");
    if (!options_.no_host) {
      const std::string config = JoinPath(state_, "agent.yaml");
      TWINPATH_RETURN_IF_ERROR(WriteFileAtomic(config, kAgentConfig, 0600));
      TWINPATH_RETURN_IF_ERROR(StartDaemon(
          "agent",
          {agent, "--config", config, "--state", JoinPath(state_, "agent"),
           "--coordinator", address_, "--join-token-file", token_file}));
      ++expected_;
    }
    int number = 0;
    for (const std::string& profile : options_.simulate) {
      // Two hosts of one profile get different names.
      std::string base(BaseName(profile));
      const auto times = std::count(options_.simulate.begin(),
                                    options_.simulate.end(), profile);
      ++number;
      const std::string host =
          times > 1 ? absl::StrCat(base, "-", number) : base;
      TWINPATH_RETURN_IF_ERROR(StartDaemon(
          absl::StrCat("agent-", host),
          {agent, "--state", JoinPath(state_, absl::StrCat("agent-", host)),
           "--coordinator", address_, "--join-token-file", token_file,
           "--host-name", host, "--simulate", profile}));
      ++expected_;
    }
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Make(address_);
    TWINPATH_RETURN_IF_ERROR(client.status());
    TWINPATH_RETURN_IF_ERROR(WaitUntil("the agents to connect", [&] {
      const absl::StatusOr<std::vector<v1::Host>> hosts =
          (*client)->ListHosts({});
      if (!hosts.ok()) return false;
      size_t ready = 0;
      for (const v1::Host& host : *hosts) {
        if (host.connected() && host.has_facts()) ++ready;
      }
      progress.Show(
          absl::StrCat("waiting for agents: ", ready, "/", expected_));
      return ready >= expected_;
    }));
    if (!options_.ready_file.empty()) {
      TWINPATH_RETURN_IF_ERROR(WriteFileAtomic(
          options_.ready_file, absl::StrCat(address_, "\n"), 0644));
    }
    progress.Show("ready");
    return absl::OkStatus();
  }

  // One `up` a state folder.
  absl::Status Lock() {
    const std::string path = JoinPath(state_, "up.lock");
    lock_ = UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock_.valid()) return ErrnoStatus(errno, path);
    if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "state folder ", state_, ": another twinpath up is using it"));
    }
    return absl::OkStatus();
  }

  absl::Status StartDaemon(absl::string_view name,
                           std::vector<std::string> argv) {
    ChildOptions child;
    child.argv = std::move(argv);
    child.log_path = JoinPath(state_, absl::StrCat(name, ".log"));
    child.daemon = true;
    // No daemon ever inherits a switch of the paths.
    for (absl::string_view variable : runner::JitVariables()) {
      child.unset.emplace_back(variable);
    }
    TWINPATH_ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start(child));
    daemons_.push_back(
        Daemon{std::string(name), child.log_path, std::move(process)});
    return absl::OkStatus();
  }

  // The first daemon that has ended, as an error with the end of its log.
  absl::Status CheckDaemons() {
    for (Daemon& daemon : daemons_) {
      const std::optional<int> status = daemon.process.Poll();
      if (!status.has_value()) continue;
      return absl::UnavailableError(
          absl::StrCat(daemon.name, " ended with exit code ",
                       ShellExitCode(*status), ":\n", LogTail(daemon.log)));
    }
    return absl::OkStatus();
  }

  // Waits up to `timeout` for a signal. Returns whether one came.
  bool Signalled(int timeout_ms) {
    pollfd wait{signals_.get(), POLLIN, 0};
    if (poll(&wait, 1, timeout_ms) <= 0) return stopping_;
    signalfd_siginfo info{};
    if (read(signals_.get(), &info, sizeof info) ==
        static_cast<ssize_t>(sizeof info)) {
      signal_ = static_cast<int>(info.ssi_signo);
      stopping_ = true;
    }
    return stopping_;
  }

  template <typename Condition>
  absl::Status WaitUntil(absl::string_view what, const Condition& done) {
    const absl::Time end = absl::Now() + kStartTimeout;
    while (!done()) {
      TWINPATH_RETURN_IF_ERROR(CheckDaemons());
      if (absl::Now() > end) {
        return absl::DeadlineExceededError(
            absl::StrCat("up: waited ", absl::FormatDuration(kStartTimeout),
                         " in vain for ", what));
      }
      if (Signalled(50)) return absl::CancelledError("stopped");
    }
    return absl::OkStatus();
  }

  int WaitForEnd() {
    console_.Print(absl::StrCat(
        "Twinpath is up: coordinator at ", address_, ", ", expected_,
        expected_ == 1 ? " host" : " hosts", " connected.\n"));
    if (address_ != "127.0.0.1:7711") {
      console_.Print(
          absl::StrCat("  export TWINPATH_COORDINATOR=", address_, "\n"));
    }
    console_.Print(
        "  twinpath hosts\n"
        "  twinpath sweep start FILE --watch   (docs/sweep-file.md)\n"
        "State and logs are in ");
    console_.Print(absl::StrCat(state_, ". Ctrl-C stops everything.\n"));
    (void)console_.Flush();
    while (!Signalled(300)) {
      if (const absl::Status alive = CheckDaemons(); !alive.ok()) {
        return console_.Fail(alive);
      }
    }
    return kExitPass;
  }

  // Agents first, so that they can hand in what they hold.
  void Stop() {
    for (auto daemon = daemons_.rbegin(); daemon != daemons_.rend(); ++daemon) {
      if (daemon->name != "coordinator") daemon->process.Signal(SIGTERM);
    }
    for (Daemon& daemon : daemons_) {
      if (daemon.name != "coordinator") Reap(daemon);
    }
    for (Daemon& daemon : daemons_) {
      if (daemon.name != "coordinator") continue;
      daemon.process.Signal(SIGTERM);
      Reap(daemon);
    }
    daemons_.clear();
    if (!options_.ready_file.empty()) unlink(options_.ready_file.c_str());
  }

  void Reap(Daemon& daemon) {
    if (!daemon.process.WaitFor(kStopTimeout).has_value()) {
      console_.Warn(absl::StrCat(daemon.name, " does not stop; killing it"));
    }
  }

  const UpOptions& options_;
  Console& console_;
  std::string state_;
  std::string address_;
  size_t expected_ = 0;
  UniqueFd lock_;
  UniqueFd signals_;
  // The address is taken.
  bool in_use_ = false;
  bool stopping_ = false;
  int signal_ = SIGTERM;
  std::vector<Daemon> daemons_;
};

}  // namespace

int RunUp(const UpOptions& options, Console& console) {
  return Up(options, console).Run();
}

}  // namespace twinpath::cli
