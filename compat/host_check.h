// What of a host and one of its GPUs matters to a prediction, in one struct,
// and what on the host stops everything before device code is looked at.
// Missing facts become `unknown` with the command that settles them.

#ifndef TWINPATH_COMPAT_HOST_CHECK_H_
#define TWINPATH_COMPAT_HOST_CHECK_H_

#include <cstdint>
#include <optional>
#include <string>

#include "compat/tables.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/prediction.pb.h"

namespace twinpath::compat {

// Why nothing with device code can be predicted to run here.
struct Blocker {
  v1::Outcome outcome = v1::OUTCOME_UNKNOWN;
  v1::Reason reason;
  std::string settled_by;
};

enum class JitLibrary { kPresent, kAbsent, kUnknown };

struct HostView {
  // Compute capability as a number, 121; 0 when it could not be read.
  uint32_t device = 0;
  std::string gpu_name;
  v1::CpuArchitecture cpu = v1::CPU_ARCHITECTURE_UNSPECIFIED;
  // CUDA version of the driver.
  std::optional<TwoPart> cuda;
  // Dotted driver version, where known.
  std::optional<DriverVersion> driver;
  // PTX up to here compiles.
  TwoPart ptx_ceiling;
  // PTX above the ceiling is known not to compile. False for a driver that is
  // newer than the tables and was not measured.
  bool ceiling_exact = false;
  bool ceiling_measured = false;
  JitLibrary jit_library = JitLibrary::kUnknown;
  // Whether the driver reads zstd images.
  bool reads_zstd = false;
  // Set: stands for every path.
  std::optional<Blocker> blocker;
};

// Looks at the host. Never fails: what is missing is a blocker or unknown.
HostView LookAtHost(const v1::HostFacts& facts, const v1::Gpu& gpu,
                    const Tables& tables);

// Whether kernel module and libcuda are of different versions with nothing that
// explains it: no forward-compatibility build, not WSL (its kernel half is the
// Windows driver), not Tegra. A half-done upgrade, or a second driver.
bool DriverHalvesDiffer(const v1::HostFacts& facts);

// Whether the facts hold MIG compute instances of a GPU; programs see them in
// its place.
bool HasInstances(const v1::HostFacts& facts, const v1::Gpu& gpu);

// "x86-64", "AArch64", "another CPU", "unknown".
std::string CpuName(v1::CpuArchitecture cpu);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_HOST_CHECK_H_
