// The probe against the fake driver set up as each recorded host says
// (tests/data/hosts, lines "# fake:"): the fake's answers become the facts that
// are recorded, missing figures stay missing.

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "runner/probe.h"
#include "twinpath/v1/cli.pb.h"

namespace twinpath::runner {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "." : value;
}

TEST(HostFixtures, TheProbeFindsWhatIsRecorded) {
  const std::string folder =
      JoinPath(Variable("TWINPATH_SOURCE_DIR"), "tests/data/hosts");
  const auto files = ListDirectory(folder);
  ASSERT_THAT(files, IsOk());
  int probed = 0;
  for (const std::string& file : *files) {
    SCOPED_TRACE(file);
    const auto text = ReadFile(JoinPath(folder, file), 1 << 20);
    ASSERT_THAT(text, IsOk());
    std::string words;
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      if (absl::ConsumePrefix(&line, "# fake: ")) {
        absl::StrAppend(&words, line, " ");
      }
    }
    if (words.empty()) continue;
    ++probed;
    v1::DoctorOutput recorded;
    ASSERT_TRUE(
        google::protobuf::TextFormat::ParseFromString(*text, &recorded));
    const v1::HostFacts& facts = recorded.facts();
    v1::ProbeRequest request;
    request.set_driver(true);
    request.set_ptx_isa_ceiling(true);
    ProbeOptions options;
    options.library_directory =
        JoinPath(Variable("TWINPATH_BIN_DIR"), "fake_drivers/full");
    options.environment = {absl::StrCat("TWINPATH_FAKE_CUDA=", words)};
    const auto response = ProbeInChild(request, absl::Minutes(2), options);
    ASSERT_THAT(response, IsOk());
    EXPECT_EQ(response->driver().probe().state(),
              facts.driver().probe().state());
    EXPECT_EQ(response->driver().probe().cuda_error(),
              facts.driver().probe().cuda_error());
    EXPECT_EQ(response->driver().cuda_version().ShortDebugString(),
              facts.driver().cuda_version().ShortDebugString());
    EXPECT_EQ(response->driver().ptx_isa_ceiling().ShortDebugString(),
              facts.driver().ptx_isa_ceiling().ShortDebugString());
    EXPECT_EQ(response->gpu_probe().state(), facts.gpu_probe().state());
    ASSERT_EQ(response->gpus_size(), facts.gpus_size())
        << response->ShortDebugString();
    for (int i = 0; i < facts.gpus_size(); ++i) {
      const v1::Gpu& seen = response->gpus(i);
      const v1::Gpu& gpu = facts.gpus(i);
      SCOPED_TRACE(gpu.name());
      EXPECT_EQ(seen.uuid(), gpu.uuid());
      EXPECT_EQ(seen.parent_uuid(), gpu.parent_uuid());
      EXPECT_EQ(seen.capability_probe().state(),
                gpu.capability_probe().state());
      EXPECT_EQ(seen.compute_capability().ShortDebugString(),
                gpu.compute_capability().ShortDebugString());
      EXPECT_EQ(seen.has_memory_bytes(), gpu.has_memory_bytes());
      if (gpu.parent_uuid().empty()) {
        EXPECT_EQ(seen.name(), gpu.name());
        EXPECT_EQ(seen.has_ecc_enabled(), gpu.has_ecc_enabled());
      }
      if (gpu.mig_mode() == v1::MIG_MODE_ENABLED) {
        EXPECT_EQ(seen.mig_mode(), gpu.mig_mode());
      }
      EXPECT_EQ(seen.has_compute_processes(), gpu.has_compute_processes());
    }
  }
  EXPECT_GE(probed, 8);
}

}  // namespace
}  // namespace twinpath::runner
