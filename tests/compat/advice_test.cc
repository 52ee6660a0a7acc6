#include "compat/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compat/build_of.h"
#include "compat/host_groups.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

v1::HostFacts Named(const std::string& words) {
  static int count = 0;
  v1::HostFacts facts = FakeHost(words);
  facts.set_host_name(absl::StrCat(words, " #", ++count));
  return facts;
}

v1::Advice Of(const v1::ArtifactReport& report,
              const std::vector<std::string>& hosts,
              v1::Path path = v1::PATH_PLAIN) {
  std::vector<v1::HostFacts> facts;
  for (const std::string& words : hosts) facts.push_back(Named(words));
  const HostRules rules = {
      [](const v1::HostFacts& host) {
        std::vector<const v1::Gpu*> gpus;
        for (const v1::Gpu& gpu : host.gpus()) gpus.push_back(&gpu);
        return gpus;
      },
      [](const v1::HostFacts&) { return std::vector<v1::Reason>(); }};
  const Predictor predictor(report);
  const FleetPrediction fleet =
      PredictFleet(predictor, facts, rules, nullptr, TestTables());
  return Advise(report, predictor, fleet, facts, path, TestTables());
}

v1::ArtifactReport Built(const std::vector<std::string>& fatbins,
                         uint32_t major, uint32_t minor) {
  v1::FileReport file = MakeFile("app", fatbins);
  file.mutable_elf()->set_static_cudart(true);
  file.mutable_elf()->mutable_cudart()->set_major(major);
  file.mutable_elf()->mutable_cudart()->set_minor(minor);
  return MakeArtifactOf({file});
}

std::vector<std::string> Texts(const v1::Advice& advice,
                               bool smallest_only = false) {
  std::vector<std::string> out;
  for (const v1::Fix& fix : advice.fixes()) {
    if (smallest_only && !fix.in_smallest_set()) continue;
    out.push_back(absl::StrCat(fix.text(), " +", fix.hosts_gained()));
  }
  return out;
}

TEST(Advise, TheFlagThatGainsMostHostsStandsFirst) {
  const v1::Advice advice =
      Of(Built({"sm_80"}, 12, 9),
         {"9.0 R580", "9.0 R580", "9.0 R580", "8.0 R580", "12.1 R580"});
  ASSERT_GT(advice.fixes_size(), 0);
  // PTX 8.8 of CUDA 12.9 for 9.0 or older serves all four.
  EXPECT_EQ(advice.fixes(0).hosts_gained(), 4u);
  EXPECT_THAT(advice.fixes(0).text(), HasSubstr("code=compute_"));
  EXPECT_THAT(Texts(advice),
              Contains("add -gencode arch=compute_90,code=sm_90 (nvcc 11.8 or "
                       "later) +3"));
  EXPECT_EQ(advice.hosts(), 5u);
  EXPECT_EQ(advice.hosts_served(), 1u);
}

// nvcc 13 has no sm_70: a V100 needs another build, and never the advice to
// take a driver after R580.
TEST(Advise, V100BesideABuildOfCuda13) {
  const v1::Advice advice =
      Of(Built({"sm_75 compute_75@9.0"}, 13, 0), {"7.0 R580", "7.5 R580"});
  for (const v1::Fix& fix : advice.fixes()) {
    EXPECT_NE(fix.kind(), v1::FIX_KIND_DRIVER) << fix.text();
    EXPECT_EQ(fix.build(), 2u) << fix.text();
    EXPECT_THAT(fix.text(), HasSubstr("nvcc 12.9 or earlier"));
  }
  EXPECT_GT(advice.fixes_size(), 0);
  EXPECT_THAT(advice.beyond_help(), IsEmpty());
}

// NVIDIA/nvbandwidth#61: PTX of CUDA 13.2 on R580.
TEST(Advise, PtxTooNewForTheDriver) {
  const v1::Advice advice = Of(Built({"compute_90@9.2"}, 13, 2), {"9.0 R580"});
  EXPECT_THAT(Texts(advice), Contains("driver R595 (CUDA 13.2) or later +1"));
  EXPECT_THAT(Texts(advice), Contains(HasSubstr("arch=compute_90,code=sm_90")));
  // PTX of the same compiler does not help.
  EXPECT_THAT(Texts(advice), Not(Contains(HasSubstr("code=compute_90"))));
}

// V100 cannot get R590, so a driver is no way out for PTX 9.1.
TEST(Advise, NoDriverForAGpuItDoesNotDrive) {
  const v1::Advice advice =
      Of(MakeArtifactOf({MakeFile("app", {"compute_70@9.1"})}), {"7.0 R580"});
  ASSERT_GT(advice.fixes_size(), 0);
  for (const v1::Fix& fix : advice.fixes()) {
    EXPECT_NE(fix.kind(), v1::FIX_KIND_DRIVER) << fix.text();
  }
}

// A runtime of CUDA 13 on R550: no flag helps; a driver does, or a build with
// CUDA 12, which R525 and later start (minor-version compatibility).
TEST(Advise, TheRuntimeNeedsADriver) {
  const v1::Advice advice = Of(Built({"sm_90"}, 13, 0), {"9.0 R550"});
  EXPECT_THAT(
      Texts(advice),
      ElementsAre("driver R580 (CUDA 13.0) or later +1",
                  "another build with CUDA 12.9 or earlier and -gencode "
                  "arch=compute_90,code=sm_90 +1"));
}

// NVIDIA's own libraries are not built here.
TEST(Advise, AVendorLibraryIsReplaced) {
  const v1::Advice advice =
      Of(MakeArtifactOf({MakeFile("libcublasLt.so.12", {"sm_90"})}),
         {"12.1 R580"});
  ASSERT_EQ(advice.fixes_size(), 1);
  EXPECT_EQ(advice.fixes(0).kind(), v1::FIX_KIND_LIBRARY);
  EXPECT_THAT(advice.fixes(0).text(), HasSubstr("12.9 or later"));
}

TEST(Advise, AnotherCpu) {
  const v1::Advice advice = Of(Built({"sm_120"}, 13, 0), {"12.1 R580 aarch64"});
  EXPECT_THAT(Texts(advice), ElementsAre("a build for AArch64 +1"));
  EXPECT_THAT(Texts(Of(Built({"sm_90"}, 13, 0), {"12.1 R580 aarch64"})),
              ElementsAre(HasSubstr("a build for AArch64 with -gencode "
                                    "arch=compute_121,code=sm_121")));
}

// One flag for a whole major: sm_80 code runs on 8.0, 8.6 and 8.9, and the
// smallest set of flags for both majors has two of them or one PTX.
TEST(Advise, TheSmallestSetServesAll) {
  const v1::Advice advice =
      Of(Built({"sm_75"}, 12, 8),
         {"8.0 R580", "8.6 R580", "8.9 R580", "9.0 R580"}, v1::PATH_NATIVE);
  EXPECT_THAT(Texts(advice, true),
              ElementsAre(HasSubstr("code=sm_80"), HasSubstr("code=sm_90")));
}

TEST(Advise, CompilingHostsGainMachineCode) {
  const v1::Advice advice =
      Of(Built({"sm_80 compute_80@8.0"}, 12, 9), {"9.0 R580", "9.0 R580"});
  ASSERT_EQ(advice.fixes_size(), 1);
  EXPECT_EQ(advice.fixes(0).gpus_improved(), 2u);
  EXPECT_EQ(advice.fixes(0).hosts_gained(), 0u);
  EXPECT_THAT(advice.fixes(0).text(), HasSubstr("code=sm_90"));
  EXPECT_FALSE(advice.fixes(0).in_smallest_set());
}

// ollama/ollama PR #12000: what PTX alone would lose.
TEST(Advise, TheTradeOffIsCounted) {
  const v1::Advice advice = Of(Built({"sm_80 compute_80@8.7"}, 12, 8),
                               {"8.0 R535", "8.0 R550", "8.0 R570"});
  EXPECT_EQ(advice.hosts_native(), 3u);
  EXPECT_EQ(advice.hosts_jit(), 1u);
  EXPECT_EQ(advice.hosts_lost_by_jit(), 2u);
  EXPECT_THAT(advice.fixes(), IsEmpty());
}

}  // namespace
}  // namespace twinpath::compat
