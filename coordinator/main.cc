// twinpath-coordinator: the daemon in the middle. Crash-only: it may be killed
// at any point and loses nothing it has confirmed; SIGTERM and SIGINT tell the
// agents first. Exit codes: 0 ended by signal, 1 what may heal by starting
// again (disk full, folder or port still held), 2 usage, configuration, state.

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/status.h"
#include "base/version.h"
#include "coordinator/coordinator.h"
#include "coordinator/model.h"
#include "coordinator/proto_time.h"
#include "coordinator/server.h"

namespace twinpath::coordinator {
namespace {

// A token for every agent of this machine, until the daemon is set up properly.
constexpr uint32_t kFileTokenUses = 1'000'000;
constexpr absl::Duration kStopPatience = absl::Seconds(3);

struct Options {
  std::string state;
  std::string listen = "127.0.0.1:7711";
  std::string port_file;
  std::string join_token_file;
  double lease_seconds = 120;
  int leases_per_host = 2;
  uint64_t blob_quota = 0;
  int64_t store_pages = 0;
  int inspections = 2;
  bool verbose = false;
};

void AddOptions(CLI::App& app, Options& options) {
  // A later word wins, so that a wrapper's defaults can be overridden.
  app.option_defaults()->take_last();
  app.add_option("--state", options.state,
                 "Folder for the store and the blobs; made at need")
      ->required();
  app.add_option("--listen", options.listen,
                 "Loopback address and port; port 0: any free one")
      ->capture_default_str();
  app.add_option("--port-file", options.port_file,
                 "Write HOST:PORT there once it listens");
  app.add_option("--join-token-file", options.join_token_file,
                 "Write a join token for many hosts there (mode 0600)");
  app.add_option("--lease-seconds", options.lease_seconds,
                 "How long an agent may take to start a cell")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  app.add_option("--leases-per-host", options.leases_per_host,
                 "Most cells leased to one host at a time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--blob-quota-bytes", options.blob_quota,
                 "Most bytes of all blobs; 0: what the disk holds")
      ->capture_default_str();
  app.add_option("--store-max-pages", options.store_pages,
                 "Cap of the store's file in pages of 4 KiB; 0: none")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 32))
      ->capture_default_str();
  app.add_option("--inspections", options.inspections,
                 "Artifacts inspected at the same time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_flag("--verbose", options.verbose, "Log more");
  app.set_version_flag("--version", std::string(kVersion));
}

absl::Status WriteJoinToken(Coordinator& coordinator, const std::string& path) {
  v1::CreateJoinTokenRequest request;
  request.set_uses(kFileTokenUses);
  *request.mutable_lifetime() = ToProto(kMaxTokenLifetime);
  TWINPATH_ASSIGN_OR_RETURN(const v1::CreateJoinTokenResponse token,
                            coordinator.enrolment().CreateJoinToken(request));
  return WriteFileAtomic(path, absl::StrCat(token.join_token(), "\n"), 0600);
}

// Waits for a signal of `signals`, ticking once a second, which the watchdog
// hears of. Returns its number.
int RunUntilSignal(Coordinator& coordinator, const Notify& notify,
                   const sigset_t& signals) {
  while (true) {
    const struct timespec second = {1, 0};
    const int number = sigtimedwait(&signals, nullptr, &second);
    if (number > 0) return number;
    if (errno != EAGAIN) continue;
    coordinator.Tick();
    if (notify.watchdog() != absl::InfiniteDuration()) {
      notify.Send("WATCHDOG=1");
    }
  }
}

absl::Status Run(const Options& options) {
  // Blocked before any thread starts, so that only sigtimedwait takes them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Writing to a closed pipe or behind the file limit is an error, no death.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  const Notify notify = Notify::Open();

  TWINPATH_RETURN_IF_ERROR(CheckListenAddress(options.listen));
  TWINPATH_ASSIGN_OR_RETURN(Model model, DefaultModel());
  CoordinatorOptions coordinator_options;
  coordinator_options.state_folder = options.state;
  coordinator_options.clock = &SystemClock();
  coordinator_options.dispatch.lease_time =
      absl::Seconds(options.lease_seconds);
  coordinator_options.dispatch.max_leases_per_host = options.leases_per_host;
  coordinator_options.blobs.quota_bytes = options.blob_quota;
  coordinator_options.store_max_pages = options.store_pages;
  coordinator_options.inspect_threads = options.inspections;
  TWINPATH_ASSIGN_OR_RETURN(
      const std::unique_ptr<Coordinator> coordinator,
      Coordinator::Open(coordinator_options, std::move(model)));
  if (!options.join_token_file.empty()) {
    TWINPATH_RETURN_IF_ERROR_CTX(
        WriteJoinToken(*coordinator, options.join_token_file),
        "writing the join token");
  }
  TWINPATH_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server,
                            Server::Start(*coordinator, options.listen));
  if (!options.port_file.empty()) {
    TWINPATH_RETURN_IF_ERROR_CTX(
        WriteFileAtomic(options.port_file,
                        absl::StrCat(server->address(), "\n"), 0644),
        "writing the port file");
  }
  Log(LogLevel::kInfo, "listening",
      {{"address", server->address()},
       {"state", options.state},
       {"version", std::string(kVersion)}});
  notify.Send(absl::StrCat("READY=1\nSTATUS=listening on ", server->address()));
  const int number = RunUntilSignal(*coordinator, notify, signals);
  notify.Send("STOPPING=1");
  Log(LogLevel::kInfo, "stopping", {{"signal", absl::StrCat(number)}});
  server->Stop(kStopPatience);
  return absl::OkStatus();
}

}  // namespace
}  // namespace twinpath::coordinator

int main(int argc, char** argv) {
  CLI::App app(
      "Coordinator of Twinpath: keeps the fleet, dispatches sweeps, "
      "judges what comes back.");
  twinpath::coordinator::Options options;
  twinpath::coordinator::AddOptions(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? twinpath::kExitPass : twinpath::kExitUsage;
  }
  if (options.verbose) twinpath::SetLogLevel(twinpath::LogLevel::kDebug);
  const absl::Status status = twinpath::coordinator::Run(options);
  if (status.ok()) return twinpath::kExitPass;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  switch (status.code()) {
    // What may heal by starting again: a full disk, a port or a state folder
    // that an instance still holds which is ending.
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnknown:
      return twinpath::kExitFail;
    default:
      return twinpath::kExitUsage;
  }
}
