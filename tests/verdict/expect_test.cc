#include "verdict/expect.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace twinpath::verdict {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

template <typename T>
T Parse(const std::string& text) {
  T message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

// What `cuobjdump` calls sm_90 and compute_90 of one kernel, sm_90a of another.
constexpr char kReport[] = R"pb(
  files {
    name: "app"
    kind: FILE_KIND_ELF_EXECUTABLE
    kernels_read: true
    fatbins {
      registration: REGISTRATION_REGISTERED
      images {
        kind: IMAGE_KIND_SASS
        target { number: 90 suffix: TARGET_SUFFIX_NONE }
        kernels_read: true
        kernels { name: "_Z5scalePfi" }
      }
      images {
        kind: IMAGE_KIND_PTX
        target { number: 90 suffix: TARGET_SUFFIX_NONE }
        ptx_isa { major: 9 minor: 0 }
        kernels_read: true
        kernels { name: "_Z5scalePfi" }
      }
      images {
        kind: IMAGE_KIND_SASS
        target { number: 90 suffix: TARGET_SUFFIX_ARCH }
        kernels_read: true
        kernels { name: "_Z4wgmmPf" }
      }
    }
  }
)pb";

v1::ArtifactReport Report() { return Parse<v1::ArtifactReport>(kReport); }

std::vector<std::string> Check(const std::string& expectation,
                               const v1::ArtifactReport& report = Report()) {
  std::vector<std::string> out;
  for (const v1::Finding& finding :
       CheckExpectation(Parse<v1::Expectation>(expectation), report)) {
    EXPECT_EQ(finding.severity(), v1::SEVERITY_ERROR);
    EXPECT_TRUE(finding.mismatch());
    out.push_back(finding.reason().code() + " " + finding.reason().detail());
  }
  return out;
}

TEST(CheckExpectation, NothingDeclaredNothingMissing) {
  EXPECT_THAT(Check(""), IsEmpty());
}

TEST(CheckExpectation, DeclaredTargetsThatAreThere) {
  EXPECT_THAT(Check(R"pb(
                sass_targets { number: 90 suffix: TARGET_SUFFIX_NONE }
                sass_targets { number: 90 suffix: TARGET_SUFFIX_ARCH }
                ptx_targets { number: 90 }
              )pb"),
              IsEmpty());
}

TEST(CheckExpectation, DeclaredTargetsThatAreNot) {
  EXPECT_THAT(Check(R"pb(
                sass_targets { number: 121 suffix: TARGET_SUFFIX_NONE }
                sass_targets { number: 100 suffix: TARGET_SUFFIX_FAMILY }
                ptx_targets { number: 90 suffix: TARGET_SUFFIX_ARCH }
              )pb"),
              ElementsAre("TP407 no machine code for sm_121",
                          "TP407 no machine code for sm_100f",
                          "TP407 no PTX for compute_90a"));
}

TEST(CheckExpectation, PtxIsaRange) {
  EXPECT_THAT(Check("ptx_isa_min { major: 8 } ptx_isa_max { major: 9 }"),
              IsEmpty());
  EXPECT_THAT(
      Check("ptx_isa_max { major: 8 minor: 8 }"),
      ElementsAre("TP409 PTX ISA 9.0 in app is outside the declared range"));
  EXPECT_THAT(
      Check("ptx_isa_min { major: 9 minor: 1 }"),
      ElementsAre("TP409 PTX ISA 9.0 in app is outside the declared range"));
}

TEST(CheckExpectation, PtxWhoseIsaIsUnknownIsNotInRange) {
  v1::ArtifactReport report = Report();
  report.mutable_files(0)
      ->mutable_fatbins(0)
      ->mutable_images(1)
      ->clear_ptx_isa();
  const auto found = Check("ptx_isa_max { major: 9 }", report);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].substr(0, 5), "TP232");
}

TEST(CheckExpectation, KernelsByName) {
  EXPECT_THAT(Check(R"pb(
                kernels {
                  name: "_Z5scalePfi"
                  targets { number: 90 }
                  ptx: true
                }
                kernels { name: "_Z4wgmmPf" }
              )pb"),
              IsEmpty());
  EXPECT_THAT(Check(R"pb(
                kernels { name: "_Z4nonev" }
                kernels {
                  name: "_Z4wgmmPf"
                  targets { number: 90 }
                  ptx: true
                }
              )pb"),
              ElementsAre("TP408 no kernel _Z4nonev",
                          "TP408 kernel _Z4wgmmPf has no machine code for "
                          "sm_90",
                          "TP408 kernel _Z4wgmmPf has no PTX"));
}

TEST(CheckExpectation, EveryKernelOfAPatternNeedsItsTargets) {
  EXPECT_THAT(Check(R"pb(
                kernels {
                  name: "^_Z[0-9]"
                  is_pattern: true
                  targets { number: 90 }
                }
                kernels { name: "gemm" is_pattern: true }
              )pb"),
              ElementsAre("TP408 kernel _Z4wgmmPf has no machine code for "
                          "sm_90",
                          "TP408 no kernel matches gemm"));
}

TEST(CheckExpectation, APatternThatDoesNotCompileIsNotMet) {
  const auto found = Check(R"pb(kernels { name: "(" is_pattern: true })pb");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].substr(0, 5), "TP408");
}

TEST(CheckExpectation, LeftoversAndUnregisteredPiecesDoNotCount) {
  v1::ArtifactReport report = Report();
  v1::Fatbin& fatbin = *report.mutable_files(0)->mutable_fatbins(0);
  fatbin.mutable_images(0)->set_kind(v1::IMAGE_KIND_RELOCATABLE_SASS);
  const std::string sm90 = "sass_targets { number: 90 }";
  EXPECT_THAT(Check(sm90, report), IsEmpty());
  fatbin.set_registration(v1::REGISTRATION_LEFT_OVER);
  EXPECT_THAT(Check(sm90, report),
              ElementsAre("TP407 no machine code for sm_90"));
  fatbin.set_registration(v1::REGISTRATION_UNSPECIFIED);
  EXPECT_THAT(Check(sm90, report),
              ElementsAre("TP407 no machine code for sm_90"));
}

// docs/gpu-runs.md: cuFFT registers nothing and loads its final images itself.
TEST(CheckExpectation, SelfLoadedFinalImagesCount) {
  v1::ArtifactReport report = Report();
  report.mutable_files(0)->mutable_fatbins(0)->set_registration(
      v1::REGISTRATION_SELF_LOADED);
  EXPECT_THAT(Check("sass_targets { number: 90 }", report), IsEmpty());
}

TEST(CheckExpectation, WhatCouldNotBeReadIsNotCalledMissing) {
  const std::string wanted = "sass_targets { number: 121 }";
  v1::ArtifactReport partial = Report();
  partial.mutable_files(0)->add_problems()->set_code("TP232");
  v1::ArtifactReport damaged = Report();
  damaged.mutable_files(0)->mutable_fatbins(0)->set_damaged(true);
  v1::ArtifactReport other = Report();
  other.mutable_files(0)->mutable_fatbins(0)->mutable_images(0)->set_kind(
      v1::IMAGE_KIND_OTHER);
  for (const v1::ArtifactReport& report :
       {partial, damaged, other, v1::ArtifactReport()}) {
    const auto found = Check(wanted, report);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].substr(0, 5), "TP232");
  }
}

TEST(CheckExpectation, ABrokenPayloadIsNoCodeForItsTarget) {
  v1::ArtifactReport report = Report();
  report.mutable_files(0)->mutable_fatbins(0)->mutable_images(0)->set_problem(
      "zstd: corrupt frame");
  const auto found = Check("sass_targets { number: 90 }", report);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].substr(0, 5), "TP232");
}

}  // namespace
}  // namespace twinpath::verdict
