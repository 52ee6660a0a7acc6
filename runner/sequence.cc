#include "runner/sequence.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "runner/paths.h"
#include "runner/run.h"
#include "runner/trace_result.h"
#include "runner/trace_setup.h"

namespace twinpath::runner {
namespace {

// What a run may take beyond its entry's limit: starting, ending, reading
// back.
constexpr absl::Duration kOverhead = absl::Seconds(60);
// Unpacking an oci_image of tens of gigabytes.
constexpr absl::Duration kImageOverhead = absl::Minutes(30);

void AddProblem(absl::string_view code, absl::string_view detail,
                v1::CellResult& result) {
  v1::Reason& reason = *result.add_problems();
  reason.set_code(std::string(code));
  reason.set_detail(std::string(detail));
}

// What the run's child cannot know: the host around it.
void AddSurroundings(const AttemptHooks& hooks, const v1::Conditions& before,
                     const v1::Conditions& after, v1::Observation& run) {
  if (run.has_cache()) {
    run.mutable_cache()->set_driver_built(hooks.jit_cache_built);
  }
  if (!hooks.conditions) return;
  *run.mutable_conditions_before() = before;
  *run.mutable_conditions_after() = after;
}

// One attempt; false if the sequence is over.
bool RunAttempt(v1::RunRequest request, const AttemptHooks& hooks,
                v1::CellResult& result) {
  request.set_attempt_id(RandomHex(16));
  v1::Observation observation;
  observation.set_attempt_id(request.attempt_id());
  observation.set_path(request.path());
  observation.set_jit_proof(request.jit_proof());
  observation.set_traced(request.traced());
  const auto skip = [&](absl::string_view why) {
    // What tracing costs is the trace, not the result.
    if (request.traced() && !request.jit_proof()) return true;
    observation.set_ending(v1::ENDING_SKIPPED);
    observation.set_problem(std::string(why));
    *result.add_observations() = observation;
    AddProblem("TP316", why, result);
    return false;
  };
  if (hooks.cancelled && hooks.cancelled()) return skip("cancelled");
  absl::StatusOr<TempDirectory> work = TempDirectory::Make(hooks.work_parent);
  if (!work.ok()) {
    return skip(absl::StrCat("work folder: ", MessageOf(work.status())));
  }
  request.set_work_directory(work->path());
  if (hooks.before) {
    if (const absl::Status status = hooks.before(request); !status.ok()) {
      return skip(MessageOf(status));
    }
  }
  v1::Conditions before;
  if (hooks.conditions) before = hooks.conditions();
  std::function<v1::DeviceWatch()> end_watch;
  if (hooks.watch && request.gpu_uuids_size() > 0) {
    end_watch =
        hooks.watch({request.gpu_uuids().begin(), request.gpu_uuids().end()});
  }
  const absl::Duration limit =
      TimeLimit(request.entry(), request.path()) + kOverhead +
      (request.entry().kind() == v1::ENTRY_KIND_OCI ? kImageOverhead
                                                    : absl::ZeroDuration()) +
      (request.traced() ? kTraceTime : absl::ZeroDuration());
  v1::RunResponse response =
      hooks.run ? hooks.run(request, limit, hooks.cancelled)
                : RunEntryInChild(request, limit, hooks.cancelled);
  observation = std::move(*response.mutable_observation());
  if (response.has_image_loads()) {
    *result.mutable_image_loads() = std::move(*response.mutable_image_loads());
  }
  if (end_watch) *observation.mutable_devices() = end_watch();
  v1::Conditions after;
  if (hooks.conditions) after = hooks.conditions();
  AddSurroundings(hooks, before, after, observation);
  for (v1::ToolchainCheck& check : *response.mutable_toolchain()) {
    // Its runs were made in this attempt.
    for (v1::Observation& run : *check.mutable_runs()) {
      AddSurroundings(hooks, before, after, run);
    }
    *result.add_toolchain() = std::move(check);
  }
  *result.add_observations() = observation;
  if (hooks.after) hooks.after(observation);
  // What tracing costs is the trace, not the result.
  if (request.traced()) return true;
  if (observation.ending() == v1::ENDING_INTERRUPTED) {
    AddProblem("TP307", observation.problem(), result);
    return false;
  }
  for (const absl::string_view code :
       {"TP114", "TP130", "TP134", "TP135", "TP136"}) {
    // The other paths would meet the same host; the result still decides the
    // cell: this host cannot run it, or may not.
    if (observation.ending() == v1::ENDING_NOT_STARTED &&
        absl::StartsWith(observation.problem(), code)) {
      AddProblem(code, observation.problem(), result);
    }
  }
  return true;
}

bool EndedAsExpected(const v1::Entry& entry,
                     const v1::Observation& observation) {
  return observation.ending() == v1::ENDING_EXITED &&
         observation.exit_code() == entry.expected_exit();
}

const v1::Observation& Last(const v1::CellResult& result) {
  return result.observations(result.observations_size() - 1);
}

// The repeats that one path's run asks for; false if the sequence is over.
bool RunRepeats(v1::RunRequest request, bool traced, bool trace_success,
                const AttemptHooks& hooks, v1::CellResult& result) {
  const v1::Observation first = Last(result);
  const bool good = EndedAsExpected(request.entry(), first);
  if (request.path() == v1::PATH_PTX_JIT && good) {
    request.set_jit_proof(true);
    if (traced) {
      request.set_traced(true);
      if (!RunAttempt(request, hooks, result)) return false;
      if (EndedAsExpected(request.entry(), Last(result))) return true;
      request.set_traced(false);
    }
    return RunAttempt(request, hooks, result);
  }
  // One that was ended at its time limit would be again.
  const bool failed = !good && (first.ending() == v1::ENDING_EXITED ||
                                first.ending() == v1::ENDING_SIGNALED);
  if (!traced || !(failed || (good && trace_success))) return true;
  request.set_traced(true);
  return RunAttempt(request, hooks, result);
}

// The run of `path` that is no proof and not traced, if it ended as expected.
const v1::Observation* GoodRun(const v1::Entry& entry,
                               const v1::CellResult& result, v1::Path path) {
  for (const v1::Observation& run : result.observations()) {
    if (run.path() == path && !run.jit_proof() && !run.traced()) {
      return EndedAsExpected(entry, run) ? &run : nullptr;
    }
  }
  return nullptr;
}

// Whether native and forced JIT left other bytes in a part that the entry says
// nothing about, and no plain run of the native code is there that would show
// whether it varies by itself.
bool NeedsRepeat(const v1::Entry& entry, const v1::CellResult& result) {
  const v1::Observation* native = GoodRun(entry, result, v1::PATH_NATIVE);
  const v1::Observation* forced = GoodRun(entry, result, v1::PATH_PTX_JIT);
  if (entry.has_compare() || native == nullptr || forced == nullptr) {
    return false;
  }
  bool differ =
      !entry.has_expected_output() &&
      native->stdout().digest().sha256() != forced->stdout().digest().sha256();
  for (const v1::ExpectedFile& expected : entry.expected_files()) {
    if (expected.has_content()) continue;
    const auto digest = [&expected](const v1::Observation& run) {
      for (const v1::OutputFile& file : run.files()) {
        if (file.name() == expected.name()) {
          return file.content().digest().sha256();
        }
      }
      return std::string();
    };
    differ |= digest(*native) != digest(*forced);
  }
  if (!differ) return false;
  const v1::Observation* plain = GoodRun(entry, result, v1::PATH_PLAIN);
  return plain == nullptr || !plain->cache().observed() ||
         plain->cache().files() > 0;
}

// Native once more, where NeedsRepeat says so; false if the sequence is not
// complete by it. The result is whole without: a repeat that did not come to an
// end of its own is left out, but for what it says of a changed artifact.
bool RepeatNative(const v1::RunRequest& request, const AttemptHooks& hooks,
                  v1::CellResult& result) {
  v1::CellResult repeat;
  const bool complete = RunAttempt(request, hooks, repeat);
  const v1::Observation& run = Last(repeat);
  const bool no_end = run.ending() == v1::ENDING_SKIPPED ||
                      run.ending() == v1::ENDING_INTERRUPTED ||
                      run.ending() == v1::ENDING_NOT_STARTED;
  if (no_end && !absl::StartsWith(run.problem(), "TP405")) return true;
  result.MergeFrom(repeat);
  return complete;
}

}  // namespace

bool CanTrace() { return CheckTraceLibraries().ok() && !FindCupti().empty(); }

bool IsTraced(const v1::Entry& entry, bool can_trace) {
  // A container shows neither the libraries nor the folder.
  if (entry.kind() != v1::ENTRY_KIND_UNSPECIFIED) return false;
  if (entry.must_launch_size() > 0 ||
      entry.trace() == v1::TRACE_RULE_REQUIRED) {
    return true;
  }
  return entry.trace() != v1::TRACE_RULE_OFF && can_trace;
}

v1::CellResult RunEntry(const v1::Entry& entry,
                        const std::vector<v1::Path>& paths,
                        const std::vector<std::string>& gpu_uuids,
                        const std::string& artifact_dir,
                        const AttemptHooks& hooks) {
  v1::CellResult result;
  result.set_result_id(RandomHex(16));
  bool complete = true;
  const bool traced =
      IsTraced(entry, hooks.can_trace ? hooks.can_trace() : CanTrace());
  const bool has_plain =
      std::find(paths.begin(), paths.end(), v1::PATH_PLAIN) != paths.end();
  // Images and toolchains are looked at once; they have no path of their own.
  const bool once = entry.kind() == v1::ENTRY_KIND_IMAGES ||
                    entry.kind() == v1::ENTRY_KIND_TOOLCHAIN;
  const auto request_of = [&](v1::Path path) {
    v1::RunRequest request;
    request.set_path(path);
    *request.mutable_entry() = entry;
    for (const std::string& uuid : gpu_uuids) request.add_gpu_uuids(uuid);
    request.set_artifact_directory(artifact_dir);
    return request;
  };
  for (const v1::Path path :
       once ? std::vector<v1::Path>{v1::PATH_PLAIN} : paths) {
    const v1::RunRequest request = request_of(path);
    complete = RunAttempt(request, hooks, result);
    if (!complete || once) break;
    complete = RunRepeats(
        request, traced,
        path == v1::PATH_PLAIN || (path == v1::PATH_NATIVE && !has_plain),
        hooks, result);
    if (!complete) break;
  }
  if (complete && !once && NeedsRepeat(entry, result)) {
    complete = RepeatNative(request_of(v1::PATH_NATIVE), hooks, result);
  }
  result.set_complete(complete);
  const absl::Time now = absl::Now();
  result.mutable_finish_time()->set_seconds(absl::ToUnixSeconds(now));
  return result;
}

}  // namespace twinpath::runner
