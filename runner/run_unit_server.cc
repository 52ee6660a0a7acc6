#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/status.h"
#include "base/text.h"
#include "runner/paths.h"
#include "runner/run_parts.h"
#include "runner/run_unit.h"
#include "runner/run_watch.h"
#include "runner/trusted_release.h"
#include "runner/unit_socket.h"

namespace twinpath::runner {
namespace {

constexpr size_t kMaxRequestBytes = 64 << 20;
// A caller that has connected has its request ready, and its files.
constexpr absl::Duration kPeerPatience = absl::Minutes(1);
constexpr size_t kBlock = 1 << 20;
constexpr char kToldToEnd[] = "told to end";

absl::Status WithCode(absl::string_view code, const absl::Status& status) {
  const absl::string_view message = MessageOf(status);
  if (message.substr(0, 2) == "TP") return status;
  return {status.code(), absl::StrCat(code, " ", message)};
}

// The caller, and who may end the wait for it and the work for it.
struct Caller {
  Patience Wait() const { return Patience::For(kPeerPatience, told_to_end); }
  // UNAVAILABLE when it has gone, CANCELLED when the unit was told to end.
  absl::Status Check() const {
    if (told_to_end && told_to_end()) return absl::CancelledError(kToldToEnd);
    if (PeerIsGone(socket)) {
      return absl::UnavailableError("the caller has gone");
    }
    return absl::OkStatus();
  }

  int socket;
  const std::function<bool()>& told_to_end;
};

// Whether there is nobody to say it to, or no need.
bool EndsServing(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status);
}

// Copies what `from` holds into `to` and compares it with the manifest. Errors
// as Caller::Check, besides.
absl::Status CopyVerified(const Caller& caller, int from,
                          const v1::ArtifactFile& file, int to) {
  struct stat info;
  if (fstat(from, &info) != 0) return ErrnoStatus(errno, "fstat");
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError("it is no regular file");
  }
  TWINPATH_ASSIGN_OR_RETURN(const Sha256 expected,
                            Sha256::FromRaw(file.digest().sha256()));
  // Where its blocks are shared the copy is read, so that nothing the caller
  // does to the original counts.
  const bool shared = ioctl(to, FICLONE, from) == 0;
  if (shared && fstat(to, &info) != 0) return ErrnoStatus(errno, "fstat");
  const auto wrong_size = [&](uint64_t size) {
    return absl::DataLossError(absl::StrCat("it has ", size, " bytes, not the ",
                                            file.size_bytes(), " signed"));
  };
  if (static_cast<uint64_t>(info.st_size) != file.size_bytes()) {
    return wrong_size(static_cast<uint64_t>(info.st_size));
  }
  Sha256Stream digest;
  uint64_t at = 0;
  while (true) {
    TWINPATH_RETURN_IF_ERROR(caller.Check());
    TWINPATH_ASSIGN_OR_RETURN(const std::string block,
                              PreadUpTo(shared ? to : from, at, kBlock));
    if (block.empty()) break;
    at += block.size();
    if (at > file.size_bytes()) return wrong_size(at);
    digest.Update(block);
    if (!shared) TWINPATH_RETURN_IF_ERROR(WriteAll(to, block));
  }
  if (at != file.size_bytes()) return wrong_size(at);
  if (const Sha256 actual = digest.Finish(); actual != expected) {
    return absl::DataLossError(
        absl::StrCat("it is ", actual.Hex(), ", not ", expected.Hex()));
  }
  if (fchmod(to, (file.mode() & 0777) | 0400) != 0) {
    return ErrnoStatus(errno, "setting its mode");
  }
  return absl::OkStatus();
}

absl::Status TakeFile(const Caller& caller, int from,
                      const v1::ArtifactFile& file, const std::string& folder) {
  // Names were checked with the manifest: relative, no "..", none below a link.
  const std::string path = JoinPath(folder, file.name());
  TWINPATH_RETURN_IF_ERROR(MakeDirectories(DirName(path), 0755));
  const UniqueFd to(open(
      path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!to.valid()) return ErrnoStatus(errno, "making it");
  return CopyVerified(caller, from, file, to.get());
}

// Asks for the artifact's files and puts them into `folder`.
absl::Status TakeFiles(const Caller& caller, const v1::Artifact& artifact,
                       const std::string& folder) {
  std::vector<const v1::ArtifactFile*> files;
  for (const v1::ArtifactFile& file : artifact.files()) {
    if (file.type() == v1::FILE_TYPE_REGULAR) files.push_back(&file);
  }
  for (size_t first = 0; first < files.size();) {
    const size_t count = std::min(files.size() - first, kMaxDescriptors);
    v1::UnitRunReply reply;
    reply.mutable_files_wanted()->set_first(static_cast<uint32_t>(first));
    reply.mutable_files_wanted()->set_count(static_cast<uint32_t>(count));
    TWINPATH_RETURN_IF_ERROR(WriteMessage(caller.socket, caller.Wait(), reply));
    TWINPATH_ASSIGN_OR_RETURN(
        const std::vector<UniqueFd> descriptors,
        ReceiveDescriptors(caller.socket, count, caller.Wait()));
    for (size_t i = 0; i < count; ++i) {
      const v1::ArtifactFile& file = *files[first + i];
      if (const absl::Status status =
              TakeFile(caller, descriptors[i].get(), file, folder);
          !status.ok()) {
        if (EndsServing(status)) return status;
        const absl::string_view code =
            absl::IsDataLoss(status) || absl::IsInvalidArgument(status)
                ? "TP405 digest-differs: file"
                : "TP115 artifact-not-staged: file";
        return WithCode(absl::StrCat(code, " ", Printable(file.name()), ":"),
                        status);
      }
    }
    first += count;
  }
  // Links last: no file is ever written through one.
  for (const v1::ArtifactFile& file : artifact.files()) {
    if (file.type() != v1::FILE_TYPE_SYMLINK) continue;
    const std::string path = JoinPath(folder, file.name());
    TWINPATH_RETURN_IF_ERROR(MakeDirectories(DirName(path), 0755));
    if (symlink(file.link_target().c_str(), path.c_str()) != 0) {
      return ErrnoStatus(errno, absl::StrCat("TP115 artifact-not-staged: link ",
                                             Printable(file.name())));
    }
  }
  return absl::OkStatus();
}

// Whether this unit is the one for such entries.
absl::Status CheckKind(v1::EntryKind kind, bool containers) {
  if ((kind == v1::ENTRY_KIND_OCI) == containers) return absl::OkStatus();
  return absl::FailedPreconditionError(
      containers
          ? "TP114 sandbox-unavailable: twinpath-oci@.service runs entries of "
            "oci_images and no others"
          : "TP114 sandbox-unavailable: entries of oci_images run in "
            "twinpath-oci@.service, which listens at /run/twinpath/oci.sock");
}

// OK with the observation where something can be said about the run; an error
// only where there is nobody to say it to.
absl::StatusOr<v1::RunResponse> Run(const Caller& caller,
                                    const v1::UnitRunRequest& request,
                                    const RunServerOptions& options) {
  v1::RunResponse response;
  v1::Observation& observation = *response.mutable_observation();
  observation.set_attempt_id(request.attempt_id());
  observation.set_path(request.path());
  observation.set_jit_proof(request.jit_proof());
  observation.set_traced(request.traced());
  observation.set_ending(v1::ENDING_NOT_STARTED);
  const auto refuse = [&](const absl::Status& status) {
    observation.set_problem(std::string(MessageOf(status)));
    return response;
  };
  const absl::StatusOr<const v1::Entry*> entry = TrustedEntry(
      request.release(), request.envelope(), request.entry(), options.trust);
  if (!entry.ok()) return refuse(entry.status());
  if (const absl::Status status =
          CheckKind((*entry)->kind(), options.containers);
      !status.ok()) {
    return refuse(status);
  }
  // Not signed: who asks names them.
  for (const std::string& uuid : request.gpu_uuids()) {
    if (const absl::Status status = CheckGpuUuid(uuid); !status.ok()) {
      return refuse(status);
    }
  }
  const absl::StatusOr<TempDirectory> folder =
      TempDirectory::Make(options.work_parent);
  if (!folder.ok()) {
    return refuse(
        WithCode("TP115 artifact-not-staged: work folder:", folder.status()));
  }
  uint64_t bytes = 0;
  for (const v1::ArtifactFile& file : request.release().artifact().files()) {
    bytes += std::min(file.size_bytes(), kMaxRunDiskBytes);
  }
  if (bytes > DiskLimit()) {
    return refuse(absl::ResourceExhaustedError(
        absl::StrCat("TP115 artifact-not-staged: its files have more than the ",
                     HumanBytes(DiskLimit()), " a run may have on disk")));
  }
  const std::string artifact = JoinPath(folder->path(), "artifact");
  const std::string work = JoinPath(folder->path(), "work");
  for (const std::string& path : {artifact, work}) {
    if (const absl::Status status = MakeDirectories(path, 0700); !status.ok()) {
      return refuse(WithCode("TP115 artifact-not-staged:", status));
    }
  }
  if (const absl::Status status =
          TakeFiles(caller, request.release().artifact(), artifact);
      !status.ok()) {
    if (EndsServing(status)) return status;
    return refuse(WithCode("TP115 artifact-not-staged:", status));
  }
  v1::RunRequest run;
  run.set_attempt_id(request.attempt_id());
  run.set_path(request.path());
  run.set_jit_proof(request.jit_proof());
  run.set_traced(request.traced());
  *run.mutable_entry() = **entry;
  *run.mutable_gpu_uuids() = request.gpu_uuids();
  run.set_output_limit_bytes(request.output_limit_bytes());
  run.set_artifact_directory(artifact);
  run.set_work_directory(work);
  v1::RunResponse seen = options.run(run);
  const v1::Ending ending = seen.observation().ending();
  if ((ending == v1::ENDING_INTERRUPTED || ending == v1::ENDING_NOT_STARTED) &&
      options.told_to_end && options.told_to_end()) {
    return absl::CancelledError(kToldToEnd);
  }
  return seen;
}

}  // namespace

absl::Status ServeRun(int socket, const RunServerOptions& options) {
  TWINPATH_RETURN_IF_ERROR(CheckPeer(socket, options.peer_user));
  v1::UnitRunRequest request;
  const Caller caller{socket, options.told_to_end};
  TWINPATH_RETURN_IF_ERROR_CTX(
      ReadMessage(socket, caller.Wait(), kMaxRequestBytes, request),
      "the request");
  v1::UnitRunReply reply;
  TWINPATH_ASSIGN_OR_RETURN(*reply.mutable_response(),
                            Run(caller, request, options));
  return WriteMessage(socket, Patience::For(kPeerPatience), reply);
}

absl::Status ReportUnitEnd(int socket, const UnitEnd& end) {
  v1::UnitRunReply reply;
  v1::Observation& observation =
      *reply.mutable_response()->mutable_observation();
  observation.set_sandbox(kUnitSandbox);
  if (end.result == "timeout" && !end.stop_timed_out) {
    observation.set_ending(v1::ENDING_TIMED_OUT);
    observation.set_problem(
        "the unit's limit on time (RuntimeMaxSec) was over before the run was; "
        "the host's unit file sets it");
  } else if (end.result == "oom-kill" ||
             (end.result == "signal" && end.taken > 0)) {
    observation.set_ending(v1::ENDING_SIGNALED);
    observation.set_signal(SIGKILL);
    observation.set_problem(std::string(kTakenForMemory));
  } else {
    return absl::OkStatus();
  }
  return WriteMessage(socket, Patience::For(kPeerPatience), reply);
}

}  // namespace twinpath::runner
