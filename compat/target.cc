#include "compat/target.h"

#include <cctype>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/target_name.h"
#include "base/text.h"

namespace twinpath::compat {
namespace {

char SuffixLetter(const v1::Target& target) {
  switch (target.suffix()) {
    case v1::TARGET_SUFFIX_ARCH:
      return 'a';
    case v1::TARGET_SUFFIX_FAMILY:
      return 'f';
    default:
      return 0;
  }
}

bool IsTegra(uint32_t number, const Tables& tables) {
  const GpuRow* row = tables.FindGpu(number);
  return row != nullptr && row->tegra();
}

// 101 stands for 110: Thor was renamed between CUDA 12.9 and 13.0.
uint32_t PresentNumber(uint32_t number, const Tables& tables) {
  const GpuRow* row = tables.FindGpu(number);
  return row != nullptr && row->renamed_to != 0 ? row->renamed_to : number;
}

// Whether two numbers are of one family, as far as the tables know.
enum class Kinship { kSame, kOther, kUnknown };

Kinship FamilyKinship(uint32_t target, uint32_t device, const Tables& tables) {
  if (target == device) return Kinship::kSame;
  if (target / 10 != device / 10) return Kinship::kOther;
  const GpuRow* a = tables.FindGpu(target);
  const GpuRow* b = tables.FindGpu(device);
  if (a == nullptr || b == nullptr) return Kinship::kUnknown;
  return !a->family.empty() && a->family == b->family ? Kinship::kSame
                                                      : Kinship::kOther;
}

// What the suffix says about a device; nullopt without a suffix. `base_fits`:
// the same code without a suffix would run there.
std::optional<Fit> SuffixRule(const v1::Target& target, uint32_t number,
                              uint32_t device, bool base_fits,
                              const Tables& tables) {
  const Fit excluded = base_fits ? Fit::kSuffixExcludes : Fit::kNo;
  // A suffix that a known number does not have names a target of no GPU.
  const GpuRow* row = tables.FindGpu(target.number());
  if (row != nullptr && target.suffix() == v1::TARGET_SUFFIX_ARCH &&
      !row->has_arch_suffix) {
    return excluded;
  }
  if (row != nullptr && target.suffix() == v1::TARGET_SUFFIX_FAMILY &&
      !row->has_family_suffix) {
    return excluded;
  }
  if (target.suffix() == v1::TARGET_SUFFIX_ARCH) {
    return number == device ? Fit::kYes : excluded;
  }
  if (target.suffix() == v1::TARGET_SUFFIX_FAMILY) {
    switch (FamilyKinship(number, device, tables)) {
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

std::string TargetName(v1::ImageKind kind, const v1::Target& target) {
  absl::string_view prefix = "sm";
  if (kind == v1::IMAGE_KIND_PTX || kind == v1::IMAGE_KIND_RELOCATABLE_PTX) {
    prefix = "compute";
  } else if (kind == v1::IMAGE_KIND_LTO_IR) {
    prefix = "lto";
  }
  return FormatTarget(prefix, target.number(), SuffixLetter(target));
}

std::string TargetSuffixName(const v1::Target& target) {
  std::string name = absl::StrCat(target.number());
  if (const char letter = SuffixLetter(target)) name.push_back(letter);
  return name;
}

absl::StatusOr<v1::Target> ParseTarget(absl::string_view text) {
  const auto error = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", Printable(text),
                     "\" is no GPU target; expected one such as sm_90a, "
                     "compute_120 or 9.0"));
  };
  absl::string_view rest = text;
  for (const absl::string_view prefix : {"sm_", "compute_", "lto_"}) {
    if (absl::ConsumePrefix(&rest, prefix)) break;
  }
  char suffix = 0;
  if (!rest.empty() && (rest.back() == 'a' || rest.back() == 'f')) {
    suffix = rest.back();
    rest.remove_suffix(1);
  }
  if (rest.empty() || rest.size() > 4 ||
      !absl::ascii_isdigit(static_cast<unsigned char>(rest[0]))) {
    return error();
  }
  uint32_t number = 0;
  if (const auto dotted = TwoPart::Parse(rest)) {
    if (dotted->minor > 9) return error();
    number = dotted->major * 10 + dotted->minor;
  } else if (!absl::SimpleAtoi(rest, &number)) {
    return error();
  }
  if (number < 10 || number > 9999) return error();
  return MakeTarget(number, suffix);
}

v1::Target MakeTarget(uint32_t number, char suffix) {
  v1::Target target;
  target.set_number(number);
  target.set_suffix(suffix == 'a'   ? v1::TARGET_SUFFIX_ARCH
                    : suffix == 'f' ? v1::TARGET_SUFFIX_FAMILY
                                    : v1::TARGET_SUFFIX_NONE);
  return target;
}

uint32_t CapabilityNumber(const v1::Version& capability) {
  return capability.major() * 10 + capability.minor();
}

std::string CapabilityName(uint32_t number) {
  return absl::StrCat(number / 10, ".", number % 10);
}

Fit SassFits(const v1::Target& target, uint32_t device, const Tables& tables) {
  uint32_t number = target.number();
  if (number != device) {
    const uint32_t present = PresentNumber(number, tables);
    // An old name of the device's silicon: the code was made for it, but
    // nobody promises that the label is taken.
    if (present != number && present == device) return Fit::kTegraUnpromised;
    number = present;
  }
  const bool base_fits = number / 10 == device / 10 && number <= device;
  if (const auto by_suffix =
          SuffixRule(target, number, device, base_fits, tables)) {
    return *by_suffix;
  }
  if (number == device) return Fit::kYes;
  if (!base_fits) return Fit::kNo;
  if (IsTegra(number, tables) || IsTegra(device, tables)) {
    return Fit::kTegraUnpromised;
  }
  if (tables.FindGpu(number) == nullptr || tables.FindGpu(device) == nullptr) {
    return Fit::kUnknown;
  }
  return Fit::kYes;
}

Fit PtxFits(const v1::Target& target, uint32_t device, const Tables& tables) {
  const uint32_t number = PresentNumber(target.number(), tables);
  const uint32_t present = PresentNumber(device, tables);
  const bool base_fits = number <= present;
  if (const auto by_suffix =
          SuffixRule(target, number, present, base_fits, tables)) {
    return *by_suffix;
  }
  return base_fits ? Fit::kYes : Fit::kNo;
}

}  // namespace twinpath::compat
