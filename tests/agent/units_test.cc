// The units are clean and keep what hardening they have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<ProcessResult> Analyze(std::vector<std::string> arguments) {
  ProcessOptions options;
  options.argv = {"systemd-analyze"};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.environment = MinimalEnvironment();
  options.timeout = absl::Minutes(1);
  return RunProcess(options);
}

class UnitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* source = std::getenv("TWINPATH_SOURCE_DIR");
    if (source == nullptr) GTEST_SKIP() << "TWINPATH_SOURCE_DIR is not set";
    if (!Analyze({"--version"}).ok()) {
      GTEST_SKIP() << "systemd-analyze is not installed";
    }
    for (const std::string name :
         {"twinpath-agent.service", "twinpath-coordinator.service"}) {
      // The program of this unit is not installed here; any other is.
      Spit(JoinPath(temp_.path(), name),
           absl::StrReplaceAll(
               Slurp(absl::StrCat(source, "/deploy/systemd/", name)),
               {{"/usr/bin/twinpath-agent", "/bin/true"},
                {"/usr/bin/twinpath-coordinator", "/bin/true"}}),
           0644);
    }
  }
  // `most` is ten times the exposure level.
  void Check(const std::string& name, const std::string& most) {
    const std::string path = JoinPath(temp_.path(), name);
    const auto verified = Analyze({"verify", path});
    ASSERT_THAT(verified, IsOk());
    EXPECT_TRUE(verified->succeeded()) << verified->err.head;
    EXPECT_EQ(verified->err.head, "");
    const auto security =
        Analyze({"security", "--offline=true",
                 absl::StrCat("--threshold=", most), "--no-pager", path});
    ASSERT_THAT(security, IsOk());
    EXPECT_TRUE(security->succeeded()) << security->out.head;
  }
  const TempDirectory temp_ = MakeTemp();
};

// Most of what is open is what bubblewrap needs to confine runs.
TEST_F(UnitsTest, Agent) { Check("twinpath-agent.service", "31"); }

TEST_F(UnitsTest, Coordinator) { Check("twinpath-coordinator.service", "15"); }

}  // namespace
}  // namespace twinpath::agent
