// I3: an attempt is on disk before it starts, and one that cannot be accounted
// for is `interrupted`. Each test kills the agent at a named point and looks at
// what the next one makes of it.

#include "agent/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "agent/record.h"
#include "agent/spool.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/agent/crash.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

const absl::Time kNow = absl::FromUnixSeconds(3600);

v1::CellResult Head(const std::string& result_id) {
  v1::CellResult head;
  head.set_result_id(result_id);
  head.set_cell_id("cell-1");
  head.set_lease_id("lease-1");
  head.add_staged()->set_name("check");
  return head;
}

v1::Observation Attempt(const std::string& id, v1::Path path) {
  v1::Observation attempt;
  attempt.set_attempt_id(id);
  attempt.set_path(path);
  attempt.set_gpu_uuid("GPU-1");
  return attempt;
}

v1::Observation Ended(v1::Observation attempt, int exit_code) {
  attempt.set_ending(v1::ENDING_EXITED);
  attempt.set_exit_code(exit_code);
  return attempt;
}

// What an agent does with one cell of two paths.
void RunCell(const std::string& folder) {
  Journal journal(folder);
  auto cell = journal.Begin(Head("aa"));
  if (!cell.ok()) return;
  for (const v1::Path path : {v1::PATH_NATIVE, v1::PATH_PLAIN}) {
    const v1::Observation attempt =
        Attempt(path == v1::PATH_NATIVE ? "a1" : "a2", path);
    if (!(*cell)->BeforeAttempt(attempt).ok()) return;
    if (!(*cell)->AfterAttempt(Ended(attempt, 0)).ok()) return;
  }
  (void)(*cell)->Close();
}

std::vector<v1::Ending> EndingsAfterCrash(absl::string_view point,
                                          int occurrence) {
  const TempDirectory temp = MakeTemp();
  EXPECT_TRUE(CrashAt(point, occurrence, [&] { RunCell(temp.path()); }))
      << point;
  Journal journal(temp.path());
  const auto recovered = journal.Recover(kNow);
  EXPECT_THAT(recovered, IsOk());
  std::vector<v1::Ending> endings;
  if (!recovered.ok() || recovered->empty()) return endings;
  EXPECT_THAT(*recovered, SizeIs(1));
  const v1::CellResult& result = recovered->front();
  EXPECT_EQ(result.result_id(), "aa");
  EXPECT_EQ(result.cell_id(), "cell-1");
  EXPECT_EQ(result.lease_id(), "lease-1");
  EXPECT_EQ(result.staged_size(), 1);
  EXPECT_FALSE(result.complete());
  EXPECT_EQ(result.problems(0).code(), "TP307");
  EXPECT_EQ(result.finish_time().seconds(), 3600);
  for (const v1::Observation& observation : result.observations()) {
    endings.push_back(observation.ending());
  }
  return endings;
}

using Endings = std::vector<v1::Ending>;

TEST(Journal, NothingBegunIsNothingInterrupted) {
  EXPECT_THAT(EndingsAfterCrash("journal.before-begin", 1), IsEmpty());
  EXPECT_THAT(EndingsAfterCrash("journal.begun", 1), IsEmpty());
}

TEST(Journal, AnAttemptIsInterruptedFromTheMomentItIsSynced) {
  // Written but not yet synced: the process died with it, the page cache did
  // not, so it may be there. Never may it be missing once it was synced.
  EXPECT_EQ(EndingsAfterCrash("journal.attempt-synced", 1),
            Endings{v1::ENDING_INTERRUPTED});
  EXPECT_EQ(EndingsAfterCrash("journal.attempt-ended", 1),
            Endings{v1::ENDING_INTERRUPTED});
}

TEST(Journal, WhatAnAttemptDidIsNotLost) {
  EXPECT_EQ(EndingsAfterCrash("journal.observation-synced", 1),
            Endings{v1::ENDING_EXITED});
  EXPECT_EQ(EndingsAfterCrash("journal.attempt-synced", 2),
            (Endings{v1::ENDING_EXITED, v1::ENDING_INTERRUPTED}));
  EXPECT_EQ(EndingsAfterCrash("journal.before-close", 1),
            (Endings{v1::ENDING_EXITED, v1::ENDING_EXITED}));
}

TEST(Journal, AClosedCellLeavesNothing) {
  EXPECT_THAT(EndingsAfterCrash("journal.closed", 1), IsEmpty());
  const TempDirectory temp = MakeTemp();
  RunCell(temp.path());
  EXPECT_THAT(FilesBelow(temp.path()), IsEmpty());
}

TEST(Journal, ARecordCutOffAnywhereWasNeverStarted) {
  // The last record is cut at every byte, as a torn write would leave it.
  const TempDirectory temp = MakeTemp();
  const std::string path = JoinPath(temp.path(), "aa.journal");
  const auto record = [](char letter, const google::protobuf::Message& m) {
    return EncodeRecord(std::string(1, letter) + m.SerializeAsString());
  };
  const std::string kept =
      record('C', Head("aa")) + record('A', Attempt("a1", v1::PATH_NATIVE));
  const std::string last = record('A', Attempt("a2", v1::PATH_PLAIN));
  for (size_t size = 0; size < last.size(); ++size) {
    Spit(path, kept + last.substr(0, size));
    const auto recovered = Journal(temp.path()).Recover(kNow);
    ASSERT_THAT(recovered, IsOk());
    ASSERT_THAT(*recovered, SizeIs(1)) << size;
    EXPECT_EQ(recovered->front().observations_size(), 1) << size;
  }
  EXPECT_THAT(FilesBelow(temp.path()), SizeIs(1)) << "no damage was reported";
}

TEST(Journal, DamageIsSetAsideAndWhatWasReadIsKept) {
  const TempDirectory temp = MakeTemp();
  const std::string path = JoinPath(temp.path(), "aa.journal");
  std::string second =
      EncodeRecord("A" + Attempt("a2", v1::PATH_PLAIN).SerializeAsString());
  second.back() = static_cast<char>(second.back() ^ 1);
  const std::string bytes =
      EncodeRecord("C" + Head("aa").SerializeAsString()) +
      EncodeRecord("A" + Attempt("a1", v1::PATH_NATIVE).SerializeAsString()) +
      second;
  Spit(path, bytes);

  const auto recovered = Journal(temp.path()).Recover(kNow);
  ASSERT_THAT(recovered, IsOk());
  ASSERT_THAT(*recovered, SizeIs(1));
  EXPECT_EQ(recovered->front().observations_size(), 1);
  EXPECT_EQ(Slurp(JoinPath(temp.path(), "damaged/aa.journal")), bytes);
}

TEST(Journal, RecoveryThatIsItselfInterruptedMakesTheSameResult) {
  const TempDirectory journal_folder = MakeTemp();
  const TempDirectory spool_folder = MakeTemp();
  ASSERT_TRUE(CrashAt("journal.attempt-synced", 2,
                      [&] { RunCell(journal_folder.path()); }));
  const auto recover = [&] {
    Journal journal(journal_folder.path());
    auto spool = Spool::Open(spool_folder.path(), {});
    const auto results = journal.Recover(kNow);
    if (!results.ok()) return;
    for (const v1::CellResult& result : *results) {
      if (!(*spool)->Add(result).ok()) return;
      if (!journal.Remove(result.result_id()).ok()) return;
    }
  };
  // Killed before and behind each step of the recovery, in turn.
  EXPECT_TRUE(CrashAt("spool.before-write", 1, recover));
  EXPECT_TRUE(CrashAt("spool.written", 1, recover));
  EXPECT_TRUE(CrashAt("journal.before-remove", 1, recover));
  recover();

  const auto spool = Spool::Open(spool_folder.path(), {});
  ASSERT_THAT(spool, IsOk());
  ASSERT_THAT((*spool)->Pending(), SizeIs(1));
  EXPECT_EQ((*spool)->Pending()[0].result_id, "aa");
  EXPECT_THAT(FilesBelow(journal_folder.path()), IsEmpty());
}

TEST(Journal, ARecordThatDidNotFitIsTakenBackAndTheNextIsFound) {
  const TempDirectory temp = MakeTemp();
  Journal journal(temp.path());
  auto cell = journal.Begin(Head("aa"));
  ASSERT_THAT(cell, IsOk());
  ASSERT_THAT((*cell)->BeforeAttempt(Attempt("a1", v1::PATH_NATIVE)), IsOk());

  // The disk is full while the first attempt's observation is written.
  v1::Observation large = Ended(Attempt("a1", v1::PATH_NATIVE), 0);
  large.mutable_stdout()->set_head(std::string(100'000, 'x'));
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {8192, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = (*cell)->AfterAttempt(large);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));

  // There is room again, a second attempt begins, and the agent is killed.
  ASSERT_THAT((*cell)->BeforeAttempt(Attempt("a2", v1::PATH_PLAIN)), IsOk());
  const auto recovered = journal.Recover(kNow);
  ASSERT_THAT(recovered, IsOk());
  ASSERT_THAT(*recovered, SizeIs(1));
  EXPECT_EQ(recovered->front().observations_size(), 2);
  EXPECT_THAT(FilesBelow(temp.path()), SizeIs(1)) << "no damage";
}

TEST(Journal, AResultIdCannotNameAnotherFolder) {
  const TempDirectory temp = MakeTemp();
  Journal journal(temp.path());
  EXPECT_THAT(journal.Begin(Head("../x")),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(journal.Remove("../x"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace twinpath::agent
