#include "cli/code_view.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <re2/re2.h>

#include <string>

#include "base/status_matchers.h"
#include "cli/view_options.h"

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Two kernels for sm_90a, one of them as PTX too.
constexpr char kReport[] = R"pb(
  name: "lib.so"
  kind: FILE_KIND_ELF_SHARED
  kernels_read: true
  fatbins {
    registration: REGISTRATION_REGISTERED
    images {
      kind: IMAGE_KIND_SASS
      target { number: 90 suffix: TARGET_SUFFIX_ARCH }
      virtual_architecture: 90
      compression: COMPRESSION_ZSTD
      kernels {
        name: "_Z4gemmPf"
        demangled: "gemm(float*)"
        registers: 168
        shared_bytes: 49152
        max_threads: 384
      }
      kernels { name: "_Z4copyPf" demangled: "copy(float*)" registers: 16 }
      kernels_read: true
      producer {
        tool: "ptxas"
        tool_version: "Cuda compilation tools, release 13.0, V13.0.88"
        options: "-O3"
      }
      stored_bytes: 1000
      expanded_bytes: 2048
    }
    images {
      index: 1
      kind: IMAGE_KIND_PTX
      target { number: 90 suffix: TARGET_SUFFIX_NONE }
      ptx_isa { major: 8 minor: 5 }
      kernels { name: "_Z4copyPf" demangled: "copy(float*)" }
      kernels_read: true
      name: "copy.cu"
    }
  }
)pb";

v1::FileReport Report() {
  v1::FileReport report;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kReport, &report));
  return report;
}

CodeFilter Only(const std::string& target) {
  CodeFilter filter;
  const absl::StatusOr<TargetWords> words = ParseTargetWords({target});
  EXPECT_THAT(words, IsOk());
  if (words.ok()) filter.targets = *words;
  return filter;
}

TEST(CodeView, KernelsAreListedWithTheirTargets) {
  EXPECT_THAT(RenderKernels(Report(), {}, {}),
              AllOf(HasSubstr("_Z4copyPf  sm_90a compute_90\n"),
                    HasSubstr("_Z4gemmPf  sm_90a\n")));
}

TEST(CodeView, MatchIsAgainstMangledAndDemangledNames) {
  const re2::RE2 mangled("_Z4gemm");
  const re2::RE2 demangled("gemm\\(float");
  for (const re2::RE2* match : {&mangled, &demangled}) {
    CodeFilter filter;
    filter.match = match;
    EXPECT_THAT(RenderKernels(Report(), filter, {}),
                AllOf(HasSubstr("_Z4gemmPf"), Not(HasSubstr("copy"))));
    EXPECT_THAT(RenderImages(Report(), filter, {}),
                AllOf(HasSubstr("sm_90a"), Not(HasSubstr("compute_90"))));
  }
}

TEST(CodeView, MatchIsAgainstImageNamesToo) {
  const re2::RE2 match("copy\\.cu");
  CodeFilter filter;
  filter.match = &match;
  EXPECT_THAT(RenderImages(Report(), filter, {}),
              AllOf(HasSubstr("compute_90"), Not(HasSubstr("sm_90a"))));
  EXPECT_THAT(RenderKernels(Report(), filter, {}), IsEmpty());
}

TEST(CodeView, TargetNarrowsEveryList) {
  EXPECT_THAT(
      RenderKernels(Report(), Only("ptx"), {}),
      AllOf(HasSubstr("_Z4copyPf  compute_90\n"), Not(HasSubstr("gemm"))));
  EXPECT_THAT(RenderImages(Report(), Only("90a"), {}),
              AllOf(HasSubstr("sm_90a"), Not(HasSubstr("compute_90"))));
  // Without the suffix it is another target.
  EXPECT_THAT(RenderImages(Report(), Only("sm_90"), {}), IsEmpty());
}

TEST(CodeView, DetailsOfKernelsAndImages) {
  CodeFilter filter;
  filter.details = true;
  filter.demangle = true;
  EXPECT_THAT(
      RenderKernels(Report(), filter, {}),
      AllOf(HasSubstr("    _Z4gemmPf\n      gemm(float*)\n"),
            HasSubstr("image 0, 168 registers, 49152 bytes shared, at most 384 "
                      "threads\n"),
            // What the image does not state is not made up.
            HasSubstr("image 1\n")));
  EXPECT_THAT(RenderImages(Report(), filter, {}),
              AllOf(HasSubstr("from compute_90; by ptxas, Cuda compilation "
                              "tools, release 13.0, V13.0.88; options -O3"),
                    HasSubstr("zstd"), HasSubstr("copy.cu")));
}

TEST(CodeView, TotalsCountFilesAndImages) {
  TargetTotals totals;
  totals.Add(Report(), {});
  totals.Add(Report(), {});
  EXPECT_THAT(totals.Names(), ElementsAre("sm_90a", "compute_90"));
  const std::string text = totals.Render(true, {});
  EXPECT_THAT(text,
              AllOf(HasSubstr("FILES"), HasSubstr("2.0 kB"), HasSubstr("8.5")));
}

TEST(CodeView, NoTargetIsCutInANarrowTerminal) {
  v1::FileReport report = Report();
  for (v1::Image& image : *report.mutable_fatbins(0)->mutable_images()) {
    image.mutable_target()->set_number(120);
    image.set_stored_bytes(123456789);
  }
  TargetTotals totals;
  totals.Add(report, {});
  ViewOptions options;
  options.width = 40;
  EXPECT_THAT(totals.Render(true, options),
              AllOf(HasSubstr("    sm_120a "), HasSubstr("    compute_120 ")));
}

TEST(CodeView, TotalsOfManyFilesFoldWhatIsNotLoaded) {
  v1::FileReport report = Report();
  for (v1::Image& image : *report.mutable_fatbins(0)->mutable_images()) {
    image.set_kind(v1::IMAGE_KIND_RELOCATABLE_SASS);
  }
  TargetTotals totals;
  totals.Add(report, {});
  EXPECT_THAT(totals.Render(true, {}),
              AllOf(HasSubstr("2 targets"), Not(HasSubstr("sm_90"))));
  EXPECT_THAT(totals.Render(false, {}),
              AllOf(HasSubstr("sm_90a"), HasSubstr("sm_90 ")));
}

TEST(CodeView, ForeignNamesCannotSteerTheTerminal) {
  v1::FileReport report = Report();
  v1::Image& image = *report.mutable_fatbins(0)->mutable_images(0);
  image.mutable_kernels(0)->set_name("\x1b[2J");
  image.mutable_kernels(0)->set_demangled("\x1b[1J");
  image.mutable_producer()->set_options("\x1b[5J");
  image.set_name("\x1b[3J");
  CodeFilter filter;
  EXPECT_THAT(RenderKernels(report, filter, {}), Not(HasSubstr("\x1b")));
  filter.demangle = true;
  EXPECT_THAT(RenderKernels(report, filter, {}), Not(HasSubstr("\x1b")));
  filter.details = true;
  EXPECT_THAT(RenderKernels(report, filter, {}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(RenderImages(report, filter, {}), Not(HasSubstr("\x1b")));
}

TEST(TargetWord, SpellingsAndNames) {
  for (const auto& [text, name] :
       std::vector<std::pair<std::string, std::string>>{
           {"sm_90a", "sm_90a"},
           {"90a", "sm_90a"},
           {"SM_121", "sm_121"},
           {"9.0", "sm_90"},
           {"compute_120f", "compute_120f"},
           {"lto_90", "lto_90"},
           {"ptx", "ptx"}}) {
    const absl::StatusOr<TargetWord> word = TargetWord::Parse(text);
    ASSERT_THAT(word, IsOk()) << text;
    EXPECT_EQ(word->name(), name);
  }
  for (const std::string text : {"", "sm_", "hopper", "sm_90x", "sm_90a,"}) {
    EXPECT_THAT(ParseTargetWords({text}),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
  }
}

}  // namespace
}  // namespace twinpath::cli
