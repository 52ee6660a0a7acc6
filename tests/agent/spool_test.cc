// I4: a result is synced before it is sent and leaves only when acknowledged;
// a full spool refuses and drops nothing.

#include "agent/spool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/agent/crash.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::CellResult Result(const std::string& id, size_t output = 10) {
  v1::CellResult result;
  result.set_result_id(id);
  result.set_cell_id("cell-" + id);
  result.set_complete(true);
  v1::Observation& observation = *result.add_observations();
  observation.mutable_stdout()->set_head(std::string(output, 'x'));
  observation.mutable_stdout()->set_total_bytes(output);
  return result;
}

std::vector<std::string> Ids(const Spool& spool) {
  std::vector<std::string> ids;
  for (const Spool::Entry& entry : spool.Pending()) {
    ids.push_back(entry.result_id);
  }
  return ids;
}

std::unique_ptr<Spool> OpenSpool(const std::string& folder,
                                 const SpoolLimits& limits = {}) {
  auto spool = Spool::Open(folder, limits);
  EXPECT_THAT(spool, IsOk());
  return std::move(spool).value();
}

TEST(Spool, KeepsOrderAndContentOverARestart) {
  const TempDirectory temp = MakeTemp();
  for (const std::string id : {"bb", "aa", "cc"}) {
    // A new process each time.
    ASSERT_THAT(OpenSpool(temp.path())->Add(Result(id)), IsOk());
  }
  const auto spool = OpenSpool(temp.path());
  EXPECT_THAT(Ids(*spool), ElementsAre("bb", "aa", "cc"));
  const auto read = spool->Read("aa");
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->SerializeAsString(), Result("aa").SerializeAsString());
}

TEST(Spool, OnlyAnAcknowledgementRemovesAResult) {
  const TempDirectory temp = MakeTemp();
  auto spool = OpenSpool(temp.path());
  ASSERT_THAT(spool->Add(Result("aa")), IsOk());
  ASSERT_THAT(spool->Read("aa"), IsOk());
  EXPECT_THAT(Ids(*OpenSpool(temp.path())), ElementsAre("aa"));

  ASSERT_THAT(spool->Acknowledge("aa"), IsOk());
  EXPECT_THAT(Ids(*spool), IsEmpty());
  EXPECT_THAT(FilesBelow(temp.path()), IsEmpty());
  // Acknowledgements repeat, and may name what was never here.
  EXPECT_THAT(spool->Acknowledge("aa"), IsOk());
  EXPECT_THAT(spool->Acknowledge("../../x"), IsOk());
  EXPECT_THAT(spool->Read("aa"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(Spool, AddingTheSameResultAgainChangesNothing) {
  const TempDirectory temp = MakeTemp();
  auto spool = OpenSpool(temp.path());
  ASSERT_THAT(spool->Add(Result("aa")), IsOk());
  v1::CellResult other = Result("aa");
  other.set_complete(false);
  ASSERT_THAT(spool->Add(other), IsOk());
  EXPECT_THAT(Ids(*spool), ElementsAre("aa"));
  EXPECT_TRUE(spool->Read("aa")->complete());
}

TEST(Spool, FullMeansNoMoreLeasesButNothingIsDropped) {
  const TempDirectory temp = MakeTemp();
  SpoolLimits limits;
  limits.max_results = 2;
  auto spool = OpenSpool(temp.path(), limits);
  EXPECT_TRUE(spool->HasRoomFor(2));
  EXPECT_FALSE(spool->HasRoomFor(3));
  ASSERT_THAT(spool->Add(Result("aa")), IsOk());
  EXPECT_TRUE(spool->HasRoomFor(1));
  ASSERT_THAT(spool->Add(Result("bb")), IsOk());
  EXPECT_FALSE(spool->HasRoomFor(1));

  // What was running when the spool became full is kept all the same.
  ASSERT_THAT(spool->Add(Result("cc")), IsOk());
  EXPECT_THAT(Ids(*spool), ElementsAre("aa", "bb", "cc"));
  ASSERT_THAT(spool->Acknowledge("aa"), IsOk());
  EXPECT_FALSE(spool->HasRoomFor(1));
  ASSERT_THAT(spool->Acknowledge("bb"), IsOk());
  EXPECT_TRUE(spool->HasRoomFor(1));
}

TEST(Spool, IsBoundedInBytesToo) {
  const TempDirectory temp = MakeTemp();
  SpoolLimits limits;
  limits.max_bytes = kMaxResultBytes + 1000;
  auto spool = OpenSpool(temp.path(), limits);
  EXPECT_TRUE(spool->HasRoomFor(1));
  ASSERT_THAT(spool->Add(Result("aa", 2000)), IsOk());
  EXPECT_FALSE(spool->HasRoomFor(1));
}

TEST(Spool, ACrashLosesNothingThatWasAdded) {
  const TempDirectory temp = MakeTemp();
  ASSERT_THAT(OpenSpool(temp.path())->Add(Result("aa")), IsOk());
  const auto add = [&] { (void)OpenSpool(temp.path())->Add(Result("bb")); };
  EXPECT_TRUE(CrashAt("spool.before-write", 1, add));
  EXPECT_THAT(Ids(*OpenSpool(temp.path())), ElementsAre("aa"));
  EXPECT_TRUE(CrashAt("spool.written", 1, add));
  EXPECT_THAT(Ids(*OpenSpool(temp.path())), ElementsAre("aa", "bb"));

  const auto acknowledge = [&] {
    (void)OpenSpool(temp.path())->Acknowledge("aa");
  };
  EXPECT_TRUE(CrashAt("spool.before-remove", 1, acknowledge));
  EXPECT_THAT(Ids(*OpenSpool(temp.path())), ElementsAre("aa", "bb"));
  EXPECT_TRUE(CrashAt("spool.removed", 1, acknowledge));
  EXPECT_THAT(Ids(*OpenSpool(temp.path())), ElementsAre("bb"));
}

TEST(Spool, DamagedFilesAreSetAsideNotLost) {
  const TempDirectory temp = MakeTemp();
  {
    auto spool = OpenSpool(temp.path());
    ASSERT_THAT(spool->Add(Result("aa")), IsOk());
    ASSERT_THAT(spool->Add(Result("bb")), IsOk());
  }
  const std::string name = FilesBelow(temp.path())[0];
  std::string bytes = Slurp(JoinPath(temp.path(), name));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x40);
  Spit(JoinPath(temp.path(), name), bytes);
  Spit(JoinPath(temp.path(), "odd.result"), "not ours");
  Spit(JoinPath(temp.path(), ".twinpath-abc"), "half a write");

  const auto spool = OpenSpool(temp.path());
  EXPECT_THAT(Ids(*spool), ElementsAre("bb"));
  EXPECT_EQ(spool->set_aside(), 2u);
  EXPECT_EQ(Slurp(JoinPath(temp.path(), "damaged/" + name)), bytes);
  EXPECT_THAT(FilesBelow(temp.path()), SizeIs(3));
}

TEST(Spool, AFileThatGoesBadWhileWaitingIsSetAside) {
  const TempDirectory temp = MakeTemp();
  auto spool = OpenSpool(temp.path());
  ASSERT_THAT(spool->Add(Result("aa")), IsOk());
  const std::string path = JoinPath(temp.path(), FilesBelow(temp.path())[0]);
  Spit(path, Slurp(path).substr(0, 20));
  EXPECT_THAT(spool->Read("aa"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(Ids(*spool), IsEmpty());
  EXPECT_EQ(spool->set_aside(), 1u);
}

TEST(Spool, AFullDiskKeepsTheOldAndLeavesNoHalfFile) {
  const TempDirectory temp = MakeTemp();
  auto spool = OpenSpool(temp.path());
  ASSERT_THAT(spool->Add(Result("aa")), IsOk());
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {4096, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = spool->Add(Result("bb", 100'000));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(FilesBelow(temp.path()), SizeIs(1));
  EXPECT_THAT(Ids(*spool), ElementsAre("aa"));
  // With room again the same result goes in.
  EXPECT_THAT(spool->Add(Result("bb", 100'000)), IsOk());
}

TEST(FitResult, ShortensOutputButNotItsCount) {
  v1::CellResult result;
  result.set_result_id("aa");
  result.set_complete(true);
  for (int i = 0; i < 40; ++i) {
    v1::Observation& observation = *result.add_observations();
    observation.mutable_stdout()->set_head(std::string(64 << 10, 'h'));
    observation.mutable_stdout()->set_tail(std::string(64 << 10, 't'));
    observation.mutable_stdout()->set_total_bytes(1 << 20);
  }
  FitResult(&result);
  EXPECT_LE(result.ByteSizeLong(), kMaxResultBytes);
  EXPECT_TRUE(result.complete());
  EXPECT_EQ(result.observations(0).stdout().total_bytes(), uint64_t{1} << 20);
  EXPECT_FALSE(result.observations(39).stdout().tail().empty());
}

// Files shrink with the streams: their digests still tell them apart.
TEST(FitResult, KeptFilesAreCutToo) {
  v1::CellResult result;
  result.set_result_id("aa");
  result.set_complete(true);
  for (int i = 0; i < 80; ++i) {
    v1::OutputFile& file = *result.add_observations()->add_files();
    file.set_name("out");
    file.mutable_content()->set_head(std::string(64 << 10, 'h'));
    file.mutable_content()->set_total_bytes(64 << 10);
    file.mutable_content()->mutable_digest()->set_sha256(std::string(32, 'd'));
  }
  FitResult(&result);
  EXPECT_LE(result.ByteSizeLong(), kMaxResultBytes);
  EXPECT_TRUE(result.complete());
  const v1::OutputFile& file = result.observations(79).files(0);
  EXPECT_EQ(file.content().total_bytes(), uint64_t{64} << 10);
  EXPECT_EQ(file.content().digest().sha256(), std::string(32, 'd'));
}

TEST(FitResult, ATraceGoesBeforeTheResult) {
  v1::CellResult result;
  result.set_complete(true);
  result.add_observations()->mutable_stdout()->set_head("PASS");
  v1::Observation& traced = *result.add_observations();
  traced.set_traced(true);
  traced.mutable_trace()->mutable_device_tracer()->set_started(true);
  for (int i = 0; i < 4000; ++i) {
    traced.mutable_trace()->add_modules()->set_file(std::string(4000, 'x'));
  }
  FitResult(&result);
  EXPECT_TRUE(result.complete());
  EXPECT_EQ(result.observations(0).stdout().head(), "PASS");
  EXPECT_FALSE(result.observations(1).trace().device_tracer().started());
  EXPECT_NE(result.observations(1).trace().device_tracer().problem(), "");
}

TEST(FitResult, WithoutItsStagedFilesAResultIsNotComplete) {
  v1::CellResult result;
  result.set_complete(true);
  for (int i = 0; i < 1500; ++i) {
    result.add_staged()->set_name(std::string(4000, 'n'));
  }
  FitResult(&result);
  EXPECT_LE(result.ByteSizeLong(), kMaxResultBytes);
  EXPECT_FALSE(result.complete());
  EXPECT_EQ(result.staged_size(), 0);
  EXPECT_EQ(result.problems_size(), 1);
}

}  // namespace
}  // namespace twinpath::agent
