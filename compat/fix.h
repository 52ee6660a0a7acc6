// Fix: what would make a prediction green, as text a person can act on: the
// gencode flags to add, the toolkit that knows them, the driver needed.

#ifndef TWINPATH_COMPAT_FIX_H_
#define TWINPATH_COMPAT_FIX_H_

#include <cstdint>
#include <string>

#include "compat/image_rules.h"
#include "compat/tables.h"

namespace twinpath::compat::internal {

// "-gencode arch=compute_121,code=sm_121 (nvcc 12.9 or later)".
std::string MachineCodeFlag(uint32_t device, const Tables& tables);

// "-gencode arch=compute_90,code=compute_90".
std::string PtxFlag(uint32_t device, const Tables& tables);

// "driver R610 (CUDA 13.3) or later"; empty where no driver known does it or
// the GPU cannot get it.
std::string DriverForPtx(TwoPart isa, uint32_t device, const Tables& tables);

// The fix for a decision on a path; empty: the code's general remedy holds.
std::string FixFor(const Decision& decision, v1::Path path,
                   const HostView& host, const Tables& tables);

}  // namespace twinpath::compat::internal

#endif  // TWINPATH_COMPAT_FIX_H_
