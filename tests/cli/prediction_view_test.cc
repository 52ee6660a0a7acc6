#include "cli/prediction_view.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::PathPrediction Path(const std::string& text) {
  v1::PathPrediction path;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &path));
  return path;
}

TEST(OutcomeText, NamesErrorAndGaps) {
  EXPECT_EQ(OutcomeText(Path("outcome: OUTCOME_FAILS reasons { code: 'TP201' "
                             "cuda_error: 209 }")),
            "fails 209");
  EXPECT_EQ(OutcomeText(Path("outcome: OUTCOME_NATIVE gaps: 2")),
            "native, 2 gaps");
  EXPECT_EQ(OutcomeText(Path("outcome: OUTCOME_UNKNOWN")), "unknown");
}

TEST(OutcomeStyle, ACompilingPlainRunIsYellowAForcedOneIsNot) {
  EXPECT_EQ(OutcomeStyle(Path("path: PATH_PLAIN outcome: OUTCOME_JIT")),
            Style::kWarn);
  EXPECT_EQ(OutcomeStyle(Path("path: PATH_PTX_JIT outcome: OUTCOME_JIT")),
            Style::kGood);
  EXPECT_EQ(OutcomeStyle(Path("path: PATH_NATIVE outcome: OUTCOME_FAILS")),
            Style::kBad);
}

v1::PredictOutput Output() {
  v1::PredictOutput output;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        hosts {
          facts {
            profile: "dgx-spark"
            cpu_architecture: CPU_ARCHITECTURE_AARCH64
            driver {
              kernel_module_version: "580.95.05"
              cuda_version { major: 13 }
            }
          }
          predictions {
            gpu_name: "NVIDIA GB10"
            compute_capability { major: 12 minor: 1 }
            paths {
              path: PATH_NATIVE
              outcome: OUTCOME_FAILS
              reasons {
                code: "TP205"
                detail: "only compute_90 fits"
                fix: "add sm_121"
                cuda_error: 223
              }
            }
            paths { path: PATH_PTX_JIT outcome: OUTCOME_JIT }
            paths {
              path: PATH_PLAIN
              outcome: OUTCOME_JIT
              reasons { code: "TP206" detail: "compiled" fix: "add sm_121" }
            }
          }
        }
        hosts {
          facts { host_name: "vm" }
          problems { code: "TP101" detail: "no libcuda" }
        })pb",
      &output));
  return output;
}

TEST(RenderPredictions, ReasonAndFixStandUnderTheRow) {
  const std::string text = RenderPredictions(Output(), {});
  EXPECT_THAT(text,
              AllOf(HasSubstr("dgx-spark"), HasSubstr("NVIDIA GB10 12.1"),
                    HasSubstr("580.95.05 (CUDA 13.0)"), HasSubstr("fails 223"),
                    HasSubstr("native: TP205 jit-disabled: only compute_90"),
                    HasSubstr("fix: add sm_121")));
  // The same fix of two paths is shown once.
  const size_t first = text.find("fix: add sm_121");
  EXPECT_EQ(text.find("fix: add sm_121", first + 1), std::string::npos);
}

TEST(RenderPredictions, AHostWithoutGpuIsUnknownWithItsReason) {
  EXPECT_THAT(RenderPredictions(Output(), {}),
              AllOf(HasSubstr("vm"), HasSubstr("unknown"),
                    HasSubstr("TP101 driver-missing: no libcuda")));
}

TEST(RenderPredictions, WhatAGapIsStandsThereOnlyWithGaps) {
  v1::PredictOutput output = Output();
  EXPECT_THAT(RenderPredictions(output, {}), Not(HasSubstr("gap:")));
  output.mutable_hosts(0)->mutable_predictions(0)->mutable_paths(1)->set_gaps(
      1);
  EXPECT_THAT(RenderPredictions(output, {}),
              AllOf(HasSubstr("jit, 1 gap"), HasSubstr("gap: a fatbin")));
}

TEST(RenderPredictions, WhatSettlesSeveralPathsStandsThereOnce) {
  v1::PredictOutput output = Output();
  v1::Prediction& prediction = *output.mutable_hosts(0)->mutable_predictions(0);
  for (v1::PathPrediction& path : *prediction.mutable_paths()) {
    path.set_outcome(v1::OUTCOME_UNKNOWN);
    path.set_settled_by("a run");
  }
  EXPECT_THAT(RenderPredictions(output, {}),
              HasSubstr("native, ptx-jit, plain: to settle it: a run"));
}

TEST(RenderPredictions, NoColourWithoutATerminal) {
  EXPECT_THAT(RenderPredictions(Output(), {}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(RenderPredictions(Output(), {120, true}), HasSubstr("\x1b[31m"));
}

}  // namespace
}  // namespace twinpath::cli
