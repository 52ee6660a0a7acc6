// twinpath-run: RunRequest on standard input, RunResponse on standard output.
// Confines, limits, watches and records one run. Everything below it ends with
// it, by the kernel, also when it is killed.

#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <string>

#include "base/exit_code.h"
#include "runner/child_protocol.h"
#include "runner/run.h"
#include "twinpath/v1/runner.pb.h"

int main() {
  const int out = twinpath::runner::ClaimStandardOutput();
  signal(SIGPIPE, SIG_IGN);
  // Orphans of the run become children of this process, where the watch still
  // counts them.
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  twinpath::v1::RunRequest request;
  if (const absl::Status status = twinpath::runner::ReadRequest(request);
      !status.ok()) {
    std::fprintf(stderr, "twinpath-run: error: %s\n",
                 std::string(status.message()).c_str());
    return twinpath::kExitUsage;
  }
  twinpath::v1::RunResponse response;
  *response.mutable_observation() = twinpath::runner::RunHere(request);
  if (const absl::Status status = twinpath::runner::WriteAnswer(out, response);
      !status.ok()) {
    std::fprintf(stderr, "twinpath-run: error: %s\n",
                 std::string(status.message()).c_str());
    return twinpath::kExitInternal;
  }
  return twinpath::kExitPass;
}
