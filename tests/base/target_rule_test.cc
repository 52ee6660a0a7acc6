// The rules with and without knowledge of the numbers. tests/compat has them
// with the product's tables. Right values: docs/compat-model.md.

#include "base/target_rule.h"

#include <gtest/gtest.h>

#include <optional>

namespace twinpath {
namespace {

constexpr auto kNone = TargetSuffix::kNone;
constexpr auto kArch = TargetSuffix::kArch;
constexpr auto kFamily = TargetSuffix::kFamily;

std::optional<TargetTraits> Nothing(uint32_t) { return std::nullopt; }

std::optional<TargetTraits> Known(uint32_t number) {
  TargetTraits traits;
  switch (number) {
    case 80:
    case 86:
      return traits;
    case 87:
      traits.tegra = true;
      return traits;
    case 101:
      traits.renamed_to = 110;
      [[fallthrough]];
    case 110:
      traits.tegra = traits.has_arch_suffix = traits.has_family_suffix = true;
      traits.family = "11x";
      return traits;
    case 120:
    case 121:
      traits.has_arch_suffix = traits.has_family_suffix = true;
      traits.family = "12x";
      return traits;
    default:
      return std::nullopt;
  }
}

TEST(TargetRule, SassByTheNumbersAlone) {
  EXPECT_EQ(SassFits({90, kNone}, 90, Nothing), Fit::kYes);
  EXPECT_EQ(SassFits({80, kNone}, 90, Nothing), Fit::kNo);
  EXPECT_EQ(SassFits({89, kNone}, 86, Nothing), Fit::kNo);
  EXPECT_EQ(SassFits({120, kNone}, 121, Nothing), Fit::kUnknown);
  EXPECT_EQ(SassFits({120, kArch}, 121, Nothing), Fit::kSuffixExcludes);
  EXPECT_EQ(SassFits({121, kArch}, 121, Nothing), Fit::kYes);
  EXPECT_EQ(SassFits({120, kFamily}, 121, Nothing), Fit::kUnknown);
  EXPECT_EQ(SassFits({100, kFamily}, 121, Nothing), Fit::kNo);
}

TEST(TargetRule, SassWithWhatIsKnown) {
  EXPECT_EQ(SassFits({80, kNone}, 86, Known), Fit::kYes);
  EXPECT_EQ(SassFits({80, kNone}, 87, Known), Fit::kTegraUnpromised);
  EXPECT_EQ(SassFits({101, kNone}, 110, Known), Fit::kTegraUnpromised);
  EXPECT_EQ(SassFits({120, kFamily}, 121, Known), Fit::kYes);
  // sm_80f is a target of no GPU.
  EXPECT_EQ(SassFits({80, kFamily}, 86, Known), Fit::kSuffixExcludes);
}

TEST(TargetRule, Ptx) {
  EXPECT_EQ(PtxFits({75, kNone}, 90, Nothing), Fit::kYes);
  EXPECT_EQ(PtxFits({100, kNone}, 90, Nothing), Fit::kNo);
  EXPECT_EQ(PtxFits({90, kArch}, 100, Nothing), Fit::kSuffixExcludes);
  EXPECT_EQ(PtxFits({120, kFamily}, 121, Nothing), Fit::kUnknown);
  EXPECT_EQ(PtxFits({120, kFamily}, 121, Known), Fit::kYes);
  EXPECT_EQ(PtxFits({101, kArch}, 110, Known), Fit::kYes);
}

}  // namespace
}  // namespace twinpath
