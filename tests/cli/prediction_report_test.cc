#include "cli/prediction_report.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ReportInput Input() {
  ReportInput input;
  input.subject = "build/app<1>";
  input.require = {"native"};
  v1::HostGroup& group = input.groups.emplace_back();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        hosts: 2
        gpus: 2
        host_names: "a"
        host_names: "b"
        gpu_name: "NVIDIA H200"
        compute_capability { major: 9 }
        driver_version: "580.95.05"
        cuda_version { major: 13 }
        paths {
          path: PATH_NATIVE
          outcome: OUTCOME_FAILS
          reasons {
            code: "TP205"
            detail: "only compute_80 <fits>"
            cuda_error: 223
            fix: "add sm_90"
          }
        }
        paths {
          path: PATH_PTX_JIT
          outcome: OUTCOME_FAILS
          reasons { code: "TP204" }
        }
        paths { path: PATH_PLAIN outcome: OUTCOME_JIT }
      )pb",
      &group));
  return input;
}

TEST(RenderJunit, OnlyRequiredPathsFail) {
  const std::string xml = RenderJunit(Input());
  EXPECT_THAT(
      xml,
      AllOf(HasSubstr("<testsuites name=\"twinpath predict\" tests=\"3\" "
                      "failures=\"1\" errors=\"0\" skipped=\"1\" time=\"0\">"),
            HasSubstr("<testsuite name=\"NVIDIA H200 9.0, driver 580.95.05 "
                      "(CUDA 13.0)\""),
            HasSubstr("classname=\"build/app&lt;1&gt;\" name=\"sm_90/native\""),
            HasSubstr("<failure type=\"TP205\" message=\"fails 223\">"),
            HasSubstr("only compute_80 &lt;fits&gt;"),
            HasSubstr("\nfix: add sm_90</failure>"),
            HasSubstr("<skipped message=\"fails, not required\"/>"),
            HasSubstr("<property name=\"hosts\" value=\"2 hosts: a, b\"/>")));
}

TEST(RenderJunit, AHostWithoutGpuIsAnError) {
  ReportInput input = Input();
  input.groups[0].clear_paths();
  v1::Reason& reason = *input.groups[0].add_problems();
  reason.set_code("TP103");
  EXPECT_THAT(RenderJunit(input),
              AllOf(HasSubstr("errors=\"1\""), HasSubstr("type=\"TP103\"")));
}

// XML 1.0 has no control characters, not even escaped.
TEST(XmlText, ForeignBytesAreHarmless) {
  EXPECT_THAT(XmlText("a\x01<b>&\"c"),
              AllOf(Not(HasSubstr("\x01")), HasSubstr("&lt;b&gt;&amp;&quot;")));
}

TEST(RenderMarkdown, VerdictFirstAndReasonsFolded) {
  const std::string text = RenderMarkdown(Input());
  EXPECT_EQ(text.find("### twinpath predict build/app&lt;1>: fails on 2 of 2 "
                      "GPUs"),
            0u)
      << text;
  EXPECT_THAT(text, AllOf(HasSubstr("| 2 hosts: a, b | NVIDIA H200 9.0 | "
                                    "580.95.05 (CUDA 13.0) | **fails 223** | "
                                    "fails | jit |"),
                          HasSubstr("<details><summary>Reasons and fixes"),
                          HasSubstr("TP205 jit-disabled")));
}

// A step summary above 1,024 KiB is dropped whole.
TEST(RenderMarkdown, ThousandsOfGroupsStayBelowTheLimit) {
  ReportInput input = Input();
  for (int i = 0; i < 20000; ++i) input.groups.push_back(input.groups[0]);
  const std::string text = RenderMarkdown(input);
  EXPECT_LT(text.size(), 1024u * 1024u);
  EXPECT_THAT(text, HasSubstr("more groups are left out here"));
}

}  // namespace
}  // namespace twinpath::cli
