// twinpath-probe: ProbeRequest on standard input, ProbeResponse on standard
// output. The only program of Twinpath that loads the CUDA driver. With --unit
// PEER-USER it is started by systemd for a connection, which is standard input,
// and asks a child of its own. With --watch it watches GPUs and answers on
// descriptor 3.

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/exit_code.h"
#include "base/status.h"
#include "runner/child_protocol.h"
#include "runner/device_state.h"
#include "runner/driver_files.h"
#include "runner/driver_probe.h"
#include "runner/probe.h"
#include "twinpath/v1/runner.pb.h"

namespace {

constexpr int kWatchSocket = 3;

int ServeAsUnit(const std::string& peer_user) {
  signal(SIGPIPE, SIG_IGN);
  const absl::Status status =
      twinpath::runner::ServeProbe(STDIN_FILENO, peer_user);
  if (status.ok()) return twinpath::kExitPass;
  std::fprintf(stderr, "twinpath-probe: error: %s\n",
               std::string(twinpath::MessageOf(status)).c_str());
  return absl::IsPermissionDenied(status) ? twinpath::kExitIdentity
                                          : twinpath::kExitFail;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && absl::string_view(argv[1]) == "--unit") {
    return ServeAsUnit(argv[2]);
  }
  const bool watch = argc == 2 && absl::string_view(argv[1]) == "--watch";
  const int out = twinpath::runner::ClaimStandardOutput();
  twinpath::v1::ProbeRequest request;
  if (const absl::Status status = twinpath::runner::ReadRequest(request);
      !status.ok()) {
    std::fprintf(stderr, "twinpath-probe: error: %s\n",
                 std::string(status.message()).c_str());
    return twinpath::kExitUsage;
  }
  if (watch) {
    const absl::Status status =
        twinpath::runner::ServeDeviceWatch(kWatchSocket, request);
    // As below.
    std::_Exit(status.ok() ? twinpath::kExitPass : twinpath::kExitInternal);
  }
  const absl::Time start = absl::Now();
  twinpath::v1::ProbeResponse response = twinpath::runner::ProbeDriver(request);
  // Here, not in the agent: it sees no device nodes, and a library's note is
  // parsed.
  if (request.driver()) {
    twinpath::runner::AddDriverFiles(/*root=*/"", *response.mutable_driver());
  }
  const absl::Duration took = absl::Now() - start;
  response.mutable_duration()->set_seconds(absl::ToInt64Seconds(took));
  response.mutable_duration()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(took % absl::Seconds(1))));
  const absl::Status written = twinpath::runner::WriteAnswer(out, response);
  // The driver's own exit handlers have been seen to hang; the answer is out.
  std::_Exit(written.ok() ? twinpath::kExitPass : twinpath::kExitInternal);
}
