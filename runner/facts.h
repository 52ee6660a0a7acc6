// All facts of this host. Files are read here; the driver and each nvcc are
// asked in children with a deadline. What cannot be read is left empty and, for
// what a probe answers, says why.

#ifndef TWINPATH_RUNNER_FACTS_H_
#define TWINPATH_RUNNER_FACTS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "runner/probe.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::runner {

struct FactsOptions {
  // Ask the driver. False: the driver probe stays UNSPECIFIED.
  bool driver = true;
  // Measure the newest PTX ISA the driver compiles (makes a context on a GPU).
  bool ptx_isa_ceiling = true;
  // Look for toolkits and ask each nvcc.
  bool toolkits = true;
  // List the CUDA libraries the loader finds.
  bool libraries = true;
  // Hash those libraries too; several hundred megabytes in a full toolkit.
  bool library_digests = false;
  // Look for programs that run oci_containers, CDI devices and CUPTI.
  bool inventory = true;
  // Limit of the driver probe.
  absl::Duration probe_deadline = absl::Seconds(60);
  // Limit of each question to an nvcc or another program.
  absl::Duration toolkit_deadline = absl::Seconds(20);
  // Goes into agent_version.
  std::string version;
  // Prefix of every path that is read. Only for tests; empty: this host.
  std::string root;
  // "NAME=value" to look for leaks in and to find toolkits with. Only for
  // tests; unset (use_process_environment true): this process's.
  bool use_process_environment = true;
  std::vector<std::string> environment;
  // Passed to the probe.
  ProbeOptions probe;
};

// Collects the facts. Never fails as a whole.
v1::HostFacts CollectFacts(const FactsOptions& options);

// The pieces, for tests and for `doctor`. `root` as above.
v1::OperatingSystem ReadOperatingSystem(const std::string& root);
v1::Platform DetectPlatform(const std::string& root,
                            const v1::ProbeResponse& probe);
// SHA-256, in hexadecimal, of "twinpath machine-id\n" and the id without its
// line end. Empty where there is no machine id.
std::string HashedMachineId(const std::string& root);
// CPU architecture of this process.
v1::CpuArchitecture HostCpuArchitecture();
// "R580" for "580.95.05"; "" for anything that does not begin with a number.
std::string DriverBranch(const std::string& version);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_FACTS_H_
