// The gate's exit codes over a real coordinator: pass only with evidence of a
// host that is not simulated.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/status_matchers.h"
#include "compat/profile.h"
#include "tests/e2e/fleet.h"
#include "tests/e2e/scripted_agent.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class GateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Fleet>> fleet = Fleet::Start();
    ASSERT_THAT(fleet, IsOk());
    fleet_ = *std::move(fleet);
    ASSERT_THAT(fleet_->Write("kernel.ptx", SamplePtx()), IsOk());
  }

  // A host that calls itself real, with one GPU of the profile's.
  v1::HostFacts RealFacts(const std::string& profile, const std::string& name) {
    absl::StatusOr<v1::HostFacts> facts = compat::LoadProfile(profile);
    EXPECT_THAT(facts, IsOk());
    while (facts->gpus_size() > 1) facts->mutable_gpus()->RemoveLast();
    facts->set_simulated(false);
    facts->clear_profile();
    facts->set_host_name(name);
    facts->set_machine_id("machine-" + name);
    facts->set_boot_id("11111111-2222-3333-4444-555555555555");
    return *facts;
  }

  // Such a host that answers every lease well, changed by `change`.
  absl::StatusOr<std::unique_ptr<ScriptedAgent>> StartReal(
      const std::function<void(v1::CellResult&)>& change = nullptr) {
    const v1::HostFacts facts = RealFacts("h200", "real");
    return ScriptedAgent::Start(
        fleet_->address(), fleet_->JoinTokenFile(), "real", facts,
        [facts, change](const v1::Lease& lease) {
          v1::CellResult result = GoodResult(lease, facts, "ok\n");
          if (change != nullptr) change(result);
          return result;
        });
  }

  // Starts the sweep, waits for its end, returns its id.
  std::string Sweep(const std::string& yaml) {
    EXPECT_THAT(fleet_->Write("sweep.yaml", yaml), IsOk());
    const CliResult start = fleet_->Cli({"sweep", "start", "sweep.yaml"});
    EXPECT_EQ(start.exit_code, 0) << start.err << fleet_->Log("coordinator");
    const std::string id =
        start.out.empty() ? "" : start.out.substr(0, start.out.size() - 1);
    EXPECT_THAT(fleet_->WaitForSweep(id), IsOk());
    return id;
  }

  std::unique_ptr<Fleet> fleet_;
};

// The sample's PTX has no machine code, so only these paths can hold.
constexpr char kJitPolicy[] = "policy: {native: skip}\n";

TEST_F(GateTest, PassesWithPositiveEvidenceOfARealHost) {
  const auto agent = StartReal();
  ASSERT_THAT(agent, IsOk());
  ASSERT_THAT(fleet_->WaitForHosts(1), IsOk());
  const std::string id = Sweep(SampleSweep(kJitPolicy));
  const CliResult gate = fleet_->Cli({"gate", id});
  EXPECT_EQ(gate.exit_code, 0)
      << gate.out << fleet_->Cli({"sweep", "show", id}).out;
  EXPECT_THAT(gate.out,
              AllOf(HasSubstr("verdict: pass"), HasSubstr("sha256:")));
}

TEST_F(GateTest, ASimulatedHostBesideARealOneKeepsItFromPassing) {
  const auto agent = StartReal();
  ASSERT_THAT(agent, IsOk());
  ASSERT_THAT(fleet_->StartAgent("sim", "h200"), IsOk());
  ASSERT_THAT(fleet_->WaitForHosts(2), IsOk());
  const std::string id = Sweep(SampleSweep(kJitPolicy));
  const CliResult gate = fleet_->Cli({"gate", id});
  EXPECT_EQ(gate.exit_code, 3) << gate.out;
  EXPECT_THAT(gate.out, HasSubstr("TP414"));
  EXPECT_EQ(fleet_->Cli({"gate", "--inconclusive=fail", id}).exit_code, 1);
  const CliResult passed =
      fleet_->Cli({"gate", "--inconclusive=pass-with-warning", id});
  EXPECT_EQ(passed.exit_code, 0) << passed.err;
  EXPECT_THAT(passed.err, HasSubstr("warning: "));
}

TEST_F(GateTest, SimulatedHostsAloneNeverPass) {
  ASSERT_THAT(fleet_->StartAgent("sim", "h200"), IsOk());
  ASSERT_THAT(fleet_->WaitForHosts(1), IsOk());
  const std::string id = Sweep(SampleSweep(kJitPolicy));
  EXPECT_EQ(fleet_->Cli({"gate", id}).exit_code, 3);
  const CliResult passed =
      fleet_->Cli({"gate", "--inconclusive=pass-with-warning", id});
  EXPECT_EQ(passed.exit_code, 3);
  EXPECT_THAT(passed.err, HasSubstr("no cell of a real host"));
}

TEST_F(GateTest, AFailureSeenOnARealHostFails) {
  const auto agent = StartReal([](v1::CellResult& result) {
    for (v1::Observation& seen : *result.mutable_observations()) {
      if (seen.path() == v1::PATH_PLAIN) seen.set_exit_code(4);
    }
  });
  ASSERT_THAT(agent, IsOk());
  ASSERT_THAT(fleet_->WaitForHosts(1), IsOk());
  const std::string id = Sweep(SampleSweep(kJitPolicy));
  const CliResult gate = fleet_->Cli({"gate", id});
  EXPECT_EQ(gate.exit_code, 1) << gate.out;
  EXPECT_THAT(fleet_->Cli({"sweep", "show", id}).out,
              AllOf(HasSubstr("plain exit 4"), HasSubstr("TP302")));
}

TEST_F(GateTest, AnExpectationTheArtifactLacksFails) {
  const auto agent = StartReal();
  ASSERT_THAT(agent, IsOk());
  ASSERT_THAT(fleet_->WaitForHosts(1), IsOk());
  const std::string id =
      Sweep(SampleSweep("policy: {native: skip}\nexpect: {sass: [sm_90], "
                        "kernels: [_Z4gonev]}\n"));
  const CliResult gate = fleet_->Cli({"gate", id});
  EXPECT_EQ(gate.exit_code, 1) << gate.out;
  const CliResult show = fleet_->Cli({"sweep", "show", id});
  EXPECT_THAT(show.out, AllOf(HasSubstr("TP407"), HasSubstr("sm_90"),
                              HasSubstr("TP408"), HasSubstr("_Z4gonev")));
}

TEST_F(GateTest, AHostThatGoesAwayIsNamedAndNothingPasses) {
  ASSERT_THAT(fleet_->StartAgent("away", "h200"), IsOk());
  ASSERT_THAT(fleet_->WaitForHosts(1), IsOk());
  ASSERT_THAT(fleet_->StopAgent("away", SIGKILL), IsOk());
  const std::string id = Sweep(SampleSweep("deadline: 1s\n"));
  const CliResult gate = fleet_->Cli({"gate", id});
  EXPECT_EQ(gate.exit_code, 4) << gate.out;
  EXPECT_THAT(fleet_->Cli({"sweep", "show", id}).out,
              AllOf(HasSubstr("away"), HasSubstr("TP413"),
                    Not(HasSubstr("verdict: pass"))));
}

}  // namespace
}  // namespace twinpath::e2e
