// Push, sweep, watch, show: the main path over simulated hosts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "base/status_matchers.h"
#include "cli/json.h"
#include "tests/e2e/fleet.h"
#include "twinpath/v1/services.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SweepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Fleet>> fleet = Fleet::Start();
    ASSERT_THAT(fleet, IsOk());
    fleet_ = *std::move(fleet);
    ASSERT_THAT(fleet_->Write("kernel.ptx", SamplePtx()), IsOk());
    ASSERT_THAT(fleet_->Write("sweep.yaml", SampleSweep()), IsOk());
  }
  std::unique_ptr<Fleet> fleet_;
};

TEST_F(SweepTest, PushStoresOnceAndListsIt) {
  const CliResult first =
      fleet_->Cli({"artifact", "push", "kernel.ptx", "--name", "sample"});
  EXPECT_EQ(first.exit_code, 0) << first.err << fleet_->Log("coordinator");
  EXPECT_THAT(first.out,
              AllOf(HasSubstr("sample"), Not(HasSubstr("was there already"))));
  const CliResult second =
      fleet_->Cli({"artifact", "push", "kernel.ptx", "--name", "sample"});
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("was there already"));
  const CliResult list = fleet_->Cli({"artifact", "ls"});
  EXPECT_THAT(list.out,
              AllOf(HasSubstr("sample"), HasSubstr(first.out.substr(0, 12))));
}

TEST_F(SweepTest, PushTakesARootSpeltOtherwiseThanTheFile) {
  const CliResult result = fleet_->Cli(
      {"artifact", "push", "--root", fleet_->folder(), "kernel.ptx"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 file, "));
  EXPECT_EQ(fleet_
                ->Cli({"artifact", "push", "--root", ".",
                       fleet_->folder() + "/kernel.ptx"})
                .exit_code,
            0);
}

TEST_F(SweepTest, HostsOfALabelNoHostHasAreNotAnEmptyFleet) {
  const CliResult result = fleet_->Cli({"hosts", "--label", "site=moon"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("no host is labelled site=moon"),
                                Not(HasSubstr("start an agent"))));
}

TEST_F(SweepTest, SimulatedHostsGiveAMatrixWithReasonsAndFixes) {
  ASSERT_THAT(fleet_->StartAgent("spark-001", "dgx-spark"), IsOk());
  ASSERT_THAT(fleet_->StartAgent("spark-002", "dgx-spark"), IsOk());
  ASSERT_THAT(fleet_->StartAgent("h200", "h200"), IsOk());
  ASSERT_THAT(fleet_->WaitForHosts(3), IsOk());

  const CliResult hosts = fleet_->Cli({"hosts"});
  EXPECT_THAT(hosts.out,
              AllOf(HasSubstr("spark-001 (simulated)"),
                    HasSubstr("NVIDIA GB10 12.1"), HasSubstr("connected")));

  const CliResult result =
      fleet_->Cli({"sweep", "start", "sweep.yaml", "--watch"});
  // PTX only: native is required and fails everywhere.
  EXPECT_EQ(result.exit_code, 1)
      << result.out << result.err << fleet_->Log("coordinator");
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("spark-[001-002] (simulated)"),
                    HasSubstr("native 223 / jit ok"), HasSubstr("TP205"),
                    HasSubstr("fix: "), HasSubstr("verdict: fail")));

  const CliResult list = fleet_->Cli({"sweep", "list", "--format", "json"});
  v1::ListSweepsResponse sweeps;
  ASSERT_THAT(cli::FromJson(list.out, "out", &sweeps), IsOk());
  ASSERT_EQ(sweeps.sweeps_size(), 1);
  const std::string id = sweeps.sweeps(0).id();

  const CliResult show = fleet_->Cli({"sweep", "show", id, "--format", "json"});
  EXPECT_EQ(show.exit_code, 0) << show.err;
  v1::Sweep sweep;
  ASSERT_THAT(cli::FromJson(show.out, "out", &sweep), IsOk());
  EXPECT_EQ(sweep.state(), v1::SWEEP_STATE_DONE);
  EXPECT_GE(sweep.cells_size(), 3);
  for (const v1::Cell& cell : sweep.cells()) {
    EXPECT_TRUE(cell.simulated());
    EXPECT_TRUE(cell.result().simulated());
    EXPECT_NE(cell.verdict().kind(), v1::VERDICT_KIND_PASS);
  }
}

TEST_F(SweepTest, StartPrintsTheIdAloneOnStandardOutput) {
  ASSERT_THAT(fleet_->StartAgent("h200", "h200"), IsOk());
  ASSERT_THAT(fleet_->WaitForHosts(1), IsOk());
  const CliResult start = fleet_->Cli({"sweep", "start", "sweep.yaml"});
  ASSERT_EQ(start.exit_code, 0) << start.err;
  ASSERT_FALSE(start.out.empty());
  const std::string id = start.out.substr(0, start.out.size() - 1);
  EXPECT_THAT(id, Not(HasSubstr("\n")));
  ASSERT_THAT(fleet_->WaitForSweep(id), IsOk());
  EXPECT_EQ(fleet_->Cli({"sweep", "watch", id}).exit_code, 1);
}

TEST_F(SweepTest, DryRunSendsNothing) {
  const CliResult result =
      fleet_->Cli({"sweep", "start", "sweep.yaml", "--dry-run"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(fleet_->Cli({"artifact", "ls"}).out, "");
}

TEST_F(SweepTest, ASweepWithoutHostsIsInconclusive) {
  const CliResult result =
      fleet_->Cli({"sweep", "start", "sweep.yaml", "--watch"});
  EXPECT_THAT(result.exit_code, ::testing::AnyOf(3, 4))
      << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("TP412"));
  EXPECT_THAT(result.err, HasSubstr("no host fits"));
}

TEST_F(SweepTest, ACancelledSweepSaysSo) {
  // An expected host that never comes keeps the sweep open.
  ASSERT_THAT(fleet_->StartAgent("h200", "h200"), IsOk());
  ASSERT_THAT(fleet_->WaitForHosts(1), IsOk());
  ASSERT_THAT(fleet_->StopAgent("h200", SIGKILL), IsOk());
  const CliResult start = fleet_->Cli({"sweep", "start", "sweep.yaml"});
  ASSERT_EQ(start.exit_code, 0) << start.err;
  const std::string id = start.out.substr(0, start.out.size() - 1);
  EXPECT_EQ(fleet_->Cli({"gate", id}).exit_code, 3);
  EXPECT_EQ(fleet_->Cli({"sweep", "cancel", id}).exit_code, 0);
  const CliResult watch = fleet_->Cli({"sweep", "watch", id});
  EXPECT_EQ(watch.exit_code, 3) << watch.out << watch.err;
  EXPECT_THAT(watch.out, AllOf(HasSubstr("cancelled"), HasSubstr("h200")));
}

// Without keys a host runs nothing, and it says so.
TEST_F(SweepTest, TheRealHostRefusesWhatIsNotSigned) {
  ASSERT_THAT(fleet_->StartAgent("here", ""), IsOk());
  ASSERT_THAT(fleet_->WaitForHosts(1), IsOk());
  EXPECT_THAT(fleet_->Cli({"hosts", "show", "here"}).out,
              Not(HasSubstr("unsigned")));
  const CliResult result = fleet_->Cli(
      {"--format", "json", "sweep", "start", "sweep.yaml", "--watch"});
  EXPECT_NE(result.exit_code, 0) << result.out;
  EXPECT_THAT(result.out, Not(HasSubstr("ENDING_EXITED")));
  if (absl::StrContains(result.out, "TP318")) {
    GTEST_SKIP() << "no GPU here, so that no run was asked for";
  }
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("TP130"), HasSubstr("ENDING_NOT_STARTED")));
}

TEST_F(SweepTest, TheRealHostIsShownAsItIs) {
  ASSERT_THAT(fleet_->StartAgent("here", "", {}, "allow_unsigned_runs: true\n"),
              IsOk());
  ASSERT_THAT(fleet_->WaitForHosts(1), IsOk());
  EXPECT_THAT(fleet_->Log("here"), HasSubstr("allow_unsigned_runs"));
  const CliResult hosts = fleet_->Cli({"hosts", "show", "here"});
  EXPECT_EQ(hosts.exit_code, 0) << hosts.err;
  EXPECT_THAT(hosts.out, HasSubstr("unsigned"));
  EXPECT_THAT(hosts.out, Not(HasSubstr("simulated")));
  const CliResult result =
      fleet_->Cli({"sweep", "start", "sweep.yaml", "--watch"});
  // Neither a host without GPU nor /bin/true proves anything about the PTX.
  EXPECT_NE(result.exit_code, 0) << result.out;
  EXPECT_THAT(result.out, Not(HasSubstr("verdict: pass")));
}

}  // namespace
}  // namespace twinpath::e2e
