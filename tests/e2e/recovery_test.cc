// Daemons that are killed: nothing is lost, nothing is counted twice, and the
// command line rides it out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "tests/e2e/fleet.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::e2e {
namespace {

using ::testing::HasSubstr;

class RecoveryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Fleet>> fleet = Fleet::Start();
    ASSERT_THAT(fleet, IsOk());
    fleet_ = *std::move(fleet);
    ASSERT_THAT(fleet_->Write("kernel.ptx", SamplePtx()), IsOk());
    ASSERT_THAT(fleet_->Write("sweep.yaml", SampleSweep()), IsOk());
  }
  std::string StartSweep() {
    const CliResult start = fleet_->Cli({"sweep", "start", "sweep.yaml"});
    EXPECT_EQ(start.exit_code, 0) << start.err;
    return start.out.empty() ? "" : start.out.substr(0, start.out.size() - 1);
  }
  std::unique_ptr<Fleet> fleet_;
};

// Places at which the agent dies, the worst ones on purpose.
class AgentCrash : public RecoveryTest,
                   public ::testing::WithParamInterface<const char*> {};

TEST_P(AgentCrash, TheCellIsAnsweredOnceAfterTheRestart) {
  ASSERT_THAT(
      fleet_->StartAgent("spark", "dgx-spark",
                         {absl::StrCat("TWINPATH_CRASH_AT=", GetParam())}),
      IsOk());
  ASSERT_THAT(fleet_->WaitForHosts(1), IsOk());
  const std::string id = StartSweep();
  const absl::StatusOr<int> ended = fleet_->WaitForAgent("spark");
  ASSERT_THAT(ended, IsOk());
  EXPECT_TRUE(WIFSIGNALED(*ended)) << fleet_->Log("spark");
  ASSERT_THAT(fleet_->StartAgent("spark", "dgx-spark"), IsOk());
  const absl::StatusOr<v1::Sweep> sweep = fleet_->WaitForSweep(id);
  ASSERT_THAT(sweep, IsOk())
      << fleet_->Log("spark") << fleet_->Log("coordinator");
  EXPECT_EQ(sweep->state(), v1::SWEEP_STATE_DONE);
  ASSERT_EQ(sweep->cells_size(), 1);
  EXPECT_TRUE(sweep->cells(0).result().complete());
  EXPECT_TRUE(sweep->missing_hosts().empty());
}

INSTANTIATE_TEST_SUITE_P(Places, AgentCrash,
                         ::testing::Values("worker.before-spool",
                                           "spool.written",
                                           "session.before-result",
                                           "spool.before-remove"));

TEST_F(RecoveryTest, ACoordinatorThatIsKilledGoesOnWhereItWas) {
  ASSERT_THAT(fleet_->StartAgent("spark", "dgx-spark"), IsOk());
  ASSERT_THAT(fleet_->WaitForHosts(1), IsOk());
  // With its only agent away the sweep stays open over the kill.
  ASSERT_THAT(fleet_->StopAgent("spark", SIGTERM), IsOk());
  const std::string id = StartSweep();
  ASSERT_THAT(fleet_->KillCoordinator(), IsOk());
  EXPECT_EQ(fleet_->Cli({"sweep", "show", id}).exit_code, 4);
  ASSERT_THAT(fleet_->StartCoordinator(), IsOk());
  const CliResult open = fleet_->Cli({"sweep", "show", id});
  EXPECT_EQ(open.exit_code, 0) << open.err;
  EXPECT_THAT(open.out, HasSubstr("running"));
  // The same identity comes back; no second enrolment.
  ASSERT_THAT(fleet_->StartAgent("spark", "dgx-spark"), IsOk());
  const absl::StatusOr<v1::Sweep> sweep = fleet_->WaitForSweep(id);
  ASSERT_THAT(sweep, IsOk()) << fleet_->Log("coordinator");
  EXPECT_EQ(sweep->state(), v1::SWEEP_STATE_DONE);
  const auto hosts = fleet_->client().ListHosts({});
  ASSERT_THAT(hosts, IsOk());
  EXPECT_EQ(hosts->size(), 1u);
  // What was pushed is still there, and pushing again sends nothing.
  EXPECT_THAT(fleet_->Cli({"artifact", "push", "kernel.ptx"}).out,
              HasSubstr("was there already"));
}

TEST_F(RecoveryTest, WatchRidesOutARestartOfTheCoordinator) {
  ASSERT_THAT(fleet_->StartAgent("spark", "dgx-spark"), IsOk());
  ASSERT_THAT(fleet_->WaitForHosts(1), IsOk());
  ASSERT_THAT(fleet_->StopAgent("spark", SIGTERM), IsOk());
  const std::string id = StartSweep();
  int breaks = 0;
  bool restarted = false;
  const absl::StatusOr<v1::Sweep> sweep = fleet_->client().WatchSweep(
      id,
      [&](const v1::Sweep&) {
        if (restarted) return;
        restarted = true;
        // From within the stream: it is open now for certain.
        EXPECT_THAT(fleet_->KillCoordinator(), IsOk());
      },
      [&](absl::string_view) {
        if (++breaks > 1) return;
        EXPECT_THAT(fleet_->StartCoordinator(), IsOk());
        EXPECT_THAT(fleet_->StartAgent("spark", "dgx-spark"), IsOk());
      });
  ASSERT_THAT(sweep, IsOk());
  EXPECT_EQ(sweep->state(), v1::SWEEP_STATE_DONE);
  EXPECT_GE(breaks, 1);
}

}  // namespace
}  // namespace twinpath::e2e
