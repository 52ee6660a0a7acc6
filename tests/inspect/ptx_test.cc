#include "inspect/ptx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/inspect/device_builder.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Names(const PtxModule& module) {
  std::vector<std::string> names;
  for (const PtxKernel& kernel : module.kernels) {
    names.push_back(std::string(kernel.name));
  }
  return names;
}

TEST(Ptx, ReadsVersionTargetAndKernels) {
  const std::string text = BuildPtx({.isa_major = 9,
                                     .isa_minor = 1,
                                     .target = "sm_121a",
                                     .kernels = {"_Z1av", "_Z1bv"}});
  const PtxModule module = ParsePtx(text);
  EXPECT_EQ(module.isa_major, 9);
  EXPECT_EQ(module.isa_minor, 1);
  EXPECT_EQ(module.target, 121);
  EXPECT_EQ(module.suffix, 'a');
  EXPECT_THAT(Names(module), ElementsAre("_Z1av", "_Z1bv"));
  EXPECT_EQ(module.problem, "");
}

// The form in which libcupti 13.0 keeps PTX.
TEST(Ptx, NeedsNoWhiteSpace) {
  const PtxModule module =
      ParsePtx(".version 3.2.target sm_35.address_size 64 .entry NAME{exit;}");
  EXPECT_EQ(module.isa_major, 3);
  EXPECT_EQ(module.isa_minor, 2);
  EXPECT_EQ(module.target, 35);
  EXPECT_THAT(Names(module), ElementsAre("NAME"));
}

TEST(Ptx, PrototypesAreNoKernels) {
  const PtxModule module = ParsePtx(
      ".version 7.0\n.target sm_70\n.extern .entry proto(.param .u64 p);\n"
      ".entry bare;\n.visible .entry other{ret;}");
  EXPECT_THAT(Names(module), ElementsAre("other"));
}

TEST(Ptx, APragmaInTheHeadDoesNotEndIt) {
  const PtxModule module = ParsePtx(
      ".version 7.0 .target sm_70 .entry a(.param .u64 p)\n"
      ".maxntid 256, 2, 1\n.pragma \"a;{b\";\n{ret;} .entry b{ret;}");
  EXPECT_THAT(Names(module), ElementsAre("a", "b"));
}

TEST(Ptx, ReadsLaunchBounds) {
  const PtxModule module = ParsePtx(
      ".version 7.0 .target sm_70 .entry a() .maxntid 256, 2, 1 "
      ".minnctapersm 2 {} .entry b .reqntid 64 {} .entry c {}"
      ".entry d .maxntid 4294967295,4294967295,2 {}");
  ASSERT_EQ(module.kernels.size(), 4);
  EXPECT_EQ(module.kernels[0].max_threads, 512);
  EXPECT_EQ(module.kernels[1].max_threads, 64);
  EXPECT_EQ(module.kernels[2].max_threads, std::nullopt);
  EXPECT_EQ(module.kernels[3].max_threads, std::nullopt);
}

TEST(Ptx, CommentsAndStringsHideDirectives) {
  const PtxModule module = ParsePtx(
      "// .version 1.0\n/* .version 2.0 .entry x{} */\n.version 8.8\n"
      ".target sm_90, debug // .target sm_10\n"
      ".file 1 \"/* .entry y{} */ \\\" .entry z{}\"\n"
      ".entry a { // }\n /* } */ .loc \"}\"; .entry inside {} }\n"
      ".section .debug_str { .b8 46 }\n.func f() { ret; }\n.entry b{}");
  EXPECT_EQ(module.isa_major, 8);
  EXPECT_EQ(module.target, 90);
  EXPECT_THAT(Names(module), ElementsAre("a", "b"));
  EXPECT_EQ(module.problem, "");
}

TEST(Ptx, TargetsMayStandBehindOptions) {
  EXPECT_EQ(
      ParsePtx(".version 9.0 .target texmode_independent, sm_100f").target,
      100);
  EXPECT_EQ(
      ParsePtx(".version 9.0 .target texmode_independent, sm_100f").suffix,
      'f');
}

TEST(Ptx, EndsAtNul) {
  std::string text = ".version 7.0 .target sm_70 .entry a{}";
  text.push_back('\0');
  text += ".entry b{}";
  EXPECT_THAT(Names(ParsePtx(text)), ElementsAre("a"));
}

TEST(Ptx, CutTextKeepsWhatIsWhole) {
  const PtxModule module =
      ParsePtx(".version 7.0 .target sm_70 .entry a{} .entry b { { ");
  EXPECT_THAT(module.problem, HasSubstr("inside a kernel's body"));
  const std::string text = BuildPtx({.kernels = {"one", "two"}});
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    ParsePtx(absl::string_view(text).substr(0, cut));
  }
}

TEST(Ptx, TextThatIsNoPtxSaysSo) {
  EXPECT_THAT(ParsePtx("hello").problem, HasSubstr("no .version"));
  EXPECT_THAT(ParsePtx("").kernels, IsEmpty());
  EXPECT_THAT(ParsePtx(".entry").problem, HasSubstr(".entry without a name"));
  EXPECT_THAT(ParsePtx("\"unterminated \\").kernels, IsEmpty());
}

TEST(Ptx, HeaderOnlyStopsBehindTheTarget) {
  const PtxModule module = ParsePtx(BuildPtx({}), true);
  EXPECT_EQ(module.target, 90);
  EXPECT_THAT(module.kernels, IsEmpty());
}

TEST(Ptx, IsKnownByItsFirstDirective) {
  EXPECT_TRUE(LooksLikePtx("\n\n// x\n.version 9.0\n"));
  EXPECT_TRUE(LooksLikePtx(".version 3.2.target sm_35"));
  EXPECT_FALSE(LooksLikePtx(".section .text"));
  EXPECT_FALSE(LooksLikePtx("version 9.0"));
  EXPECT_FALSE(LooksLikePtx("/* GNU ld script */ INPUT(x)"));
}

TEST(Ptx, TheListOfKernelsIsBounded) {
  std::string text = ".version 8.0 .target sm_90 .address_size 64 ";
  for (size_t i = 0; i < kMaxPtxKernels + 10; ++i) text += ".entry a{}";
  const PtxModule module = ParsePtx(text);
  EXPECT_EQ(module.kernels.size(), kMaxPtxKernels);
  EXPECT_THAT(module.problem, HasSubstr("kernels"));
}

// Bodies are passed in vectors: wherever in one they begin, only braces that
// are no text count, and the one that ends the body is not missed.
TEST(Ptx, BodiesEndAtTheirOwnBrace) {
  for (const absl::string_view body :
       {"{ ret; }", "{ { } { { } } }", "{ ld.v2.u32 {%r1, %r2}, [%rd1]; ret; }",
        "{ .pragma \"}\"; { /* } */ } // }\n }", "{ a/b { \"\\\"}{\" } }"}) {
    for (size_t shift = 0; shift < 70; ++shift) {
      const std::string blank(shift, ' ');
      const std::string text = absl::StrCat(
          ".version 8.0 .target sm_90 ", blank, ".entry a", body, ".entry b{",
          blank, "}", blank, ".entry c", body, "// end");
      const PtxModule module = ParsePtx(text);
      EXPECT_THAT(Names(module), ElementsAre("a", "b", "c")) << text;
      EXPECT_EQ(module.problem, "") << text;
      // Without its last brace the last body does not end.
      const PtxModule cut = ParsePtx(text.substr(0, text.rfind('}')));
      EXPECT_THAT(cut.problem, HasSubstr("inside")) << text;
    }
  }
}

// What lies behind a NUL is not part of the text, wherever the NUL stands.
TEST(Ptx, EndsAtItsFirstNul) {
  const std::string text =
      "// made by \"hand\"\n/* a * b */ .version 8.3 .target sm_90a, debug\n"
      ".address_size 64\n.global .b8 s[2] = { 1, 2 };\n"
      ".visible .entry first ( .param .u64 p ) .maxntid 64, 2, 1\n"
      "{ .reg .b32 %r<4>; // }\n /* } */ .pragma \"no\\\"unroll }\"; "
      "{ ld.param.u64 %r1, [p]; } ret; }\n"
      ".entry second .pragma \"x;y\"; { exit; }\n"
      ".file 1 \"name.cu\"\n.entry third { ret; }";
  ASSERT_THAT(Names(ParsePtx(text)), ElementsAre("first", "second", "third"));
  for (size_t at = 0; at <= text.size(); ++at) {
    const std::string before = text.substr(0, at);
    const std::string with_nul = before + std::string(1, '\0') + "\"*/\n} } " +
                                 ".entry hidden { ret; }" + text.substr(at);
    const PtxModule expected = ParsePtx(before);
    const PtxModule module = ParsePtx(with_nul);
    EXPECT_EQ(Names(module), Names(expected)) << at;
    EXPECT_EQ(module.isa_minor, expected.isa_minor) << at;
    EXPECT_EQ(module.target, expected.target) << at;
    EXPECT_EQ(module.suffix, expected.suffix) << at;
    EXPECT_EQ(module.problem, expected.problem) << at;
  }
}

}  // namespace
}  // namespace twinpath::inspect
