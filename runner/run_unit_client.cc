#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "runner/run_unit.h"
#include "runner/unit_socket.h"

namespace twinpath::runner {
namespace {

// Head and tail of three streams of at most 4 MiB, every image of an artifact,
// and the rest.
constexpr size_t kMaxReplyBytes = 256 << 20;

v1::Observation Begin(const v1::UnitRunRequest& request) {
  v1::Observation observation;
  observation.set_attempt_id(request.attempt_id());
  observation.set_path(request.path());
  observation.set_jit_proof(request.jit_proof());
  observation.set_traced(request.traced());
  observation.mutable_start_time()->set_seconds(
      absl::ToUnixSeconds(absl::Now()));
  return observation;
}

absl::Status SendFiles(int socket, const v1::FilesWanted& wanted,
                       const std::vector<const v1::ArtifactFile*>& files,
                       const FileOpener& open, const Patience& patience) {
  if (wanted.count() == 0 || wanted.count() > kMaxDescriptors ||
      wanted.first() > files.size() ||
      wanted.count() > files.size() - wanted.first()) {
    return absl::InvalidArgumentError("the unit asks for files there are not");
  }
  std::vector<UniqueFd> opened;
  std::vector<int> numbers;
  for (uint32_t i = 0; i < wanted.count(); ++i) {
    TWINPATH_ASSIGN_OR_RETURN(UniqueFd fd, open(*files[wanted.first() + i]));
    numbers.push_back(fd.get());
    opened.push_back(std::move(fd));
  }
  return SendDescriptors(socket, patience, numbers);
}

absl::StatusOr<v1::RunResponse> Talk(int socket,
                                     const v1::UnitRunRequest& request,
                                     const FileOpener& open,
                                     const Patience& patience) {
  std::vector<const v1::ArtifactFile*> files;
  for (const v1::ArtifactFile& file : request.release().artifact().files()) {
    if (file.type() == v1::FILE_TYPE_REGULAR) files.push_back(&file);
  }
  TWINPATH_RETURN_IF_ERROR(WriteMessage(socket, patience, request));
  while (true) {
    v1::UnitRunReply reply;
    TWINPATH_RETURN_IF_ERROR(
        ReadMessage(socket, patience, kMaxReplyBytes, reply));
    switch (reply.reply_case()) {
      case v1::UnitRunReply::kFilesWanted:
        TWINPATH_RETURN_IF_ERROR(
            SendFiles(socket, reply.files_wanted(), files, open, patience));
        break;
      case v1::UnitRunReply::kResponse:
        return reply.response();
      default:
        return absl::InvalidArgumentError("the unit says nothing known here");
    }
  }
}

}  // namespace

v1::RunResponse RunInUnit(const std::string& path,
                          const v1::UnitRunRequest& request,
                          const FileOpener& open, absl::Duration deadline,
                          std::function<bool()> cancelled) {
  v1::RunResponse response;
  v1::Observation& observation = *response.mutable_observation();
  observation = Begin(request);
  const absl::StatusOr<UniqueFd> socket = ConnectUnix(path);
  if (!socket.ok()) {
    observation.set_ending(v1::ENDING_NOT_STARTED);
    observation.set_problem(absl::StrCat(
        path == kOciSocket ? "TP134 containers-unavailable: the unit: "
                           : "TP114 sandbox-unavailable: the run unit: ",
        MessageOf(socket.status()), "; look at 'systemctl status ",
        path == kOciSocket ? "twinpath-oci.socket'" : "twinpath-run.socket'"));
    return response;
  }
  const absl::StatusOr<v1::RunResponse> answer =
      Talk(socket->get(), request, open,
           Patience::For(deadline, std::move(cancelled)));
  if (answer.ok()) {
    v1::Observation begun = observation;
    response = *answer;
    if (response.observation().attempt_id().empty()) {
      // Who ended the unit (ReportUnitEnd) does not know the request.
      begun.MergeFrom(response.observation());
      *response.mutable_observation() = std::move(begun);
    }
    return response;
  }
  if (absl::IsDeadlineExceeded(answer.status())) {
    observation.set_ending(v1::ENDING_TIMED_OUT);
    observation.set_problem(
        absl::StrCat("the run was not over ", absl::FormatDuration(deadline),
                     " after its start and was ended as a whole"));
    return response;
  }
  observation.set_ending(v1::ENDING_INTERRUPTED);
  observation.set_problem(
      absl::IsCancelled(answer.status())
          ? "cancelled"
          : absl::StrCat("the run unit ended without an answer: ",
                         MessageOf(answer.status()),
                         "; 'journalctl -u twinpath-",
                         path == kOciSocket ? "oci" : "run", "@*' says why"));
  return response;
}

}  // namespace twinpath::runner
