#include "agent/host_processor.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/fault_point.h"
#include "agent/image_predictions.h"
#include "agent/staging.h"
#include "agent/time_proto.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status.h"
#include "compat/conditions.h"
#include "runner/paths.h"
#include "runner/run_unit.h"

namespace twinpath::agent {
namespace {

CellOutcome Refused(v1::Reason reason) {
  CellOutcome outcome;
  outcome.refusal = std::move(reason);
  return outcome;
}

// Nothing was started; the host could not do its part.
CellOutcome Incomplete(const ClaimedLease& claimed, absl::string_view code,
                       absl::string_view detail, const Clock& clock) {
  CellOutcome outcome;
  outcome.result = NewResult(claimed, clock);
  outcome.result->set_complete(false);
  *outcome.result->add_problems() = MakeAgentReason(code, detail);
  return outcome;
}

CellOutcome NotStaged(const ClaimedLease& claimed, const absl::Status& status,
                      const Clock& clock) {
  Log(LogLevel::kError, "an artifact cannot be put on this host",
      {{"cell", claimed.lease.cell_id()},
       {"why", std::string(MessageOf(status))}});
  return Incomplete(claimed, "TP115", MessageOf(status), clock);
}

std::vector<v1::Path> PathsOf(const v1::Lease& lease) {
  std::vector<v1::Path> paths;
  for (const int path : lease.paths()) {
    paths.push_back(static_cast<v1::Path>(path));
  }
  return paths;
}

// A GPU of the cell that another process computes on; nothing: none.
std::optional<v1::Reason> BusyGpu(const v1::HostFacts& facts,
                                  const std::vector<std::string>& uuids) {
  for (const v1::Gpu& gpu : facts.gpus()) {
    if (gpu.compute_processes() > 0 &&
        std::find(uuids.begin(), uuids.end(), gpu.uuid()) != uuids.end()) {
      return MakeAgentReason("TP111", absl::StrCat("GPU ", gpu.uuid(), " has ",
                                                   gpu.compute_processes(),
                                                   " compute process(es)"));
    }
  }
  return std::nullopt;
}

v1::Observation StartOf(const v1::RunRequest& request, const Clock& clock) {
  v1::Observation start;
  start.set_attempt_id(request.attempt_id());
  start.set_path(request.path());
  start.set_jit_proof(request.jit_proof());
  start.set_traced(request.traced());
  start.set_gpu_uuid(absl::StrJoin(request.gpu_uuids(), ","));
  *start.mutable_start_time() = ToProto(clock.Now());
  return start;
}

// Slowest that files are taken to go to the run unit, which reads and hashes
// them anew for each run.
constexpr uint64_t kStagingBytesPerSecond = 50 << 20;

bool IsSocket(const std::string& path) {
  struct stat info;
  return !path.empty() && stat(path.c_str(), &info) == 0 &&
         S_ISSOCK(info.st_mode);
}

// Runs of this lease in the unit behind `socket`, which takes the entry from
// the signed release and the files from `artifact_folder`.
decltype(runner::AttemptHooks::run) RunsInUnit(
    const std::string& socket, const v1::Lease& lease,
    const std::string& artifact_folder) {
  return [socket, &lease, artifact_folder](
             const v1::RunRequest& run, absl::Duration limit,
             const std::function<bool()>& cancelled) {
    v1::UnitRunRequest request;
    request.set_attempt_id(run.attempt_id());
    request.set_path(run.path());
    request.set_jit_proof(run.jit_proof());
    request.set_traced(run.traced());
    request.set_entry(lease.entry().name());
    *request.mutable_gpu_uuids() = run.gpu_uuids();
    request.set_output_limit_bytes(run.output_limit_bytes());
    *request.mutable_release() = lease.release();
    *request.mutable_release()->mutable_artifact() = lease.artifact();
    *request.mutable_envelope() = lease.envelope();
    uint64_t bytes = 0;
    for (const v1::ArtifactFile& file : lease.artifact().files()) {
      bytes += file.size_bytes();
    }
    return runner::RunInUnit(
        socket, request,
        [&](const v1::ArtifactFile& file) {
          return OpenRegularFile(JoinPath(artifact_folder, file.name()));
        },
        limit + absl::Seconds(bytes / kStagingBytesPerSecond), cancelled);
  };
}

// Runs of this lease in bubblewrap: of the entry in the signed release, where
// this host trusts it. The files are compared with the lease's manifest, which
// is the release's, before each run.
decltype(runner::AttemptHooks::run) SignedRuns(
    const HostProcessorOptions& options, const v1::Lease& lease) {
  return [&options, &lease](const v1::RunRequest& run, absl::Duration limit,
                            const std::function<bool()>& cancelled) {
    v1::Release release = lease.release();
    *release.mutable_artifact() = lease.artifact();
    const absl::StatusOr<const v1::Entry*> entry = runner::TrustedEntry(
        release, lease.envelope(), lease.entry().name(), options.trust);
    if (!entry.ok()) {
      v1::RunResponse refused;
      v1::Observation& observation = *refused.mutable_observation();
      observation.set_attempt_id(run.attempt_id());
      observation.set_path(run.path());
      observation.set_jit_proof(run.jit_proof());
      observation.set_traced(run.traced());
      observation.set_ending(v1::ENDING_NOT_STARTED);
      observation.set_problem(std::string(MessageOf(entry.status())));
      return refused;
    }
    v1::RunRequest request = run;
    *request.mutable_entry() = **entry;
    return options.run_child(request, limit, cancelled);
  };
}

// One cell's folder, removed with it.
class CellFolder {
 public:
  explicit CellFolder(std::string path) : path_(std::move(path)) {}
  ~CellFolder() {
    const absl::Status status = RemoveTree(path_);
    if (!status.ok()) {
      Log(LogLevel::kWarning, "a cell's folder cannot be removed",
          {{"folder", path_}, {"why", std::string(MessageOf(status))}});
    }
  }
  CellFolder(const CellFolder&) = delete;
  CellFolder& operator=(const CellFolder&) = delete;
  const std::string& path() const { return path_; }
  // Made by StagedArtifact.
  std::string artifact() const { return JoinPath(path_, "artifact"); }
  std::string runs() const { return JoinPath(path_, "runs"); }

 private:
  const std::string path_;
};

void SetStaged(const StagedArtifact& staged, v1::CellResult* result) {
  result->clear_staged();
  for (const v1::StagedFile& file : staged.staged()) {
    *result->add_staged() = file;
  }
}

}  // namespace

std::optional<v1::Reason> HostProcessor::Reserve(
    const ClaimedLease& claimed, CellControl& control,
    GpuReservations::Hold* hold) const {
  if (options_.gpu_policy != GpuPolicy::kReserved ||
      claimed.gpu_uuids.empty()) {
    return std::nullopt;
  }
  if (options_.reservations == nullptr) {
    return MakeAgentReason("TP137", "this agent has no commands to reserve");
  }
  control.Progress(v1::PATH_UNSPECIFIED, "asking the host for the GPU");
  GpuReservations::Outcome outcome = options_.reservations->Reserve(
      claimed.lease.cell_id(), claimed.gpu_uuids,
      [&control] { return !control.MayStart(); });
  switch (outcome.answer) {
    case GpuReservations::Answer::kGranted:
      *hold = std::move(outcome.hold);
      return std::nullopt;
    case GpuReservations::Answer::kBusy:
      return MakeAgentReason(
          "TP111",
          absl::StrCat("the host does not grant it now: ", outcome.detail));
    case GpuReservations::Answer::kFailed:
      break;
  }
  Log(LogLevel::kWarning, "TP137 reservation-failed",
      {{"cell", claimed.lease.cell_id()}, {"why", outcome.detail}});
  return MakeAgentReason("TP137", outcome.detail);
}

CellOutcome HostProcessor::Process(const ClaimedLease& claimed,
                                   CellControl& control) {
  const v1::Lease& lease = claimed.lease;
  const std::vector<v1::Path> paths = PathsOf(lease);
  const uint32_t wanted = GpusWanted(
      lease.entry(), static_cast<uint32_t>(claimed.gpu_uuids.size()));
  if (!claimed.gpu_uuids.empty() && claimed.gpu_uuids.size() < wanted) {
    CellOutcome outcome;
    outcome.result = NewResult(claimed, clock_);
    for (const v1::Path path : paths) {
      AddNotStarted(
          claimed, path, "TP306",
          absl::StrCat("the entry asks for ", wanted, " GPUs and the host has ",
                       claimed.gpu_uuids.size()),
          clock_, &*outcome.result);
    }
    return outcome;
  }

  // Everything of this cell lies in one new folder.
  const CellFolder folder(
      JoinPath(options_.work_directory, absl::StrCat("cell-", RandomHex(8))));
  const absl::Status status = MakeDirectories(folder.runs(), 0700);
  if (!status.ok()) return NotStaged(claimed, status, clock_);

  control.Progress(
      v1::PATH_UNSPECIFIED,
      absl::StrCat("fetching ", lease.artifact().files_size(), " file(s)"));
  const auto given_up = [&] { return !control.MayStart(); };
  absl::StatusOr<std::unique_ptr<StagedArtifact>> staged =
      StagedArtifact::Stage(lease.artifact(), cache_, source_,
                            folder.artifact(), given_up);
  if (!control.MayStart()) return Refused(control.WhyNot());
  if (absl::IsUnavailable(staged.status()) ||
      absl::IsDeadlineExceeded(staged.status())) {
    // The coordinator is away or starts again. Nothing has started here, so it
    // is no start that failed.
    return Refused(MakeAgentReason("TP115", MessageOf(staged.status())));
  }
  if (!staged.ok()) return NotStaged(claimed, staged.status(), clock_);

  // Look at the host; a GPU that others compute on, or that the host does not
  // grant, is waited for.
  v1::HostFacts before;
  GpuReservations::Hold hold;
  std::optional<v1::Reason> waited_for;
  while (true) {
    std::optional<v1::Reason> busy;
    if (control.MayStart()) busy = Reserve(claimed, control, &hold);
    if (!busy && control.MayStart()) {
      before = facts_.Look();
      if (options_.gpu_policy == GpuPolicy::kIdle) {
        busy = BusyGpu(before, claimed.gpu_uuids);
      }
    }
    if (!control.MayStart()) {
      // A pause says more than what was waited for; a lease that ran out less.
      const v1::Reason why = control.WhyNot();
      CellOutcome outcome =
          Refused(waited_for && why.code() != "TP138" ? *waited_for : why);
      outcome.hold = std::move(hold);
      return outcome;
    }
    if (!busy) break;
    waited_for = std::move(busy);
    control.Progress(v1::PATH_UNSPECIFIED,
                     absl::StrCat("waiting: ", waited_for->detail()));
    control.Wait(options_.busy_pause);
  }
  if (before.gpu_probe().state() == v1::PROBE_STATE_HUNG) {
    CellOutcome outcome =
        Incomplete(claimed, "TP103", before.gpu_probe().error(), clock_);
    outcome.hold = std::move(hold);
    return outcome;
  }
  const v1::Conditions conditions = compat::ConditionsOf(before);

  CellOutcome outcome;
  outcome.hold = std::move(hold);
  v1::CellResult head = NewResult(claimed, clock_);
  *head.mutable_conditions_digest() = conditions.digest();
  if (const absl::Status verified = (*staged)->Verify(); !verified.ok()) {
    Log(LogLevel::kError, "a staged file is not the file dispatched",
        {{"cell", lease.cell_id()}, {"why", std::string(MessageOf(verified))}});
    outcome.result = std::move(head);
    for (const v1::Path path : paths) {
      AddNotStarted(claimed, path, "TP405", MessageOf(verified), clock_,
                    &*outcome.result);
    }
    SetStaged(**staged, &*outcome.result);
    return outcome;
  }
  SetStaged(**staged, &head);

  // The head is on disk before the permission is taken: behind it, whatever
  // happens, the cell can be accounted for.
  absl::StatusOr<std::unique_ptr<CellJournal>> journal = journal_.Begin(head);
  if (!journal.ok()) {
    CellOutcome failed = NotStaged(claimed, journal.status(), clock_);
    failed.hold = std::move(outcome.hold);
    return failed;
  }
  outcome.journal = *std::move(journal);
  FaultPoint("worker.before-start");
  const std::optional<std::string> lease_id = control.Start();
  if (!lease_id) {
    (void)outcome.journal->Close();
    CellOutcome refused = Refused(control.WhyNot());
    refused.hold = std::move(outcome.hold);
    return refused;
  }
  FaultPoint("worker.started");

  absl::Status tampered;
  runner::AttemptHooks hooks;
  hooks.work_parent = folder.runs();
  hooks.jit_cache_built = before.driver().jit_cache_built();
  hooks.cancelled = [&] { return control.Stopping(); };
  hooks.watch = options_.watch;
  hooks.before = [&](const v1::RunRequest& request) -> absl::Status {
    if (absl::Status status = (*staged)->Verify(); !status.ok()) {
      tampered = status;
      return absl::DataLossError(absl::StrCat("TP405 ", MessageOf(status)));
    }
    TWINPATH_RETURN_IF_ERROR(
        outcome.journal->BeforeAttempt(StartOf(request, clock_)));
    control.Progress(request.path(),
                     absl::StrCat(runner::PathName(request.path()),
                                  request.jit_proof() ? ", as proof" : ""));
    return absl::OkStatus();
  };
  hooks.after = [&](const v1::Observation& observation) {
    FaultPoint("worker.ran");
    const absl::Status status = outcome.journal->AfterAttempt(observation);
    if (!status.ok()) {
      // Not lost yet: it is in the result, which goes to the spool.
      Log(LogLevel::kError, "an observation cannot be journalled",
          {{"why", std::string(MessageOf(status))}});
    }
  };
  if (IsSocket(options_.run_socket)) {
    // Containers have a unit of their own, and where it does not listen the
    // answer is a refusal, too.
    hooks.run = RunsInUnit(lease.entry().kind() == v1::ENTRY_KIND_OCI
                               ? options_.oci_socket
                               : options_.run_socket,
                           lease, folder.artifact());
  } else if (!options_.allow_unsigned_runs) {
    hooks.run = SignedRuns(options_, lease);
  }
  v1::CellResult result = options_.run_entry(
      lease.entry(), paths, claimed.gpu_uuids, folder.artifact(), hooks);
  if (result.has_image_loads()) {
    PredictImageLoads(lease.artifact(), folder.artifact(), before,
                      *result.mutable_image_loads());
  }

  const v1::Conditions after = compat::ConditionsOf(facts_.Look());
  for (v1::Observation& observation : *result.mutable_observations()) {
    *observation.mutable_conditions_before() = conditions;
    *observation.mutable_conditions_after() = after;
    if (observation.gpu_uuid().empty()) {
      observation.set_gpu_uuid(absl::StrJoin(claimed.gpu_uuids, ","));
    }
  }
  for (v1::ToolchainCheck& check : *result.mutable_toolchain()) {
    for (v1::Observation& run : *check.mutable_runs()) {
      *run.mutable_conditions_before() = conditions;
      *run.mutable_conditions_after() = after;
    }
  }
  result.set_result_id(head.result_id());
  result.set_cell_id(head.cell_id());
  result.set_lease_id(*lease_id);
  *result.mutable_conditions_digest() = conditions.digest();
  *result.mutable_finish_time() = ToProto(clock_.Now());
  SetStaged(**staged, &result);
  if (!tampered.ok()) {
    // Seen on this host, with its digest: that decides the cell.
    result.set_complete(true);
    *result.add_problems() = MakeAgentReason("TP405", MessageOf(tampered));
  } else if (control.Stopping() && !result.complete()) {
    *result.add_problems() = MakeAgentReason(
        "TP307", "the agent was stopped or paused during the run");
  }
  outcome.result = std::move(result);
  return outcome;
}

}  // namespace twinpath::agent
