#include "base/target_rule.h"

namespace twinpath {
namespace {

bool IsTegra(uint32_t number, TraitsOf traits) {
  const auto known = traits(number);
  return known.has_value() && known->tegra;
}

uint32_t PresentNumber(uint32_t number, TraitsOf traits) {
  const auto known = traits(number);
  return known.has_value() && known->renamed_to != 0 ? known->renamed_to
                                                     : number;
}

// Whether two numbers are of one family, as far as is known.
enum class Kinship { kSame, kOther, kUnknown };

Kinship FamilyKinship(uint32_t target, uint32_t device, TraitsOf traits) {
  if (target == device) return Kinship::kSame;
  if (target / 10 != device / 10) return Kinship::kOther;
  const auto a = traits(target);
  const auto b = traits(device);
  if (!a.has_value() || !b.has_value()) return Kinship::kUnknown;
  return !a->family.empty() && a->family == b->family ? Kinship::kSame
                                                      : Kinship::kOther;
}

// What the suffix says about a device; nullopt without a suffix. `number`: the
// target's present one. `base_fits`: the same code without a suffix would run
// there.
std::optional<Fit> SuffixRule(const CodeTarget& target, uint32_t number,
                              uint32_t device, bool base_fits,
                              TraitsOf traits) {
  const Fit excluded = base_fits ? Fit::kSuffixExcludes : Fit::kNo;
  // A suffix that a known number does not have names a target of no GPU.
  const auto known = traits(target.number);
  if (known.has_value() && target.suffix == TargetSuffix::kArch &&
      !known->has_arch_suffix) {
    return excluded;
  }
  if (known.has_value() && target.suffix == TargetSuffix::kFamily &&
      !known->has_family_suffix) {
    return excluded;
  }
  if (target.suffix == TargetSuffix::kArch) {
    return number == device ? Fit::kYes : excluded;
  }
  if (target.suffix == TargetSuffix::kFamily) {
    switch (FamilyKinship(number, device, traits)) {
      case Kinship::kSame:
        return device >= number ? Fit::kYes : Fit::kNo;
      case Kinship::kOther:
        return excluded;
      case Kinship::kUnknown:
        return device >= number ? Fit::kUnknown : Fit::kNo;
    }
  }
  return std::nullopt;
}

}  // namespace

Fit SassFits(const CodeTarget& target, uint32_t device, TraitsOf traits) {
  uint32_t number = target.number;
  if (number != device) {
    const uint32_t present = PresentNumber(number, traits);
    // An old name of the device's silicon: the code was made for it, but
    // nobody promises that the label is taken.
    if (present != number && present == device) return Fit::kTegraUnpromised;
    number = present;
  }
  const bool base_fits = number / 10 == device / 10 && number <= device;
  if (const auto by_suffix =
          SuffixRule(target, number, device, base_fits, traits)) {
    return *by_suffix;
  }
  if (number == device) return Fit::kYes;
  if (!base_fits) return Fit::kNo;
  if (IsTegra(number, traits) || IsTegra(device, traits)) {
    return Fit::kTegraUnpromised;
  }
  if (!traits(number).has_value() || !traits(device).has_value()) {
    return Fit::kUnknown;
  }
  return Fit::kYes;
}

Fit PtxFits(const CodeTarget& target, uint32_t device, TraitsOf traits) {
  const uint32_t number = PresentNumber(target.number, traits);
  const uint32_t present = PresentNumber(device, traits);
  const bool base_fits = number <= present;
  if (const auto by_suffix =
          SuffixRule(target, number, present, base_fits, traits)) {
    return *by_suffix;
  }
  return base_fits ? Fit::kYes : Fit::kNo;
}

}  // namespace twinpath
