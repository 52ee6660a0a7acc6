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

CodeTarget RuleTarget(const v1::Target& target) {
  CodeTarget code;
  code.number = target.number();
  if (target.suffix() == v1::TARGET_SUFFIX_ARCH) {
    code.suffix = TargetSuffix::kArch;
  } else if (target.suffix() == v1::TARGET_SUFFIX_FAMILY) {
    code.suffix = TargetSuffix::kFamily;
  }
  return code;
}

// What the tables know of a number.
auto TraitsIn(const Tables& tables) {
  return [&tables](uint32_t number) -> std::optional<TargetTraits> {
    const GpuRow* const row = tables.FindGpu(number);
    if (row == nullptr) return std::nullopt;
    TargetTraits traits;
    traits.tegra = row->tegra();
    traits.renamed_to = row->renamed_to;
    traits.family = row->family;
    traits.has_arch_suffix = row->has_arch_suffix;
    traits.has_family_suffix = row->has_family_suffix;
    return traits;
  };
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
  return twinpath::SassFits(RuleTarget(target), device, TraitsIn(tables));
}

Fit PtxFits(const v1::Target& target, uint32_t device, const Tables& tables) {
  return twinpath::PtxFits(RuleTarget(target), device, TraitsIn(tables));
}

}  // namespace twinpath::compat
