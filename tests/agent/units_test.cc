// The units are clean and keep what hardening they have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

constexpr const char* kUnits[] = {
    "twinpath-agent.service", "twinpath-coordinator.service",
    "twinpath-run.socket",    "twinpath-run@.service",
    "twinpath-oci.socket",    "twinpath-oci@.service",
    "twinpath-probe.socket",  "twinpath-probe@.service"};

class UnitsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* source = std::getenv("TWINPATH_SOURCE_DIR");
    if (source == nullptr) GTEST_SKIP() << "TWINPATH_SOURCE_DIR is not set";
    if (!Analyze({"--version"}).ok()) {
      GTEST_SKIP() << "systemd-analyze is not installed";
    }
    for (const std::string name : kUnits) {
      const std::string text =
          Slurp(absl::StrCat(source, "/deploy/systemd/", name));
      ASSERT_NE(text, "") << name;
      // The programs of these units are not installed here; any other is.
      Spit(JoinPath(temp_.path(), name),
           absl::StrReplaceAll(
               text, {{"/usr/bin/twinpath-agent", "/bin/true"},
                      {"/usr/bin/twinpath-coordinator", "/bin/true"},
                      {"/usr/libexec/twinpath/twinpath-run", "/bin/true"},
                      {"/usr/libexec/twinpath/twinpath-probe", "/bin/true"}}),
           0644);
    }
  }
  absl::StatusOr<ProcessResult> Analyze(std::vector<std::string> arguments) {
    ProcessOptions options;
    options.argv = {"systemd-analyze"};
    options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
    options.environment = MinimalEnvironment();
    // A socket is looked at together with its service.
    options.environment.push_back(
        absl::StrCat("SYSTEMD_UNIT_PATH=", temp_.path(), ":"));
    options.timeout = absl::Minutes(1);
    return RunProcess(options);
  }
  const TempDirectory temp_ = MakeTemp();
};

TEST_P(UnitsTest, IsClean) {
  const auto verified =
      Analyze({"verify", "--man=no", JoinPath(temp_.path(), GetParam())});
  ASSERT_THAT(verified, IsOk());
  EXPECT_TRUE(verified->succeeded()) << verified->err.head;
  EXPECT_EQ(verified->err.head, "");
}

// A socket has no exposure level.
class ServicesTest : public UnitsTest {};

TEST_P(ServicesTest, KeepsItsHardening) {
  // Ten times the exposure level. Measured with systemd 252: agent 0.9,
  // coordinator 0.9, run 1.0, probe 0.7.
  const auto security =
      Analyze({"security", "--offline=true", "--threshold=13", "--no-pager",
               JoinPath(temp_.path(), GetParam())});
  ASSERT_THAT(security, IsOk());
  EXPECT_TRUE(security->succeeded()) << security->out.head;
}

std::string NameOf(const ::testing::TestParamInfo<const char*>& info) {
  std::string name;
  for (const char c : absl::string_view(info.param)) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c))) name.push_back(c);
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, UnitsTest, ::testing::ValuesIn(kUnits), NameOf);
INSTANTIATE_TEST_SUITE_P(All, ServicesTest,
                         ::testing::Values("twinpath-agent.service",
                                           "twinpath-coordinator.service",
                                           "twinpath-run@.service",
                                           "twinpath-probe@.service"),
                         NameOf);

}  // namespace
}  // namespace twinpath::agent
