// Toolchain checks and cuobjdump's word as people see them.

#include "cli/toolchain_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/witness_view.h"
#include "verdict/toolchain.h"

namespace twinpath::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::ToolchainCheck BuiltFor(uint32_t number) {
  v1::ToolchainCheck check;
  check.mutable_toolkit()->set_path("/usr/local/cuda-13.0");
  check.mutable_toolkit()->set_nvcc_version("13.0.88");
  check.mutable_target()->set_number(number);
  check.mutable_target()->set_suffix(v1::TARGET_SUFFIX_NONE);
  for (const char* name : {"version", "targets", "compile", "inspect"}) {
    v1::ToolchainStep& step = *check.add_steps();
    step.set_name(name);
    step.set_ending(v1::ENDING_EXITED);
  }
  check.mutable_steps(2)->add_argv("/usr/local/cuda-13.0/bin/nvcc");
  check.mutable_steps(2)->add_argv("check.cu");
  v1::Fatbin& fatbin = *check.mutable_built()->add_fatbins();
  for (const v1::ImageKind kind : {v1::IMAGE_KIND_SASS, v1::IMAGE_KIND_PTX}) {
    v1::Image& image = *fatbin.add_images();
    image.set_kind(kind);
    *image.mutable_target() = check.target();
    image.add_kernels()->set_name("k");
    if (kind == v1::IMAGE_KIND_PTX) image.mutable_ptx_isa()->set_major(9);
  }
  return check;
}

v1::ToolchainOutput Output(const v1::ToolchainCheck& check) {
  v1::ToolchainOutput output;
  *output.add_checks() = check;
  *output.mutable_verdict() =
      verdict::JudgeToolchainChecks(output.checks(), false, false);
  return output;
}

TEST(RenderToolchain, ALineAStepAndWhatItMeans) {
  const std::string text =
      RenderToolchain(Output(BuiltFor(121)), ViewOptions{});
  EXPECT_THAT(text, HasSubstr("nvcc 13.0.88 in /usr/local/cuda-13.0, built for "
                              "sm_121"));
  EXPECT_THAT(text, HasSubstr("nvcc check.cu"));
  EXPECT_THAT(text, HasSubstr("sm_121, PTX 9.0 for compute_121"));
  EXPECT_THAT(text, HasSubstr("nothing was run"));
  EXPECT_THAT(text, HasSubstr("\npass\n"));
  EXPECT_THAT(text, Not(HasSubstr("fix:")));
}

TEST(RenderToolchain, FailingStepShowsWhatItSaidWithoutNvccsOwnCommands) {
  v1::ToolchainCheck check = BuiltFor(90);
  check.mutable_steps()->RemoveLast();
  check.clear_built();
  v1::ToolchainStep& step = *check.mutable_steps(2);
  step.set_exit_code(1);
  const std::string said =
      "#$ gcc -E check.cu\ncheck.cu(7): error: no\n#$ rm x\n";
  step.mutable_stderr()->set_head(said);
  step.mutable_stderr()->set_total_bytes(said.size());
  v1::Reason& reason = *step.add_reasons();
  reason.set_code("TP132");
  reason.set_detail("nvcc: exit 1");
  const std::string text = RenderToolchain(Output(check), ViewOptions{});
  EXPECT_THAT(text, HasSubstr("TP132 nvcc: exit 1"));
  EXPECT_THAT(text, HasSubstr("compile said:\n      check.cu(7): error: no\n"));
  EXPECT_THAT(text, Not(HasSubstr("#$")));
  EXPECT_THAT(text, HasSubstr("\nfail\n"));
  EXPECT_THAT(text, HasSubstr("fix: "));
}

TEST(ToolchainWord, SaysWhichToolkitOrWhatIsMissing) {
  v1::Cell cell;
  cell.set_gpu_uuid("GPU-1");
  EXPECT_EQ(ToolchainWord(cell), "unknown");
  v1::ToolchainCheck check = BuiltFor(121);
  check.set_gpu_uuid("GPU-1");
  check.clear_built();
  check.mutable_steps()->DeleteSubrange(2, 2);
  check.mutable_steps(1)->add_reasons()->set_code("TP110");
  *cell.mutable_result()->add_toolchain() = check;
  EXPECT_EQ(ToolchainWord(cell), "nvcc 13.0.88 lacks sm_121");
  cell.mutable_result()
      ->mutable_toolchain(0)
      ->mutable_steps(1)
      ->mutable_reasons(0)
      ->set_code("TP132");
  EXPECT_EQ(ToolchainWord(cell), "targets fails");
  v1::ToolchainCheck& ran = *cell.mutable_result()->mutable_toolchain(0);
  ran.mutable_steps(1)->clear_reasons();
  for (const char* path : {"native", "ptx-jit"}) {
    v1::ToolchainStep& step = *ran.add_steps();
    step.set_name(path);
    step.add_reasons()->set_code("TP302");
    EXPECT_EQ(ToolchainWord(cell), path == std::string("native")
                                       ? "native fails"
                                       : "both paths fail");
  }
}

TEST(RenderWitness, AgreementRulesAndDifferences) {
  v1::FileReport report;
  EXPECT_EQ(RenderWitness(report, ViewOptions{}), "");
  v1::Witness& witness = *report.mutable_witness();
  witness.set_version("13.5.37");
  witness.add_counts()->set_images(2);
  EXPECT_EQ(RenderWitness(report, ViewOptions{}),
            "  witness   cuobjdump 13.5.37 lists 2 images, as read here\n");
  EXPECT_EQ(RenderWitnessTrouble(report, ViewOptions{}), "");
  witness.add_explained("bare-image: 1 image of sm_90 not listed");
  EXPECT_THAT(RenderWitness(report, ViewOptions{}),
              HasSubstr("agrees with what was read here:\n            "
                        "bare-image: 1"));
  witness.add_differences()->set_code("TP431");
  EXPECT_THAT(RenderWitness(report, ViewOptions{}),
              HasSubstr("contradicts what was read here"));
  EXPECT_THAT(RenderWitnessTrouble(report, ViewOptions{}), HasSubstr("TP431"));
  witness.set_problem("-lelf: time limit");
  EXPECT_EQ(RenderWitness(report, ViewOptions{}),
            "  witness   no answer: -lelf: time limit\n");
}

}  // namespace
}  // namespace twinpath::cli
