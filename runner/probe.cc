#include "runner/probe.h"

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "runner/device_watch.h"
#include "runner/loader.h"
#include "runner/unit_socket.h"

namespace twinpath::runner {
namespace {

// Answers are a few kilobytes; a driver that floods is cut here.
constexpr uint64_t kMaxAnswerBytes = 4 << 20;

v1::ProbeResponse Unanswered(v1::ProbeState state, absl::string_view error,
                             absl::Duration took) {
  v1::ProbeResponse response;
  for (v1::ProbeResult* probe : {response.mutable_driver()->mutable_probe(),
                                 response.mutable_gpu_probe()}) {
    probe->set_state(state);
    probe->set_error(std::string(error));
  }
  response.mutable_duration()->set_seconds(absl::ToInt64Seconds(took));
  return response;
}

// Longest that the unit waits for its child; its own limit is above that.
constexpr absl::Duration kUnitDeadline = absl::Seconds(100);
constexpr size_t kMaxRequestBytes = 64 << 10;

v1::ProbeResponse ProbeInUnit(const UniqueFd& socket,
                              const v1::ProbeRequest& request,
                              absl::Duration deadline) {
  v1::ProbeResponse response;
  const Patience patience = Patience::For(deadline);
  absl::Status status = WriteMessage(socket.get(), patience, request);
  if (status.ok()) {
    status = ReadMessage(socket.get(), patience, kMaxAnswerBytes, response);
  }
  if (status.ok()) return response;
  if (absl::IsDeadlineExceeded(status)) {
    return Unanswered(
        v1::PROBE_STATE_HUNG,
        absl::StrCat("the driver did not answer within ",
                     absl::FormatDuration(deadline), " in the probe unit"),
        deadline);
  }
  return Unanswered(v1::PROBE_STATE_FAILED,
                    absl::StrCat("the probe unit ended without an answer: ",
                                 MessageOf(status),
                                 "; 'journalctl -u twinpath-probe@*' says why"),
                    absl::ZeroDuration());
}

}  // namespace

absl::StatusOr<ProcessOptions> ProbeChild(const ProbeOptions& options) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string program,
                            FindCompanion("twinpath-probe"));
  ProcessOptions child;
  child.argv = {program};
  // The driver's own answers, untouched by what this process inherited.
  child.environment = MinimalEnvironment();
  child.environment.push_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");
  child.environment.push_back("CUDA_CACHE_DISABLE=1");
  const std::string folder = options.library_directory.empty()
                                 ? DriverFolder()
                                 : options.library_directory;
  if (!folder.empty()) {
    child.environment.push_back(absl::StrCat("LD_LIBRARY_PATH=", folder));
  }
  for (const std::string& variable : options.environment) {
    child.environment.push_back(variable);
  }
  return child;
}

absl::StatusOr<v1::ProbeResponse> ProbeInChild(const v1::ProbeRequest& request,
                                               absl::Duration deadline,
                                               const ProbeOptions& options) {
  if (!options.socket.empty()) {
    const absl::StatusOr<UniqueFd> socket = ConnectUnix(options.socket);
    if (socket.ok()) return ProbeInUnit(*socket, request, deadline);
    if (!absl::IsNotFound(socket.status())) {
      return Unanswered(
          v1::PROBE_STATE_FAILED,
          absl::StrCat("the probe unit: ", MessageOf(socket.status())),
          absl::ZeroDuration());
    }
  }
  TWINPATH_ASSIGN_OR_RETURN(ProcessOptions child, ProbeChild(options));
  child.input = request.SerializeAsString();
  child.head_bytes = kMaxAnswerBytes;
  child.timeout = deadline;
  child.cancelled = options.cancelled;
  TWINPATH_ASSIGN_OR_RETURN_CTX(const ProcessResult result, RunProcess(child),
                                "starting the driver probe");
  switch (result.ending) {
    case ProcessResult::Ending::kTimedOut:
    case ProcessResult::Ending::kHung:
    case ProcessResult::Ending::kCancelled:
      return Unanswered(
          v1::PROBE_STATE_HUNG,
          absl::StrCat("the driver did not answer within ",
                       absl::FormatDuration(deadline),
                       result.ending == ProcessResult::Ending::kHung
                           ? " and the probe cannot be ended"
                           : ""),
          result.duration);
    default:
      break;
  }
  v1::ProbeResponse response;
  if (!result.succeeded() || !result.out.complete() ||
      !response.ParseFromString(result.out.head)) {
    return Unanswered(
        v1::PROBE_STATE_FAILED,
        absl::StrCat(
            "the driver probe ended without an answer: ", result.Describe(),
            result.err.head.empty() ? "" : ": ",
            Printable(absl::string_view(result.err.head).substr(0, 500))),
        result.duration);
  }
  return response;
}

absl::Status ServeProbe(int socket, const std::string& peer_user,
                        const ProbeOptions& options) {
  TWINPATH_RETURN_IF_ERROR(CheckPeer(socket, peer_user));
  v1::ProbeRequest request;
  TWINPATH_RETURN_IF_ERROR_CTX(ReadMessage(socket, Patience::For(kUnitDeadline),
                                           kMaxRequestBytes, request),
                               "the request");
  if (request.watch_devices()) {
    return ServeWatchInChild(socket, request, options,
                             [socket] { return PeerIsGone(socket); });
  }
  ProbeOptions watched = options;
  watched.cancelled = [socket] { return PeerIsGone(socket); };
  TWINPATH_ASSIGN_OR_RETURN(const v1::ProbeResponse response,
                            ProbeInChild(request, kUnitDeadline, watched));
  return WriteMessage(socket, Patience::For(kUnitDeadline), response);
}

}  // namespace twinpath::runner
