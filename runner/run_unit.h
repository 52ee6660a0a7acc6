// A run in the systemd unit twinpath-run@.service: one connection, one run.
//
//   caller                             unit
//   UnitRunRequest                 ->
//                                      checks the peer, the signature, the
//                                      manifest
//                                  <-  UnitRunReply.files_wanted
//   descriptors of these files     ->  copies and hashes each
//                                      ... until all are there; runs
//                                  <-  UnitRunReply.response
//
// The unit trusts nothing the caller says but which entry, path and GPUs. What
// it runs is its own copy of each file, whose digest is the one in the signed
// release: descriptors are passed, and no folder of the caller is shown to the
// unit, because a file that the caller can still write to after the check could
// become another one. The copy shares its blocks with the original where the
// file system can do that. When the caller goes away the unit ends, and systemd
// ends everything in its control group.

#ifndef TWINPATH_RUNNER_RUN_UNIT_H_
#define TWINPATH_RUNNER_RUN_UNIT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "runner/trusted_release.h"
#include "twinpath/v1/artifact.pb.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {

// The unit's side.
struct RunServerOptions {
  // Who may ask, besides root.
  std::string peer_user = "twinpath-agent";
  TrustFiles trust;
  // Folder for the copies and the run's folder.
  std::string work_parent = "/var/tmp";
  // Entries of oci_images and no others; false: all others. The two kinds of
  // unit have different rights, and neither does the other's work.
  bool containers = false;
  // What runs the verified request; RunHereInUnit in the unit, a fake in tests.
  // An error is no answer to the caller: somebody else gives it, or nobody.
  std::function<v1::RunResponse(const v1::RunRequest&)> run;
  // Whether systemd has told the unit to end, where it is not ended by that at
  // once; may be empty. Then nothing more is copied, and a run that did not
  // come to its own end is no answer to the caller: why it was, only systemd
  // knows (ReportUnitEnd). One that had ended is.
  std::function<bool()> told_to_end;
};

// Serves the connection on `socket`, once. Every refusal is an answer, except
// to a peer that may not ask, which gets none. CANCELLED where the unit was
// told to end.
absl::Status ServeRun(int socket, const RunServerOptions& options);

// How systemd ended a unit (systemd.exec(5)).
struct UnitEnd {
  // $SERVICE_RESULT.
  std::string result;
  // The runner was told to end, did not within TimeoutStopSec, and was killed.
  bool stop_timed_out = false;
  // Processes the kernel took for want of memory (TakenForMemory).
  uint64_t taken = 0;
};

// What the unit says last (ExecStopPost=), where systemd ended it before it
// could answer. "timeout" (the unit's RuntimeMaxSec was over) is an answer that
// the run timed out; but systemd calls it so, too, when somebody stopped the
// unit and TimeoutStopSec was over, so that it is none with `stop_timed_out`.
// "oom-kill" is an answer that memory was short. So is "signal" where the
// kernel has taken processes: with OOMPolicy=continue systemd does not say it
// of the runner itself. Nothing is said for others: "success" has answered, and
// what else there is a fault, which the closed connection tells.
absl::Status ReportUnitEnd(int socket, const UnitEnd& end);

// The caller's side. Opens one file of the artifact for reading.
using FileOpener =
    std::function<absl::StatusOr<UniqueFd>(const v1::ArtifactFile&)>;

// Runs `request` in the unit behind the socket at `path`. As RunInChild:
// everything is an observation; the connection is closed at `deadline` (result
// TIMED_OUT) and when `cancelled` says so (INTERRUPTED). NOT_STARTED with
// "TP114 ..." where nobody listens.
v1::RunResponse RunInUnit(const std::string& path,
                          const v1::UnitRunRequest& request,
                          const FileOpener& open, absl::Duration deadline,
                          std::function<bool()> cancelled);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_RUN_UNIT_H_
