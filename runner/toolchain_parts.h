// The parts of the toolchain check that start nothing: which GPUs there are,
// whether a target is in a list, whether a built file holds what was asked for,
// whether a run ended as it should. Pure functions; thread-safe.

#ifndef TWINPATH_RUNNER_TOOLCHAIN_PARTS_H_
#define TWINPATH_RUNNER_TOOLCHAIN_PARTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "twinpath/v1/common.pb.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/report.pb.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {

// A reason with a code and a detail.
v1::Reason ToolchainReason(absl::string_view code, absl::string_view detail);

// A GPU to check for. Where its capability is not known `reasons` say why, and
// there is no target.
struct ToolchainGpu {
  std::string uuid;
  v1::Version compute_capability;
  v1::Target target;
  std::vector<v1::Reason> reasons;
};

// The GPUs `uuids` name, or all that can run a program (MIG instances, not
// their parents); at least one element: where there is no GPU it has reasons
// and no UUID.
std::vector<ToolchainGpu> GpusToCheck(const v1::ProbeResponse& probe,
                                      const std::vector<std::string>& uuids,
                                      bool one_of_each_model);

// 90 with no suffix for 9.0.
v1::Target TargetOfCapability(const v1::Version& capability);

// "sm_90"; "compute_90" for `ptx`.
std::string ToolchainTargetName(const v1::Target& target, bool ptx);

// No code where the toolkit's list has the target; else TP110 with the list.
v1::Reason LookUpTarget(const v1::Toolkit& toolkit, const v1::Target& target);

// nvcc's arguments for machine code and PTX of one target, `output` from
// `source`.
std::vector<std::string> CompileArguments(const std::string& nvcc,
                                          const v1::Target& target,
                                          const std::string& source,
                                          const std::string& output);

// What of the host compiled, as `nvcc --verbose` shows its commands: the first
// word of the one that preprocesses. "" if none does.
std::string HostCompilerOf(absl::string_view verbose);

// TP133 for everything that keeps `report` from being a program with machine
// code of exactly `target`, PTX for it, the kernel in both, and nothing else.
std::vector<v1::Reason> CheckBuilt(const v1::FileReport& report,
                                   const v1::Target& target,
                                   absl::string_view kernel,
                                   v1::CpuArchitecture host);

// Why a run of the check program is none that holds. `proof`: its repeat that
// must leave compiled files, by this host's driver.
std::vector<v1::Reason> CheckCheckRun(const v1::Observation& run,
                                      absl::string_view success);
std::vector<v1::Reason> CheckJitProof(const v1::Observation& proof);

// The path with every link followed; itself where that fails.
std::string ResolvedPath(const std::string& path);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_TOOLCHAIN_PARTS_H_
