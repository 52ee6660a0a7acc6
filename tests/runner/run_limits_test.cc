// Programs that do not end, take too much, or leave something behind.

#include <fcntl.h>
#include <sys/file.h>

#include "tests/runner/run_fixture.h"

namespace twinpath::runner {
namespace {

using ::testing::HasSubstr;

class RunLimits : public RunFixture {};

TEST_F(RunLimits, EndsAtTheTimeLimit) {
  v1::RunRequest request = Request({"sleep"});
  request.mutable_entry()->mutable_timeout()->set_nanos(200'000'000);
  EXPECT_EQ(Run(request).ending(), v1::ENDING_TIMED_OUT);
}

TEST_F(RunLimits, EndsAlsoWhenSigtermIsIgnored) {
  v1::RunRequest request = Request({"ignore-term"});
  request.mutable_entry()->mutable_timeout()->set_nanos(200'000'000);
  EXPECT_EQ(Run(request).ending(), v1::ENDING_TIMED_OUT);
}

TEST_F(RunLimits, DaemonisedChildrenDieWithTheRun) {
  const std::string lock = JoinPath(work_->path(), "home/lock");
  const v1::Observation run = Run({"daemon", lock});
  ASSERT_EQ(run.ending(), v1::ENDING_EXITED) << run.ShortDebugString();
  ASSERT_EQ(run.exit_code(), 0);
  // The daemon held the lock; the kernel gives it up with the last of it.
  const UniqueFd fd(open(lock.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(fd.valid());
  EXPECT_EQ(flock(fd.get(), LOCK_EX | LOCK_NB), 0);
}

TEST_F(RunLimits, DaemonisedChildrenDieAtTheTimeLimit) {
  const std::string lock = JoinPath(work_->path(), "home/lock");
  v1::RunRequest request = Request({});
  request.mutable_entry()->set_command(0, "/bin/sh");
  request.mutable_entry()->add_command("-c");
  request.mutable_entry()->add_command("./runner_test_program daemon " + lock +
                                       "; exec sleep 1000000");
  request.mutable_entry()->mutable_timeout()->set_seconds(2);
  const v1::Observation run = Run(request);
  ASSERT_EQ(run.ending(), v1::ENDING_TIMED_OUT) << run.ShortDebugString();
  const UniqueFd fd(open(lock.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(fd.valid());
  EXPECT_EQ(flock(fd.get(), LOCK_EX), 0);
}

TEST_F(RunLimits, ForkBombIsBounded) {
  v1::RunRequest request = Request({"fork-bomb"});
  request.mutable_entry()->mutable_timeout()->set_seconds(100);
  const v1::Observation run = Run(request);
  if (run.ending() == v1::ENDING_EXITED) {
    // The kernel's limit, which binds everybody but root.
    EXPECT_EQ(run.exit_code(), 7);
    EXPECT_THAT(run.stdout().head(), HasSubstr("told no"));
  } else {
    EXPECT_EQ(run.ending(), v1::ENDING_SIGNALED) << run.ShortDebugString();
    EXPECT_THAT(run.problem(), HasSubstr("task limit"));
  }
}

TEST_F(RunLimits, MemoryOfTheWholeTreeIsWatched) {
  v1::RunRequest request = Request({"allocate", "200000000"});
  request.mutable_entry()->set_memory_bytes(100'000'000);
  const v1::Observation run = Run(request);
  EXPECT_EQ(run.ending(), v1::ENDING_SIGNALED);
  EXPECT_THAT(run.problem(), HasSubstr("memory limit"));
}

TEST_F(RunLimits, BelowTheMemoryLimitTheSameProgramGoesOn) {
  v1::RunRequest request = Request({"allocate", "200000000"});
  request.mutable_entry()->set_memory_bytes(1'000'000'000);
  request.mutable_entry()->mutable_timeout()->set_seconds(1);
  EXPECT_EQ(Run(request).ending(), v1::ENDING_TIMED_OUT);
}

TEST_F(RunLimits, CancelledRunIsInterrupted) {
  const v1::Observation run =
      RunInChild(Request({"sleep"}), absl::Minutes(4), [] { return true; });
  EXPECT_EQ(run.ending(), v1::ENDING_INTERRUPTED);
}

TEST_F(RunLimits, DeadlineEndsTheWholeRun) {
  const v1::Observation run =
      RunInChild(Request({"sleep"}), absl::Seconds(1), nullptr);
  EXPECT_EQ(run.ending(), v1::ENDING_TIMED_OUT);
  EXPECT_THAT(run.problem(), HasSubstr("ended as a whole"));
}

}  // namespace
}  // namespace twinpath::runner
