// The toolchain check: whether a CUDA toolkit of this host builds what this
// host's GPU runs, shown by the whole way once:
//
//   gpu      the compute capability, asked of the device; a failing query ends
//            it before anything is compiled, and there is no number
//   version  nvcc --version
//   targets  nvcc --list-gpu-code: the queried capability is looked up. Missing
//            ends it; an older number is never taken
//   compile  kernels/check.cu with -gencode for the machine code of exactly
//   that
//            target and for its PTX
//   inspect  the file that came out, read by twinpath-inspect: both are there,
//            with the kernel, and nothing else is
//   witness  cuobjdump of that toolkit says the same; left out where it has
//   none native, ptx-jit
//            the file run on the GPU along both paths, the second repeated as
//            proof of compilation
//
// A step that does not hold is the last, but native: ptx-jit is run all the
// same, since which of the two fails says where to look. Every program runs
// confined, in a work folder that the caller removes; nothing of the host
// changes. The evidence of all steps is kept in a ToolchainCheck; what it means
// is judged in verdict/toolchain.h.

#ifndef TWINPATH_RUNNER_TOOLCHAIN_H_
#define TWINPATH_RUNNER_TOOLCHAIN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runner/program_runner.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {

// The check program's line of success and its kernel's mangled name
// (kernels/check.cu).
inline constexpr char kCheckPasses[] = "PASS: kernel wrote 7";
inline constexpr char kCheckKernel[] = "_Z10WriteValuePii";

struct ToolchainOptions {
  // Folders that hold bin/nvcc. Empty: those found on this host
  // (runner/toolkit.h).
  std::vector<std::string> toolkits;
  // GPUs by UUID. Empty: every GPU that can run a program.
  std::vector<std::string> gpu_uuids;
  // One GPU of each model instead of every one, where none is named.
  bool one_of_each_model = false;
  // Build for these instead of asking a GPU; nothing is run.
  std::vector<v1::Target> targets;
  // Existing empty folder, an absolute path; the caller removes it.
  std::string work_directory;
  // Source of the check program. Empty: FindData("kernels/check.cu").
  std::string source;
  // For all of it.
  absl::Duration timeout = absl::Minutes(15);
  // Most toolkits that are checked, those found first. What lies beyond is
  // named as not checked.
  size_t most_toolkits = 64;
  // Bytes kept of each end of each output.
  uint32_t output_limit_bytes = 64 << 10;

  // Starts the programs.
  ProgramRunner run;
  // Asks the driver, the newest PTX it compiles included. Empty: the probe
  // child.
  std::function<v1::ProbeResponse()> probe;
  // "NAME=value" in which toolkits are looked for (PATH, CUDA_HOME).
  std::vector<std::string> environment;
  // Prefix of /usr/local where they are looked for. Only for tests.
  std::string root;
  // Told what comes next, for people. May be empty.
  std::function<void(absl::string_view)> progress;
  // Polled between steps; true ends the check there. May be empty.
  std::function<bool()> cancelled;
};

// Checks each toolkit on each GPU (or for each target), in this order of both.
// Never fails as a whole and never answers with nothing: a host without a
// usable GPU gives one check with the step "gpu" alone, one without a toolkit a
// check a GPU with a step "version" that says so (TP131).
std::vector<v1::ToolchainCheck> CheckToolchains(
    const ToolchainOptions& options);

// The check as an entry of a release (ENTRY_KIND_TOOLCHAIN), in the child that
// runs entries: GPUs, work folder and time limit are the request's. At most six
// toolkits with less output, so that the result fits into a message.
v1::RunResponse RunToolchainEntry(const v1::RunRequest& request,
                                  const ProgramRunner& run);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_TOOLCHAIN_H_
