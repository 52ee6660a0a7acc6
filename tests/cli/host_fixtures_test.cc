// What doctor says of recorded hosts (tests/data/hosts): the findings each file
// states, no others, and every GPU in the text.

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "cli/facts_view.h"
#include "cli/host_findings.h"
#include "twinpath/v1/cli.pb.h"

namespace twinpath::cli {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Folder() {
  const char* source = std::getenv("TWINPATH_SOURCE_DIR");
  return JoinPath(source == nullptr ? "." : source, "tests/data/hosts");
}

std::vector<std::string> Fixtures() {
  std::vector<std::string> names;
  const auto files = ListDirectory(Folder());
  if (!files.ok()) return names;
  for (const std::string& file : *files) {
    if (absl::EndsWith(file, ".txtpb")) names.push_back(file);
  }
  return names;
}

v1::DoctorOutput Load(const std::string& name) {
  v1::DoctorOutput output;
  const auto text = ReadFile(JoinPath(Folder(), name), 1 << 20);
  EXPECT_THAT(text, IsOk());
  EXPECT_TRUE(text.ok() &&
              google::protobuf::TextFormat::ParseFromString(*text, &output))
      << name;
  return output;
}

std::vector<std::string> CodesOf(
    const google::protobuf::RepeatedPtrField<v1::Finding>& findings) {
  std::vector<std::string> codes;
  for (const v1::Finding& finding : findings) {
    codes.push_back(absl::StrCat(finding.reason().code(), " severity ",
                                 finding.severity()));
  }
  return codes;
}

TEST(HostFixtures, AreThere) { EXPECT_GE(Fixtures().size(), 10u); }

TEST(HostFixtures, HaveTheFindingsTheyStateAndNoOthers) {
  for (const std::string& name : Fixtures()) {
    SCOPED_TRACE(name);
    const v1::DoctorOutput output = Load(name);
    const std::vector<v1::Finding> found = HostFindings(output.facts());
    EXPECT_THAT(CodesOf({found.begin(), found.end()}),
                ElementsAreArray(CodesOf(output.findings())));
    for (size_t i = 0;
         i < found.size() && i < static_cast<size_t>(output.findings_size());
         ++i) {
      EXPECT_THAT(
          found[i].reason().detail(),
          HasSubstr(output.findings(static_cast<int>(i)).reason().detail()));
    }
  }
}

TEST(HostFixtures, EveryGpuIsShownAndNoMissingFigureAsZero) {
  for (const std::string& name : Fixtures()) {
    SCOPED_TRACE(name);
    const v1::DoctorOutput output = Load(name);
    const std::string text = RenderFacts(output.facts(), {100'000, false});
    for (const v1::Gpu& gpu : output.facts().gpus()) {
      EXPECT_THAT(text, HasSubstr(gpu.name()));
      EXPECT_THAT(text, HasSubstr(gpu.uuid()));
    }
    EXPECT_THAT(text, Not(HasSubstr("0 B")));
    EXPECT_THAT(text, Not(HasSubstr(" 0.0")));
  }
}

TEST(HostFixtures, AHostForPeople) {
  const std::string text =
      RenderFacts(Load("dgx-spark.txtpb").facts(), {100'000, false});
  EXPECT_THAT(text, HasSubstr("memory shared with the CPU"));
  EXPECT_THAT(text, HasSubstr("docker 28.5.1, runc 1.3.3, nvidia-ctk 1.18.0"));
  EXPECT_THAT(text, HasSubstr("CDI: nvidia.com/gpu=0 nvidia.com/gpu=all"));
  EXPECT_THAT(text, HasSubstr("/usr/lib/aarch64-linux-gnu: libcudnn.so.9 "
                              "libnccl.so.2"));
  EXPECT_THAT(text, HasSubstr("when no compute process is on it"));
  EXPECT_THAT(text, HasSubstr("CUPTI in "));
}

TEST(HostFixtures, PausedHostsSaySo) {
  v1::HostFacts facts = Load("dgx-spark.txtpb").facts();
  facts.set_paused(true);
  EXPECT_THAT(RenderFacts(facts, {100, false}),
              HasSubstr("paused by the host's owner"));
  const std::vector<v1::Finding> found = HostFindings(facts);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].reason().code(), "TP138");
  v1::Host host;
  host.set_name("spark-01");
  host.set_connected(true);
  *host.mutable_facts() = facts;
  EXPECT_THAT(RenderHosts({host}, absl::UnixEpoch(), {120, false}),
              HasSubstr("paused"));
}

// Healthy to those who only list GPUs (NVIDIA/DCGM#263).
TEST(DeviceFindings, GpusThatSayTheyAreNotWell) {
  v1::DeviceWatch watch;
  watch.add_after()->set_gpu_uuid("GPU-well");
  watch.mutable_after(0)->add_throttle_reasons("power");
  watch.add_after()->set_gpu_uuid("GPU-failed");
  watch.mutable_after(1)->set_remapping_failed(true);
  watch.mutable_after(1)->set_remapping_pending(true);
  watch.add_after()->set_gpu_uuid("GPU-pending");
  watch.mutable_after(2)->set_remapping_pending(true);
  watch.add_after()->set_gpu_uuid("GPU-hot");
  watch.mutable_after(3)->add_throttle_reasons("thermal");
  const std::vector<v1::Finding> found = DeviceFindings(watch.after(), "h");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].reason().code(), "TP322");
  EXPECT_THAT(found[0].reason().detail(), HasSubstr("GPU-failed"));
  EXPECT_THAT(found[0].reason().detail(), HasSubstr("failed"));
  EXPECT_THAT(found[1].reason().detail(), HasSubstr("waits for a reset"));
  EXPECT_EQ(found[2].reason().code(), "TP328");
  EXPECT_EQ(found[2].severity(), v1::SEVERITY_NOTE);
}

}  // namespace
}  // namespace twinpath::cli
