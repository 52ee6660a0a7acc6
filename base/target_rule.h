// Which GPU code runs on which GPU. One place, for predictions and for what is
// counted beside a run.
//
// The rules are NVIDIA's (docs/compat-model.md derives them with sources):
//   SASS  sm_XY    same major, device minor not lower; Tegra GPUs are islands
//         sm_XYa   exactly X.Y
//         sm_XYf   the family of X.Y, device not below X.Y
//   PTX   compute_XY   any device not below X.Y, across majors
//         compute_XYa  exactly X.Y; compute_XYf as sm_XYf
// A number is major * 10 + minor, 121 for 12.1. Pure functions; thread-safe.

#ifndef TWINPATH_BASE_TARGET_RULE_H_
#define TWINPATH_BASE_TARGET_RULE_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace twinpath {

// Whether code for a target runs on a device.
enum class Fit {
  // The rules say yes.
  kYes,
  // A device of another major or a lower minor; PTX for a newer device.
  kNo,
  // The number alone would allow it, the suffix a or f does not.
  kSuffixExcludes,
  // The same-major rule would allow it, but one of the two is a Tegra part and
  // NVIDIA promises nothing across that border.
  kTegraUnpromised,
  // The numbers allow it; what else counts is not known of the target or the
  // device.
  kUnknown,
};

enum class TargetSuffix { kNone, kArch, kFamily };

struct CodeTarget {
  uint32_t number = 0;
  TargetSuffix suffix = TargetSuffix::kNone;
};

// What is known of the GPUs of a number beside it.
struct TargetTraits {
  bool tegra = false;
  // 101 stands for 110: Thor was renamed between CUDA 12.9 and 13.0. 0: it was
  // not.
  uint32_t renamed_to = 0;
  // Empty: none.
  absl::string_view family;
  bool has_arch_suffix = false;
  bool has_family_suffix = false;
};

// Nothing where the number is not known.
using TraitsOf = absl::FunctionRef<std::optional<TargetTraits>(uint32_t)>;

// Whether machine code for `target` runs on a device of that number.
Fit SassFits(const CodeTarget& target, uint32_t device, TraitsOf traits);

// Whether PTX for `target` can be compiled for the device. The PTX ISA version
// is a separate condition.
Fit PtxFits(const CodeTarget& target, uint32_t device, TraitsOf traits);

}  // namespace twinpath

#endif  // TWINPATH_BASE_TARGET_RULE_H_
