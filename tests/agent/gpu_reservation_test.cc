#include "agent/gpu_reservation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/agent/crash.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Answer = GpuReservations::Answer;

class GpuReservationTest : public ::testing::Test {
 protected:
  GpuReservationTest() {
    EXPECT_THAT(MakeDirectories(Owed()), IsOk());
    // Both write what they saw behind each other.
    SetReserve("exit 0");
    Script("release", "");
    commands_.release = {Path("release"), "--give-back"};
  }
  std::string Path(const std::string& name) const {
    return JoinPath(temp_.path(), name);
  }
  std::string Owed() const { return Path("owed"); }
  void Script(const std::string& name, const std::string& end) {
    Spit(Path(name),
         absl::StrCat("#!/bin/sh\necho \"", name,
                      " $* cell=$TWINPATH_CELL gpus=$TWINPATH_GPU_UUIDS\" >> ",
                      Path("log"), "\n", end, "\n"),
         0755);
  }
  void SetReserve(const std::string& end) {
    Script("reserve", end);
    commands_.reserve = {Path("reserve"), "--exclusive"};
  }
  std::string Log() const {
    return ReadFile(Path("log"), 1 << 20).value_or("");
  }
  GpuReservations::Outcome Reserve(GpuReservations& reservations) {
    return reservations.Reserve("cell-1", {"GPU-1", "GPU-2"}, nullptr);
  }

  const TempDirectory temp_ = MakeTemp();
  ReservationCommands commands_;
};

TEST_F(GpuReservationTest, GrantedUntilTheHoldIsLetGo) {
  GpuReservations reservations(commands_, Owed());
  GpuReservations::Outcome outcome = Reserve(reservations);
  EXPECT_EQ(outcome.answer, Answer::kGranted) << outcome.detail;
  EXPECT_EQ(Log(), "reserve --exclusive cell=cell-1 gpus=GPU-1,GPU-2\n");
  EXPECT_THAT(FilesBelow(Owed()), SizeIs(1));
  // While it is held nobody makes up for it.
  EXPECT_EQ(reservations.ReleaseOwed(), 0u);
  EXPECT_THAT(FilesBelow(Owed()), SizeIs(1));
  outcome.hold.reset();
  EXPECT_EQ(Log(),
            "reserve --exclusive cell=cell-1 gpus=GPU-1,GPU-2\n"
            "release --give-back cell=cell-1 gpus=GPU-1,GPU-2\n");
  EXPECT_THAT(FilesBelow(Owed()), IsEmpty());
}

TEST_F(GpuReservationTest, NotNowIsBusyAndOwesNothing) {
  SetReserve("echo 'job 17 is in the queue' >&2; exit 75");
  GpuReservations reservations(commands_, Owed());
  const GpuReservations::Outcome outcome = Reserve(reservations);
  EXPECT_EQ(outcome.answer, Answer::kBusy);
  EXPECT_THAT(outcome.detail, HasSubstr("job 17 is in the queue"));
  EXPECT_THAT(Log(), ::testing::Not(HasSubstr("release")));
  EXPECT_THAT(FilesBelow(Owed()), IsEmpty());
}

TEST_F(GpuReservationTest, OtherExitCodesFailAndOweNothing) {
  SetReserve("echo no such partition; exit 2");
  GpuReservations reservations(commands_, Owed());
  const GpuReservations::Outcome outcome = Reserve(reservations);
  EXPECT_EQ(outcome.answer, Answer::kFailed);
  EXPECT_THAT(outcome.detail, HasSubstr("exit 2: no such partition"));
  EXPECT_THAT(FilesBelow(Owed()), IsEmpty());
}

TEST_F(GpuReservationTest, ProgramThatIsNotThereFails) {
  commands_.reserve = {Path("nothing")};
  GpuReservations reservations(commands_, Owed());
  const GpuReservations::Outcome outcome = Reserve(reservations);
  EXPECT_EQ(outcome.answer, Answer::kFailed);
  EXPECT_THAT(outcome.detail, HasSubstr("nothing"));
  EXPECT_THAT(FilesBelow(Owed()), IsEmpty());
}

// It may have granted them before it was ended.
TEST_F(GpuReservationTest, OneThatIsEndedIsReleased) {
  SetReserve("exec sleep 1000");
  commands_.timeout = absl::Milliseconds(300);
  GpuReservations reservations(commands_, Owed());
  EXPECT_EQ(Reserve(reservations).answer, Answer::kFailed);
  EXPECT_THAT(Log(), HasSubstr("release --give-back cell=cell-1"));
  EXPECT_THAT(FilesBelow(Owed()), IsEmpty());
}

TEST_F(GpuReservationTest, CancelledIsReleased) {
  SetReserve("exec sleep 1000");
  GpuReservations reservations(commands_, Owed());
  EXPECT_EQ(
      reservations.Reserve("cell-1", {"GPU-1"}, [] { return true; }).answer,
      Answer::kFailed);
  EXPECT_THAT(Log(), HasSubstr("release"));
}

TEST_F(GpuReservationTest, ReleaseThatFailsIsTriedAgain) {
  Script("release", "exit 1");
  GpuReservations reservations(commands_, Owed());
  Reserve(reservations).hold.reset();
  EXPECT_THAT(FilesBelow(Owed()), SizeIs(1));
  EXPECT_EQ(reservations.ReleaseOwed(), 1u);
  EXPECT_THAT(FilesBelow(Owed()), SizeIs(1));
  Script("release", "exit 0");
  EXPECT_EQ(reservations.ReleaseOwed(), 0u);
  EXPECT_THAT(FilesBelow(Owed()), IsEmpty());
  EXPECT_THAT(Log(), ::testing::EndsWith(
                         "release --give-back cell=cell-1 gpus=GPU-1,GPU-2\n"));
}

// Ended at each named point: the release is made up for by the next agent.
TEST_F(GpuReservationTest, AfterACrashTheReleaseIsMadeUpFor) {
  for (const char* point :
       {"reservation.owed", "reservation.granted", "reservation.released"}) {
    (void)RemoveTree(Path("log"));
    EXPECT_TRUE(CrashAt(point, 1, [this] {
      GpuReservations reservations(commands_, Owed());
      Reserve(reservations).hold.reset();
    })) << point;
    EXPECT_THAT(FilesBelow(Owed()), SizeIs(1)) << point;
    GpuReservations reservations(commands_, Owed());
    EXPECT_EQ(reservations.ReleaseOwed(), 0u) << point;
    EXPECT_THAT(FilesBelow(Owed()), IsEmpty()) << point;
    EXPECT_THAT(Log(), HasSubstr("release --give-back cell=cell-1")) << point;
  }
}

// The old release would end what the new reservation was granted.
TEST_F(GpuReservationTest, OwedReleaseWaitsWhileItsGpuIsHeld) {
  GpuReservations reservations(commands_, Owed());
  GpuReservations::Outcome outcome = Reserve(reservations);
  ASSERT_EQ(outcome.answer, Answer::kGranted) << outcome.detail;
  Spit(JoinPath(Owed(), "0011.owed"), "old\nGPU-2\nGPU-3\n", 0600);
  EXPECT_EQ(reservations.ReleaseOwed(), 1u);
  EXPECT_THAT(Log(), ::testing::Not(HasSubstr("cell=old")));
  // Another GPU of that release is no reason either.
  EXPECT_EQ(reservations.Reserve("cell-3", {"GPU-3"}, nullptr).answer,
            Answer::kBusy);
  outcome.hold.reset();
  EXPECT_EQ(reservations.ReleaseOwed(), 0u);
  EXPECT_THAT(Log(),
              HasSubstr("release --give-back cell=old gpus=GPU-2,GPU-3"));
  EXPECT_THAT(FilesBelow(Owed()), IsEmpty());
}

TEST_F(GpuReservationTest, ReserveMakesUpForOwedReleasesOfItsGpusFirst) {
  Spit(JoinPath(Owed(), "0011.owed"), "old\nGPU-2\n", 0600);
  Spit(JoinPath(Owed(), "0022.owed"), "other\nGPU-7\n", 0600);
  Script("release", "exit 1");
  GpuReservations reservations(commands_, Owed());
  const GpuReservations::Outcome busy = Reserve(reservations);
  EXPECT_EQ(busy.answer, Answer::kBusy);
  EXPECT_THAT(busy.detail, HasSubstr("not released yet"));
  EXPECT_EQ(Log(), "release --give-back cell=old gpus=GPU-2\n");
  EXPECT_THAT(FilesBelow(Owed()), SizeIs(2));
  Script("release", "exit 0");
  const GpuReservations::Outcome granted = Reserve(reservations);
  EXPECT_EQ(granted.answer, Answer::kGranted) << granted.detail;
  EXPECT_THAT(Log(), ::testing::EndsWith(
                         "release --give-back cell=old gpus=GPU-2\n"
                         "reserve --exclusive cell=cell-1 gpus=GPU-1,GPU-2\n"));
}

TEST_F(GpuReservationTest, ReserveIsBusyWhileItsGpuIsHeld) {
  GpuReservations reservations(commands_, Owed());
  const GpuReservations::Outcome first = Reserve(reservations);
  EXPECT_EQ(reservations.Reserve("cell-2", {"GPU-2"}, nullptr).answer,
            Answer::kBusy);
  EXPECT_EQ(reservations.Reserve("cell-2", {"GPU-3"}, nullptr).answer,
            Answer::kGranted);
}

TEST_F(GpuReservationTest, FilesThatCannotBeReadStayOwed) {
  // Over the limit of such a file.
  Spit(JoinPath(Owed(), "0011.owed"), std::string(100 << 10, 'x'), 0600);
  GpuReservations reservations(commands_, Owed());
  EXPECT_EQ(reservations.ReleaseOwed(), 1u);
  EXPECT_THAT(FilesBelow(Owed()), ElementsAre("0011.owed"));
  EXPECT_EQ(Reserve(reservations).answer, Answer::kGranted);
}

// A cell's id comes from outside.
TEST_F(GpuReservationTest, NamesOfCellsAreNoLines) {
  GpuReservations reservations(commands_, Owed());
  GpuReservations::Outcome outcome =
      reservations.Reserve("a\nGPU-9\n", {"GPU-1"}, nullptr);
  EXPECT_EQ(outcome.answer, Answer::kGranted);
  EXPECT_THAT(Log(), HasSubstr("cell=a\\x0aGPU-9\\x0a gpus=GPU-1\n"));
}

TEST_F(GpuReservationTest, DamagedFilesOweNothingForEver) {
  Spit(JoinPath(Owed(), "0011.owed"), std::string("\x00\xff", 2), 0600);
  Spit(JoinPath(Owed(), "note.txt"), "x", 0600);
  GpuReservations reservations(commands_, Owed());
  EXPECT_EQ(reservations.ReleaseOwed(), 0u);
  EXPECT_THAT(FilesBelow(Owed()), ElementsAre("note.txt"));
}

}  // namespace
}  // namespace twinpath::agent
