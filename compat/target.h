// GPU targets: their names, and which code runs on which compute capability, by
// base/target_rule.h with what the tables know of a number. Pure functions;
// thread-safe.

#ifndef TWINPATH_COMPAT_TARGET_H_
#define TWINPATH_COMPAT_TARGET_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/target_rule.h"
#include "compat/tables.h"
#include "twinpath/v1/common.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

using twinpath::Fit;

// "sm_120f", "compute_90"; by the kind SASS, PTX, "lto_90" for LTO-IR.
std::string TargetName(v1::ImageKind kind, const v1::Target& target);
// "90a": number and suffix alone.
std::string TargetSuffixName(const v1::Target& target);

// Reads "sm_90a", "compute_90", "lto_80", "90a", "9.0", "12.1f".
// INVALID_ARGUMENT for anything else, naming what was read.
absl::StatusOr<v1::Target> ParseTarget(absl::string_view text);

// Makes a target. `suffix` is 0, 'a' or 'f'.
v1::Target MakeTarget(uint32_t number, char suffix = 0);

// Major * 10 + minor of a compute capability: 121 for 12.1.
uint32_t CapabilityNumber(const v1::Version& capability);
// "12.1" for 121.
std::string CapabilityName(uint32_t number);

// Whether machine code for `target` runs on a device of compute capability
// `device` (121 for 12.1).
Fit SassFits(const v1::Target& target, uint32_t device, const Tables& tables);

// Whether PTX for `target` can be compiled for the device. The PTX ISA version
// is a separate condition (predict.cc).
Fit PtxFits(const v1::Target& target, uint32_t device, const Tables& tables);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_TARGET_H_
