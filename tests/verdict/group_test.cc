#include "verdict/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace twinpath::verdict {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

v1::Finding Make(absl::string_view code, absl::string_view detail,
                 absl::string_view host,
                 v1::Severity severity = v1::SEVERITY_ERROR) {
  v1::Finding finding;
  finding.mutable_reason()->set_code(std::string(code));
  finding.mutable_reason()->set_detail(std::string(detail));
  finding.set_severity(severity);
  finding.set_scope(v1::FINDING_SCOPE_CELL);
  finding.add_hosts(std::string(host));
  return finding;
}

TEST(DetailShape, KeepsWhatMatters) {
  for (const char* text :
       {"native: exit code 1, expected 0", "failed with CUDA error 209",
        "no machine code for sm_120a", "PTX ISA 9.0 in libx.so.13",
        "kernel _Z5scalePfi has no PTX"}) {
    EXPECT_EQ(DetailShape(text), text);
  }
}

TEST(DetailShape, ReplacesWhatDiffersByChance) {
  EXPECT_EQ(DetailShape("at 0x7f12ab34cd56"), "at ...");
  EXPECT_EQ(DetailShape("pid 1234567"), "pid ...");
  EXPECT_EQ(DetailShape("GPU-1a2b3c4d"), "GPU-...");
  EXPECT_EQ(DetailShape("in /tmp/twinpath-Ab3dEf: no room"),
            "in /tmp/twinpath-...: no room");
}

TEST(GroupFindings, FiveHundredHostsAreOneFinding) {
  std::vector<v1::Finding> findings;
  for (int i = 0; i < 500; ++i) {
    findings.push_back(
        Make("TP401", "native: predicted", absl::StrCat("host-", i)));
  }
  const auto groups = GroupFindings(std::move(findings));
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].hosts_size(), 500);
}

TEST(GroupFindings, ShowsTheShapeWhereDetailsDiffer) {
  const auto groups =
      GroupFindings({Make("TP305", "died at 0x7f0000000001", "b"),
                     Make("TP305", "died at 0x7f0000000002", "a")});
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].reason().detail(), "died at ...");
  EXPECT_THAT(groups[0].hosts(), ElementsAre("a", "b"));
  const auto equal =
      GroupFindings({Make("TP305", "died at 0x7f0000000001", "b"),
                     Make("TP305", "died at 0x7f0000000001", "b")});
  ASSERT_THAT(equal, SizeIs(1));
  EXPECT_EQ(equal[0].reason().detail(), "died at 0x7f0000000001");
  EXPECT_THAT(equal[0].hosts(), ElementsAre("b"));
}

TEST(GroupFindings, OtherErrorOrSeverityIsAnotherFinding) {
  v1::Finding other = Make("TP311", "native: failed", "b");
  other.mutable_reason()->set_cuda_error(209);
  EXPECT_THAT(GroupFindings(
                  {Make("TP311", "native: failed", "a"), other,
                   Make("TP311", "native: failed", "c", v1::SEVERITY_WARNING)}),
              SizeIs(3));
}

TEST(GroupFindings, ErrorsComeFirst) {
  const auto groups = GroupFindings({
      Make("TP100", "a", "h", v1::SEVERITY_NOTE),
      Make("TP200", "b", "h", v1::SEVERITY_WARNING),
      Make("TP400", "d", "h"),
      Make("TP300", "c", "h"),
  });
  ASSERT_THAT(groups, SizeIs(4));
  EXPECT_EQ(groups[0].reason().code(), "TP300");
  EXPECT_EQ(groups[1].reason().code(), "TP400");
  EXPECT_EQ(groups[3].reason().code(), "TP100");
}

}  // namespace
}  // namespace twinpath::verdict
