// The environment of each path. Every run is a new process that starts without
// any JIT variable; these functions then set exactly what the path needs:
//
//   native   CUDA_DISABLE_PTX_JIT=1 CUDA_CACHE_DISABLE=1
//            (with the cache on, a result compiled earlier would pass)
//   ptx-jit  CUDA_FORCE_PTX_JIT=1 CUDA_CACHE_DISABLE=1
//            repeated as proof, or traced, with CUDA_CACHE_PATH=<empty folder>
//            instead of the cache switch: files there show that something was
//            compiled
//   plain    CUDA_CACHE_PATH=<empty folder>
//
// and for all CUDA_DEVICE_ORDER=PCI_BUS_ID, CUDA_VISIBLE_DEVICES=<UUIDs>,
// CUDA_LOG_FILE=<file>. Pure functions; nothing here touches this process's own
// environment.

#ifndef TWINPATH_RUNNER_PATHS_H_
#define TWINPATH_RUNNER_PATHS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {

// The seven variables that steer just-in-time compilation and its cache.
absl::Span<const absl::string_view> JitVariables();
bool IsJitVariable(absl::string_view name);

// Places the environment refers to, as the process sees them.
struct RunFolders {
  // Writable folder; HOME and TMPDIR's parent.
  std::string home;
  // Empty cache folder.
  std::string cache;
  // File for CUDA_LOG_FILE.
  std::string driver_log;
  // LD_LIBRARY_PATH for the driver; empty: not set (see DriverFolder()).
  std::string driver_folder;
};

// Whether the path's variables point CUDA_CACHE_PATH at the empty folder.
// `jit_proof`: the repeat as proof, or traced.
bool UsesCacheFolder(v1::Path path, bool jit_proof);

// Refuses variables of an entry that would decide what the run proves: LD_*,
// CUDA switches and everything the runner sets itself. INVALID_ARGUMENT names
// the variable.
absl::Status CheckEntryEnvironment(const v1::Entry& entry);

// Whether `uuid` can be the UUID of a GPU or MIG instance: letters, digits, '-'
// and '/'. INVALID_ARGUMENT otherwise, beginning with "TP106". The caller of a
// run names GPUs unsigned, and the names become part of its environment.
absl::Status CheckGpuUuid(absl::string_view uuid);

// Exactly the variables of the run's process, sorted by name. INVALID_ARGUMENT
// for a GPU that CheckGpuUuid refuses, an entry environment that
// CheckEntryEnvironment refuses, any variable whose name is none or whose value
// holds a zero byte, or a path that is not one of the three (unless
// bare_environment is set).
absl::StatusOr<std::vector<v1::EnvironmentVariable>> RunEnvironment(
    const v1::RunRequest& request, const RunFolders& folders);

// Time limit of an entry on a path: its timeout (default 60 s); on ptx-jit its
// jit_timeout, by default ten times the timeout and at least 15 minutes.
absl::Duration TimeLimit(const v1::Entry& entry, v1::Path path);

// "native", "ptx-jit", "plain"; "unspecified" otherwise.
absl::string_view PathName(v1::Path path);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_PATHS_H_
