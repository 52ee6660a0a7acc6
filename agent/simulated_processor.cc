#include "agent/simulated_processor.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "agent/time_proto.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "compat/conditions.h"

namespace twinpath::agent {
namespace {

// Virtual durations; nobody waits for them.
constexpr absl::Duration kNativeTime = absl::Milliseconds(20);
constexpr absl::Duration kJitTime = absl::Milliseconds(400);

// "GPU-" and a UUID made from text.
std::string UuidFrom(absl::string_view text) {
  const std::string hex = Sha256Of(text).Hex();
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-",
                      hex.substr(12, 4), "-", hex.substr(16, 4), "-",
                      hex.substr(20, 12));
}

const v1::PathPrediction* Find(const v1::Lease& lease, v1::Path path) {
  for (const v1::PathPrediction& prediction : lease.predictions()) {
    if (prediction.path() == path) return &prediction;
  }
  return nullptr;
}

// What the entry would print if it did what the release expects.
std::string ExpectedOutput(const v1::Entry& entry) {
  switch (entry.expected_output().rule_case()) {
    case v1::ExpectedOutput::kExact:
      return entry.expected_output().exact();
    case v1::ExpectedOutput::kContains:
      return entry.expected_output().contains();
    default:
      return "";
  }
}

void Succeed(const v1::Entry& entry, v1::Observation* observation) {
  observation->set_ending(v1::ENDING_EXITED);
  observation->set_exit_code(entry.expected_exit());
  const std::string output = ExpectedOutput(entry);
  v1::CapturedOutput& out = *observation->mutable_stdout();
  out.set_head(output);
  out.set_total_bytes(output.size());
  out.mutable_digest()->set_sha256(Sha256Of(output).Raw());
}

void Fail(const v1::Entry& entry, const v1::PathPrediction& prediction,
          v1::Observation* observation) {
  const auto with_error = std::find_if(
      prediction.reasons().begin(), prediction.reasons().end(),
      [](const v1::Reason& reason) { return reason.cuda_error() != 0; });
  if (with_error == prediction.reasons().end()) {
    // Fails before any CUDA call: another CPU, a library that is missing.
    observation->set_ending(v1::ENDING_NOT_STARTED);
    const v1::Reason reason =
        prediction.reasons().empty()
            ? MakeAgentReason("TP306", "predicted to fail")
            : prediction.reasons(0);
    observation->set_problem(absl::StrCat(reason.code(), " ", reason.detail()));
    return;
  }
  observation->set_ending(v1::ENDING_EXITED);
  observation->set_exit_code(entry.expected_exit() == 1 ? 2 : 1);
  v1::Reason error = *with_error;
  error.set_code("TP311");
  *observation->add_errors() = std::move(error);
}

v1::Observation Answer(const ClaimedLease& claimed, v1::Path path, bool proof,
                       const Clock& clock) {
  const v1::Entry& entry = claimed.lease.entry();
  v1::Observation observation;
  observation.set_attempt_id(RandomHex(16));
  observation.set_path(path);
  observation.set_jit_proof(proof);
  observation.set_simulated(true);
  observation.set_sandbox("none");
  observation.set_gpu_uuid(absl::StrJoin(claimed.gpu_uuids, ","));
  *observation.mutable_start_time() = ToProto(clock.Now());

  const v1::PathPrediction* prediction = Find(claimed.lease, path);
  const v1::Outcome outcome =
      prediction == nullptr ? v1::OUTCOME_UNSPECIFIED : prediction->outcome();
  absl::Duration duration = kNativeTime;
  switch (outcome) {
    case v1::OUTCOME_NATIVE:
    case v1::OUTCOME_NO_DEVICE_CODE:
      Succeed(entry, &observation);
      break;
    case v1::OUTCOME_JIT:
      Succeed(entry, &observation);
      duration = kJitTime;
      break;
    case v1::OUTCOME_FAILS:
      Fail(entry, *prediction, &observation);
      break;
    default:
      observation.set_ending(v1::ENDING_SKIPPED);
      observation.set_problem(
          "TP316 the model does not know what would happen");
      break;
  }
  *observation.mutable_duration() = ToProto(duration);
  if (path == v1::PATH_PLAIN || proof) {
    v1::CacheEvidence& cache = *observation.mutable_cache();
    cache.set_observed(true);
    cache.set_files(outcome == v1::OUTCOME_JIT ? 2 : 0);
  }
  return observation;
}

}  // namespace

CellOutcome SimulatedProcessor::Process(const ClaimedLease& claimed,
                                        CellControl& control) {
  CellOutcome outcome;
  const std::optional<std::string> lease_id = control.Start();
  if (!lease_id) {
    outcome.refusal = control.WhyNot();
    return outcome;
  }
  const v1::Conditions conditions = compat::ConditionsOf(facts_());
  v1::CellResult result = NewResult(claimed, clock_);
  result.set_lease_id(*lease_id);
  result.set_simulated(true);
  *result.mutable_conditions_digest() = conditions.digest();
  for (const int number : claimed.lease.paths()) {
    const v1::Path path = static_cast<v1::Path>(number);
    *result.add_observations() = Answer(claimed, path, false, clock_);
    const v1::Observation& last =
        result.observations(result.observations_size() - 1);
    if (path == v1::PATH_PTX_JIT && last.ending() == v1::ENDING_EXITED &&
        last.exit_code() == claimed.lease.entry().expected_exit()) {
      *result.add_observations() = Answer(claimed, path, true, clock_);
    }
  }
  for (v1::Observation& observation : *result.mutable_observations()) {
    *observation.mutable_conditions_before() = conditions;
    *observation.mutable_conditions_after() = conditions;
  }
  outcome.result = std::move(result);
  return outcome;
}

absl::StatusOr<std::string> KeptMachineId(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, 256);
  if (absl::IsNotFound(text.status())) {
    const std::string id =
        Sha256Of(absl::StrCat("twinpath kept machine-id\n", RandomHex(32)))
            .Hex();
    TWINPATH_RETURN_IF_ERROR(WriteFileAtomic(path, absl::StrCat(id, "\n")));
    return id;
  }
  TWINPATH_RETURN_IF_ERROR(text.status());
  const std::string id(absl::StripAsciiWhitespace(*text));
  if (!Sha256::FromHex(id).ok()) {
    return absl::DataLossError(
        absl::StrCat(path, " holds no machine id; remove it and the identity"));
  }
  return id;
}

v1::HostFacts SimulatedFacts(v1::HostFacts profile,
                             const std::string& machine_id,
                             const std::string& host_name,
                             const std::string& agent_version) {
  profile.set_simulated(true);
  profile.set_machine_id(machine_id);
  profile.set_boot_id(UuidFrom(absl::StrCat("boot ", machine_id)));
  profile.set_host_name(host_name);
  profile.set_agent_version(agent_version);
  // MIG instances name their parent, so the new names are found by the old.
  for (v1::Gpu& gpu : *profile.mutable_gpus()) {
    const auto own = [&](const std::string& uuid) {
      if (uuid.empty()) return uuid;
      return absl::StrCat(uuid.substr(0, 4) == "MIG-" ? "MIG-" : "GPU-",
                          UuidFrom(absl::StrCat(machine_id, " ", uuid)));
    };
    gpu.set_uuid(own(gpu.uuid()));
    gpu.set_parent_uuid(own(gpu.parent_uuid()));
  }
  return profile;
}

}  // namespace twinpath::agent
