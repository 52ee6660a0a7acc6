// All paths of one entry on one GPU, in order, each in a folder of its own that
// is removed afterwards. A ptx-jit run that exits as expected is repeated with
// an empty cache folder: files left there prove that PTX was compiled.
//
// Where the entry is traced, runs are repeated with tracing, so that the runs
// themselves stay what users get: the plain one (the native one where there is
// no plain one), and any that failed, to see whose kernel it was. The repeat
// that proves compilation is itself traced, and repeated without where tracing
// changed how it ended.
//
// Results that differ between native and ptx-jit may vary by themselves: a
// program may print times. Where the entry does not say how they are compared
// and the plain run shows nothing about it (it compiled, or was not made),
// native is run once more.

#ifndef TWINPATH_RUNNER_SEQUENCE_H_
#define TWINPATH_RUNNER_SEQUENCE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runner/device_watch.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {

// All may be empty.
struct AttemptHooks {
  // Runs one attempt, at most so long. Empty:
  // RunEntryInChild.
  std::function<v1::RunResponse(const v1::RunRequest&, absl::Duration,
                                const std::function<bool()>& cancelled)>
      run;
  // Called before a process starts; the agent syncs the attempt to disk here.
  // An error keeps the attempt from starting: it becomes SKIPPED with the
  // error as its problem, and the result incomplete.
  std::function<absl::Status(const v1::RunRequest&)> before;
  // Called with the finished observation.
  std::function<void(const v1::Observation&)> after;
  // Polled; true ends the sequence, the result is incomplete.
  std::function<bool()> cancelled;
  // Watches the GPUs around each attempt (device_watch.h).
  DeviceWatchStarter watch;
  // Conditions of the host now; taken before and after each attempt.
  std::function<v1::Conditions()> conditions;
  // Driver.jit_cache_built of the host, kept beside what the cache showed.
  std::string jit_cache_built;
  // Whether this host can trace launches. Empty: as CanTrace().
  std::function<bool()> can_trace;
  // Folder in which the work folders are made. Empty: $TMPDIR or /tmp.
  std::string work_parent;
};

// Whether the trace libraries are installed and there is a CUPTI on this host.
bool CanTrace();

// Whether runs of the entry are repeated with tracing: where it asks for it
// (trace or must_launch); never where it says so or is no command; else where
// `can_trace`.
bool IsTraced(const v1::Entry& entry, bool can_trace);

// Runs `paths` in order and returns the result with result_id, observations,
// complete, problems and finish_time set; cell and lease ids, staged digests
// and the conditions digest are the caller's.
v1::CellResult RunEntry(const v1::Entry& entry,
                        const std::vector<v1::Path>& paths,
                        const std::vector<std::string>& gpu_uuids,
                        const std::string& artifact_dir,
                        const AttemptHooks& hooks);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_SEQUENCE_H_
