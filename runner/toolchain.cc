#include "runner/toolchain.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "runner/paths.h"
#include "runner/probe.h"
#include "runner/run_parts.h"
#include "runner/toolchain_check.h"
#include "runner/toolchain_parts.h"
#include "runner/toolkit.h"

namespace twinpath::runner {
namespace {

constexpr absl::Duration kProbeTimeout = absl::Minutes(1);
constexpr uint64_t kMostSourceBytes = 1 << 20;
// A result is one message of at most 4 MiB.
constexpr size_t kMostToolkitsOfEntry = 6;
constexpr uint32_t kEntryOutputBytes = 16 << 10;

// A check that ends before its toolkit is asked.
v1::ToolchainCheck Ended(const ToolchainGpu& gpu, absl::string_view step_name,
                         const std::vector<v1::Reason>& reasons) {
  v1::ToolchainCheck check;
  check.set_gpu_uuid(gpu.uuid);
  if (gpu.compute_capability.major() > 0) {
    *check.mutable_compute_capability() = gpu.compute_capability;
  }
  if (gpu.target.number() > 0) *check.mutable_target() = gpu.target;
  v1::ToolchainStep& step = *check.add_steps();
  step.set_name(std::string(step_name));
  step.set_ending(v1::ENDING_SKIPPED);
  for (const v1::Reason& reason : reasons) *step.add_reasons() = reason;
  return check;
}

v1::ProbeResponse AskDriver(const ToolchainOptions& options) {
  if (options.probe) return options.probe();
  v1::ProbeRequest request;
  request.set_driver(true);
  request.set_ptx_isa_ceiling(true);
  ProbeOptions how;
  how.cancelled = options.cancelled;
  absl::StatusOr<v1::ProbeResponse> answer =
      ProbeInChild(request, kProbeTimeout, how);
  if (answer.ok()) return *std::move(answer);
  v1::ProbeResponse none;
  v1::ProbeResult& probe = *none.mutable_driver()->mutable_probe();
  probe.set_state(v1::PROBE_STATE_FAILED);
  probe.set_error(std::string(MessageOf(answer.status())));
  return none;
}

// The source as a file alone in a folder.
absl::Status PutSource(const std::string& named, const std::string& folder) {
  std::string path = named;
  if (path.empty()) {
    TWINPATH_ASSIGN_OR_RETURN(path, FindData("kernels/check.cu"));
  }
  TWINPATH_ASSIGN_OR_RETURN(const std::string text,
                            ReadFile(path, kMostSourceBytes));
  TWINPATH_RETURN_IF_ERROR(MakeDirectories(folder, 0755));
  return WriteFileAtomic(JoinPath(folder, kCheckSource), text, 0644);
}

}  // namespace

std::vector<v1::ToolchainCheck> CheckToolchains(
    const ToolchainOptions& options) {
  const absl::Time deadline = absl::Now() + options.timeout;
  std::vector<ToolchainGpu> gpus;
  std::string jit_cache_built;
  if (options.targets.empty()) {
    if (options.progress) options.progress("asking the driver for its GPUs");
    const v1::ProbeResponse probe = AskDriver(options);
    jit_cache_built = probe.driver().jit_cache_built();
    gpus = GpusToCheck(probe, options.gpu_uuids, options.one_of_each_model);
  } else {
    for (const v1::Target& target : options.targets) {
      gpus.emplace_back().target = target;
    }
  }
  std::vector<std::string> toolkits;
  for (const std::string& named : options.toolkits) {
    const std::string folder = ResolvedPath(named);
    if (std::find(toolkits.begin(), toolkits.end(), folder) == toolkits.end()) {
      toolkits.push_back(folder);
    }
  }
  if (options.toolkits.empty()) {
    toolkits = FindToolkits(options.root, options.environment);
  }

  std::vector<v1::ToolchainCheck> checks;
  const std::string source = JoinPath(options.work_directory, "source");
  const absl::Status put = PutSource(options.source, source);
  for (const ToolchainGpu& gpu : gpus) {
    // A fault of the device or its libraries is settled before anything is
    // compiled.
    if (!gpu.reasons.empty()) {
      checks.push_back(Ended(gpu, "gpu", gpu.reasons));
      continue;
    }
    if (toolkits.empty()) {
      checks.push_back(Ended(
          gpu, "version",
          {ToolchainReason("TP131",
                           "no folder with bin/nvcc on PATH, in CUDA_HOME or "
                           "under /usr/local/cuda*")}));
      continue;
    }
    for (size_t i = 0; i < toolkits.size(); ++i) {
      const std::string& toolkit = toolkits[i];
      if (i >= options.most_toolkits) {
        checks.push_back(Ended(
            gpu, "version",
            {ToolchainReason("TP316", absl::StrCat("not checked: at most ",
                                                   options.most_toolkits,
                                                   " toolkits are"))}));
        checks.back().mutable_toolkit()->set_path(toolkit);
        continue;
      }
      const std::string folder = JoinPath(
          options.work_directory, absl::StrCat("check-", checks.size()));
      absl::Status status = put;
      if (status.ok()) status = MakeDirectories(JoinPath(folder, "tools"));
      if (!status.ok()) {
        checks.push_back(Ended(gpu, "version",
                               {ToolchainReason("TP306", MessageOf(status))}));
        checks.back().mutable_toolkit()->set_path(toolkit);
        continue;
      }
      v1::ToolchainCheck check = CheckToolkit(options, source, folder, toolkit,
                                              gpu, jit_cache_built, deadline);
      if (!gpu.uuid.empty()) {
        v1::ToolchainStep query;
        query.set_name("gpu");
        query.set_ending(v1::ENDING_EXITED);
        check.mutable_steps()->Add(std::move(query));
        std::rotate(check.mutable_steps()->pointer_begin(),
                    check.mutable_steps()->pointer_end() - 1,
                    check.mutable_steps()->pointer_end());
      }
      checks.push_back(std::move(check));
    }
  }
  return checks;
}

v1::RunResponse RunToolchainEntry(const v1::RunRequest& request,
                                  const ProgramRunner& run) {
  v1::RunResponse response;
  v1::Observation& observation = *response.mutable_observation();
  observation.set_attempt_id(request.attempt_id());
  observation.set_path(request.path());
  std::string uuids;
  for (const std::string& uuid : request.gpu_uuids()) {
    absl::StrAppend(&uuids, uuids.empty() ? "" : ",", uuid);
  }
  observation.set_gpu_uuid(uuids);
  const absl::Time start = absl::Now();
  observation.mutable_start_time()->set_seconds(absl::ToUnixSeconds(start));
  ToolchainOptions options;
  options.gpu_uuids.assign(request.gpu_uuids().begin(),
                           request.gpu_uuids().end());
  options.work_directory = request.work_directory();
  options.timeout = TimeLimit(request.entry(), v1::PATH_PLAIN);
  options.run = run;
  options.most_toolkits = kMostToolkitsOfEntry;
  options.output_limit_bytes = kEntryOutputBytes;
  for (const std::string& variable : MinimalEnvironment()) {
    options.environment.push_back(variable);
  }
  for (v1::ToolchainCheck& check : CheckToolchains(options)) {
    *response.add_toolchain() = std::move(check);
  }
  // What it found is in the checks; this says that it came to its end.
  observation.set_ending(v1::ENDING_EXITED);
  SetDuration(absl::Now() - start, observation.mutable_duration());
  for (const v1::ToolchainCheck& check : response.toolchain()) {
    for (const v1::Observation& one : check.runs()) {
      observation.set_sandbox(one.sandbox());
      observation.set_landlock_abi(one.landlock_abi());
    }
  }
  return response;
}

}  // namespace twinpath::runner
