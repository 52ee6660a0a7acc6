// Whether a forward-compatibility libcuda works on a host, decided from its ELF
// note, the kernel module's branch and the GPU. NVIDIA's container toolkit
// decides the same way (NVIDIA/nvidia-container-toolkit#1784); what hardware
// is served stands in the CUDA Compatibility guide. Pure functions;
// thread-safe.

#ifndef TWINPATH_COMPAT_FORWARD_COMPAT_H_
#define TWINPATH_COMPAT_FORWARD_COMPAT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "compat/tables.h"
#include "twinpath/v1/common.pb.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::compat {

enum class CompatAnswer { kWorks, kRefused, kUndecided };

struct CompatDecision {
  CompatAnswer answer = CompatAnswer::kUndecided;
  // CUDA version that programs then see; set where it works.
  std::optional<TwoPart> cuda;
  // TP120, TP121 with 803 or 804, TP124.
  v1::Reason reason;
  // Command that settles kUndecided.
  std::string settled_by;
};

// Branch of the host's kernel module, 580; nullopt: not known.
std::optional<uint32_t> DriverBranchOf(const v1::Driver& driver);

// CUDA version of the host's own driver, which a forward-compatibility libcuda
// in front of it hides; by the branch, else by the libcuda in use.
std::optional<TwoPart> OwnCudaVersion(const v1::Driver& driver,
                                      const Tables& tables);

// Decides. `version`: of the libcuda's file name, "590.44.01" or empty.
CompatDecision DecideForwardCompat(const v1::ForwardCompatNote& note,
                                   absl::string_view version,
                                   const v1::HostFacts& facts,
                                   const v1::Gpu& gpu, const Tables& tables);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_FORWARD_COMPAT_H_
