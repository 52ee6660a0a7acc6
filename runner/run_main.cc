// twinpath-run: confines, limits, watches and records one run. Everything below
// it ends with it, by the kernel, also when it is killed.
//
//   twinpath-run                     RunRequest on standard input, RunResponse
//   on
//                                    standard output, in bubblewrap
//   twinpath-run --unit PEER-USER    started by systemd for a connection, which
//                                    is standard input (run_unit.h)
//   twinpath-run --oci-unit PEER-USER
//                                    the same for entries of oci_images, as
//                                    root
//   twinpath-run --unit-ended        started by systemd behind these, to say
//   twinpath-run --oci-unit-ended    why they were ended (ReportUnitEnd)
//
// SIGTERM ends it, and by that the sandbox, at once. A container has more to
// it: there the run is ended and what podman made is removed first.

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/exit_code.h"
#include "base/status.h"
#include "runner/child_protocol.h"
#include "runner/process_watch.h"
#include "runner/run.h"
#include "runner/run_unit.h"
#include "runner/unit_socket.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {
namespace {

int Complain(const absl::Status& status, int code) {
  std::fprintf(stderr, "twinpath-run: error: %s\n",
               std::string(MessageOf(status)).c_str());
  return code;
}

// A signal that ends this process was sent.
volatile std::sig_atomic_t told_to_end = 0;

// From here on such a signal is noted and no more; who runs a container asks.
void NoteSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { told_to_end = 1; };
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    sigaction(signal, &action, nullptr);
  }
}

int RunAsChild() {
  const int out = ClaimStandardOutput();
  v1::RunRequest request;
  if (const absl::Status status = ReadRequest(request); !status.ok()) {
    return Complain(status, kExitUsage);
  }
  std::function<bool()> abandoned;
  if (request.entry().kind() == v1::ENTRY_KIND_OCI) {
    NoteSignals();
    abandoned = [] { return told_to_end != 0; };
  }
  const v1::RunResponse response = RunHere(request, abandoned);
  if (const absl::Status status = WriteAnswer(out, response); !status.ok()) {
    return Complain(status, kExitInternal);
  }
  return kExitPass;
}

int RunAsUnit(const std::string& peer_user) {
  // The program has the same user: it may not look into this process.
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  RunServerOptions options;
  options.peer_user = peer_user;
  options.run = [](const v1::RunRequest& request) {
    return RunHereInUnit(request, [] {
      // Nobody waits; systemd ends what is left in the control group.
      if (PeerIsGone(STDIN_FILENO)) std::_Exit(kExitPass);
      return false;
    });
  };
  if (const absl::Status status = ServeRun(STDIN_FILENO, options);
      !status.ok()) {
    return Complain(
        status, absl::IsPermissionDenied(status) ? kExitIdentity : kExitFail);
  }
  return kExitPass;
}

int RunAsOciUnit(const std::string& peer_user) {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  RunServerOptions options;
  options.peer_user = peer_user;
  options.containers = true;
  options.told_to_end = [] { return told_to_end != 0; };
  NoteSignals();
  options.run = [](const v1::RunRequest& request) {
    // Here an abandoned run ends in order, so that its container and storage
    // go with it.
    return RunHereInOciUnit(
        request, [] { return told_to_end != 0 || PeerIsGone(STDIN_FILENO); });
  };
  if (const absl::Status status = ServeRun(STDIN_FILENO, options);
      !status.ok()) {
    return Complain(
        status, absl::IsPermissionDenied(status) ? kExitIdentity : kExitFail);
  }
  return kExitPass;
}

std::string Variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// `in_order`: the unit is told to end (KillSignal=SIGTERM) and killed only when
// it does not; others are killed at once.
int ReportEnd(bool in_order) {
  UnitEnd end;
  end.result = Variable("SERVICE_RESULT");
  // Neither is set of one that SIGKILL has not ended yet.
  end.stop_timed_out = in_order && Variable("EXIT_CODE") != "exited" &&
                       Variable("EXIT_STATUS") != "TERM";
  end.taken = TakenForMemory().value_or(0);
  ReportUnitEnd(STDIN_FILENO, end).IgnoreError();
  return kExitPass;
}

}  // namespace
}  // namespace twinpath::runner

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  // Orphans of the run become children of this process, where the watch still
  // counts them.
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  if (argc == 1) return twinpath::runner::RunAsChild();
  if (argc == 3 && absl::string_view(argv[1]) == "--unit") {
    return twinpath::runner::RunAsUnit(argv[2]);
  }
  if (argc == 3 && absl::string_view(argv[1]) == "--oci-unit") {
    return twinpath::runner::RunAsOciUnit(argv[2]);
  }
  if (argc == 2 && absl::string_view(argv[1]) == "--unit-ended") {
    return twinpath::runner::ReportEnd(false);
  }
  if (argc == 2 && absl::string_view(argv[1]) == "--oci-unit-ended") {
    return twinpath::runner::ReportEnd(true);
  }
  std::fprintf(stderr,
               "twinpath-run: error: it is started by the agent, the twinpath "
               "command or systemd, not by hand\n");
  return twinpath::kExitUsage;
}
