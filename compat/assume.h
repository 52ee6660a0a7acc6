// Assumptions: hosts as they would be, for questions no real host answers yet.
// "driver=R595" for a fleet before its upgrade; a known GPU with a known driver
// for the reach of an artifact. Only facts are made here; what they mean is the
// predictor's business. Pure functions; thread-safe.

#ifndef TWINPATH_COMPAT_ASSUME_H_
#define TWINPATH_COMPAT_ASSUME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compat/tables.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::compat {

struct Assumption {
  // Kernel module and libcuda of this branch.
  const DriverRow* driver = nullptr;
  // Its dotted version, where one was given.
  std::string driver_version;
  // Tegra, or everywhere when given as cuda=: this CUDA version.
  std::optional<TwoPart> cuda;
  // A newer libcuda over the kernel module there is (forward compatibility).
  const DriverRow* libcuda = nullptr;
  std::string libcuda_version;
  // Every GPU is this one.
  const GpuRow* gpu = nullptr;
};

// Reads words "driver=R595", "driver=595.45.04", "cuda=13.2", "libcuda=R595",
// "gpu=12.1" (or sm_121, or words of a product's name, "H200", "RTX 5090").
// What the tables do not know, or a name of several GPUs, is INVALID_ARGUMENT
// with what they know. Pointers are into `tables`.
absl::StatusOr<Assumption> ParseAssumption(
    const std::vector<std::string>& words, const Tables& tables);

// The host under the assumption. A Jetson takes no driver branch: its driver
// comes with JetPack, and only cuda= changes it. With gpu= the platform is the
// one that the GPU is built into. libcuda= is a forward-compatibility package
// without a list of drivers; DecideForwardCompat says whether it works.
v1::HostFacts Assume(v1::HostFacts facts, const Assumption& assumption);

// Whether the assumption says anything about this host.
bool Applies(const v1::HostFacts& facts, const Assumption& assumption);

// Whether drivers of this row drive the GPU: not older than the toolkit that
// brought the GPU, not newer than the last branch for it. Tegra: by the CUDA
// version of the row alone.
bool Drives(const DriverRow& driver, const GpuRow& gpu);

// A host with one such GPU and driver and everything in place. Tegra parts get
// the CUDA version only.
v1::HostFacts HostWith(const GpuRow& gpu, const DriverRow& driver,
                       v1::CpuArchitecture cpu);

// A host with a GPU newer than all the tables know, of a new major version, and
// the newest driver known.
v1::HostFacts HostOfNextMajor(const Tables& tables, v1::CpuArchitecture cpu);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_ASSUME_H_
