#include "compat/target.h"

#include <gtest/gtest.h>

#include "base/status_matchers.h"
#include "tests/compat/fake_host.h"

namespace twinpath::compat {
namespace {

TEST(Target, ParsesWhatPeopleWrite) {
  const auto name = [](const char* text) {
    const auto target = ParseTarget(text);
    return target.ok() ? TargetSuffixName(*target) : "error";
  };
  EXPECT_EQ(name("sm_90a"), "90a");
  EXPECT_EQ(name("compute_120f"), "120f");
  EXPECT_EQ(name("lto_80"), "80");
  EXPECT_EQ(name("121"), "121");
  EXPECT_EQ(name("9.0"), "90");
  EXPECT_EQ(name("12.1a"), "121a");
  for (const char* bad : {"", "sm_", "sm_90b", "90x", "blackwell", "sm_9",
                          "sm_99999", "compute_compute_86", "8.60", "-90"}) {
    EXPECT_EQ(name(bad), "error") << bad;
  }
}

TEST(Target, NamesByKind) {
  const v1::Target target = MakeTarget(120, 'f');
  EXPECT_EQ(TargetName(v1::IMAGE_KIND_SASS, target), "sm_120f");
  EXPECT_EQ(TargetName(v1::IMAGE_KIND_RELOCATABLE_PTX, target), "compute_120f");
  EXPECT_EQ(TargetName(v1::IMAGE_KIND_LTO_IR, MakeTarget(75)), "lto_75");
  EXPECT_EQ(CapabilityName(121), "12.1");
}

Fit Sass(const char* target, uint32_t device) {
  return SassFits(ParseTarget(target).value(), device, TestTables());
}
Fit Ptx(const char* target, uint32_t device) {
  return PtxFits(ParseTarget(target).value(), device, TestTables());
}

// Base code serves higher minors: these are green (pytorch/pytorch#178891,
// ggml-org/llama.cpp#22522 for the reverse).
TEST(Target, BaseCodeServesHigherMinors) {
  EXPECT_EQ(Sass("sm_120", 121), Fit::kYes);
  EXPECT_EQ(Sass("sm_121", 120), Fit::kNo);
  EXPECT_EQ(Sass("sm_80", 86), Fit::kYes);
  EXPECT_EQ(Sass("sm_86", 80), Fit::kNo);
  EXPECT_EQ(Sass("sm_100", 103), Fit::kYes);
  EXPECT_EQ(Sass("sm_70", 75), Fit::kYes);
}

TEST(Target, SuffixesExclude) {
  EXPECT_EQ(Sass("sm_100a", 103), Fit::kSuffixExcludes);
  EXPECT_EQ(Sass("sm_100a", 120), Fit::kNo);
  EXPECT_EQ(Ptx("compute_90a", 100), Fit::kSuffixExcludes);
  EXPECT_EQ(Ptx("compute_100f", 103), Fit::kYes);
  EXPECT_EQ(Ptx("compute_100f", 120), Fit::kSuffixExcludes);
  EXPECT_EQ(Ptx("compute_103f", 100), Fit::kNo);
}

// Programming Guide 13.4: 10.7 belongs to the family of 10.0.
TEST(Target, RubinIsOfTheFamilyOf100) {
  EXPECT_EQ(Sass("sm_100f", 107), Fit::kYes);
  EXPECT_EQ(Sass("sm_103f", 107), Fit::kYes);
  EXPECT_EQ(Sass("sm_107f", 103), Fit::kNo);
}

// Thor was 10.1 before CUDA 13 renamed it 11.0.
TEST(Target, OldNameOfThor) {
  EXPECT_EQ(Ptx("compute_101a", 110), Fit::kYes);
  EXPECT_EQ(Ptx("compute_101", 103), Fit::kNo);
  EXPECT_EQ(Sass("sm_101a", 110), Fit::kTegraUnpromised);
  EXPECT_EQ(Sass("sm_101", 103), Fit::kNo);
}

TEST(Target, UnknownNumbersAreUnknownOnlyWhereRulesEnd) {
  // 13.0 is in no table; its own code and lower PTX still fit.
  EXPECT_EQ(Sass("sm_130", 130), Fit::kYes);
  EXPECT_EQ(Sass("sm_120", 130), Fit::kNo);
  EXPECT_EQ(Sass("sm_130", 131), Fit::kUnknown);
  EXPECT_EQ(Ptx("compute_90", 130), Fit::kYes);
  EXPECT_EQ(Ptx("compute_130f", 131), Fit::kUnknown);
}

}  // namespace
}  // namespace twinpath::compat
