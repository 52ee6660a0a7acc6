// When a run may use a GPU: it is free, the host allows it, or the host's own
// commands reserve it.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/agent/host_processor_fixture.h"

namespace twinpath::agent {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST_F(HostProcessorTest, ABusyGpuIsWaitedForUntilItIsFree) {
  facts_now_ = Facts(/*processes=*/1);
  control_.on_wait = [this] {
    if (control_.waits == 3) facts_now_ = Facts(0);
  };
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.result);
  EXPECT_TRUE(outcome.result->complete());
  EXPECT_EQ(control_.waits, 3);
  EXPECT_THAT(control_.progress, Contains(HasSubstr("1 compute process")));
}

TEST_F(HostProcessorTest, AGpuThatStaysBusyGivesTheLeaseBack) {
  facts_now_ = Facts(/*processes=*/1);
  control_.on_wait = [this] { control_.may_start = control_.waits < 5; };
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.refusal);
  EXPECT_EQ(outcome.refusal->code(), "TP111");
  EXPECT_EQ(runs_, 0);
}

TEST_F(HostProcessorTest, TheHostsPolicyMayAllowABusyGpu) {
  facts_now_ = Facts(/*processes=*/1);
  policy_ = GpuPolicy::kAlways;
  EXPECT_TRUE(Process().result);
  EXPECT_EQ(control_.waits, 0);
}

// The host's own commands, and what each of their answers leads to.
class ReservedTest : public HostProcessorTest {
 protected:
  ReservedTest() {
    policy_ = GpuPolicy::kReserved;
    EXPECT_THAT(MakeDirectories(JoinPath(temp_.path(), "owed")), IsOk());
    commands_.release = {Script("release", "echo released >> log")};
  }
  std::string Script(const std::string& name, const std::string& text) {
    const std::string path = JoinPath(temp_.path(), name);
    Spit(path, absl::StrCat("#!/bin/sh\ncd ", temp_.path(), "\n", text, "\n"),
         0755);
    return path;
  }
  void Reserve(const std::string& text) {
    commands_.reserve = {Script("reserve", text)};
    reservations_ = std::make_unique<GpuReservations>(
        commands_, JoinPath(temp_.path(), "owed"));
  }
  std::string Log() const {
    return ReadFile(JoinPath(temp_.path(), "log"), 1000).value_or("");
  }
  ReservationCommands commands_;
};

TEST_F(ReservedTest, RunsBetweenReserveAndRelease) {
  // Reserved is reserved: who else computes there is not asked.
  facts_now_ = Facts(/*processes=*/1);
  Reserve("echo $TWINPATH_CELL $TWINPATH_GPU_UUIDS >> log");
  in_run_ = [this](const std::string&, const runner::AttemptHooks&) {
    EXPECT_EQ(Log(), "cell-1 GPU-1\n");
  };
  CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.result);
  EXPECT_TRUE(outcome.result->complete());
  EXPECT_EQ(runs_, 1);
  // The worker lets go once the result is safe.
  EXPECT_EQ(Log(), "cell-1 GPU-1\n");
  outcome.hold.reset();
  EXPECT_EQ(Log(), "cell-1 GPU-1\nreleased\n");
}

TEST_F(ReservedTest, NotGrantedIsWaitedFor) {
  Reserve("echo asked >> log; test $(wc -l < log) -ge 3 || exit 75");
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.result);
  EXPECT_TRUE(outcome.result->complete());
  EXPECT_EQ(control_.waits, 2);
  EXPECT_THAT(control_.progress, Contains(HasSubstr("does not grant it now")));
}

TEST_F(ReservedTest, NeverGrantedGivesTheLeaseBackAsBusy) {
  Reserve("exit 75");
  control_.on_wait = [this] { control_.may_start = control_.waits < 3; };
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.refusal);
  EXPECT_EQ(outcome.refusal->code(), "TP111");
  EXPECT_EQ(runs_, 0);
}

TEST_F(ReservedTest, CommandThatFailsIsNamed) {
  Reserve("echo no such partition >&2; exit 2");
  control_.on_wait = [this] { control_.may_start = false; };
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.refusal);
  EXPECT_EQ(outcome.refusal->code(), "TP137");
  EXPECT_THAT(outcome.refusal->detail(), HasSubstr("no such partition"));
  EXPECT_EQ(runs_, 0);
}

TEST_F(ReservedTest, GrantedTooLateIsReleased) {
  Reserve("exit 0");
  // The lease runs out while the host is asked.
  control_.may_start = true;
  facts_now_.mutable_gpu_probe()->set_state(v1::PROBE_STATE_HUNG);
  {
    const CellOutcome outcome = Process();
    ASSERT_TRUE(outcome.result);
    EXPECT_FALSE(outcome.result->complete());
  }
  EXPECT_EQ(Log(), "released\n");
}

TEST_F(HostProcessorTest, NothingStartsOnADriverThatHangs) {
  facts_now_.mutable_gpu_probe()->set_state(v1::PROBE_STATE_HUNG);
  const CellOutcome outcome = Process();
  ASSERT_TRUE(outcome.result);
  EXPECT_FALSE(outcome.result->complete());
  EXPECT_EQ(outcome.result->problems(0).code(), "TP103");
  EXPECT_EQ(runs_, 0);
}

}  // namespace
}  // namespace twinpath::agent
