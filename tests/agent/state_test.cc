#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "agent/identity.h"
#include "agent/state_directory.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(StateDirectory, IsHeldByOneAgent) {
  const TempDirectory temp = MakeTemp();
  const std::string path = JoinPath(temp.path(), "state");
  absl::StatusOr<StateDirectory> first = StateDirectory::Open(path);
  ASSERT_THAT(first, IsOk());

  EXPECT_THAT(StateDirectory::Open(path),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("in use by another agent")));

  first = absl::CancelledError();  // lets go of the lock
  EXPECT_THAT(StateDirectory::Open(path), IsOk());
}

TEST(StateDirectory, RefusesAFolderOthersCanWrite) {
  const TempDirectory temp = MakeTemp();
  const std::string path = JoinPath(temp.path(), "state");
  ASSERT_THAT(MakeDirectories(path), IsOk());
  ASSERT_EQ(chmod(path.c_str(), 0777), 0);
  EXPECT_THAT(StateDirectory::Open(path),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST(StateDirectory, ClearsWhatAKilledAgentWasWorkingOn) {
  const TempDirectory temp = MakeTemp();
  ASSERT_THAT(MakeDirectories(JoinPath(temp.path(), "work/cell-1")), IsOk());
  Spit(JoinPath(temp.path(), "work/cell-1/file"), "left");
  const absl::StatusOr<StateDirectory> state =
      StateDirectory::Open(temp.path());
  ASSERT_THAT(state, IsOk());
  EXPECT_THAT(FilesBelow(state->work()), IsEmpty());
}

TEST(Identity, IsReadAsItWasWritten) {
  const TempDirectory temp = MakeTemp();
  const std::string path = JoinPath(temp.path(), "identity");
  ASSERT_THAT(SaveIdentity(path, {"host-7", "0badc0de", true}), IsOk());

  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const absl::StatusOr<Identity> identity = LoadIdentity(path);
  ASSERT_THAT(identity, IsOk());
  EXPECT_EQ(identity->host_id, "host-7");
  EXPECT_EQ(identity->secret, "0badc0de");
  EXPECT_TRUE(identity->simulated);
}

TEST(Identity, MissingIsNotDamaged) {
  const TempDirectory temp = MakeTemp();
  EXPECT_THAT(LoadIdentity(JoinPath(temp.path(), "identity")),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(Identity, RefusesDamageAndNeverShowsTheSecret) {
  const TempDirectory temp = MakeTemp();
  const std::string path = JoinPath(temp.path(), "identity");
  ASSERT_THAT(SaveIdentity(path, {"host-7", "0badc0de", false}), IsOk());
  const std::string whole = Slurp(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    Spit(path, whole.substr(0, size));
    const absl::StatusOr<Identity> identity = LoadIdentity(path);
    EXPECT_THAT(identity, StatusIs(absl::StatusCode::kDataLoss)) << size;
    EXPECT_THAT(std::string(identity.status().message()),
                ::testing::Not(HasSubstr("0badc0de")));
  }
}

TEST(Identity, RefusesAFileOthersCanRead) {
  const TempDirectory temp = MakeTemp();
  const std::string path = JoinPath(temp.path(), "identity");
  ASSERT_THAT(SaveIdentity(path, {"host-7", "0badc0de", false}), IsOk());
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(LoadIdentity(path),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST(Identity, AnAnswerWithALineFeedCannotForgeAnIdentity) {
  const TempDirectory temp = MakeTemp();
  EXPECT_THAT(SaveIdentity(JoinPath(temp.path(), "identity"),
                           {"host-7\nsimulated=false", "0badc0de", true}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(JoinToken, IsOneWord) {
  const TempDirectory temp = MakeTemp();
  const std::string path = JoinPath(temp.path(), "token");
  Spit(path, "  abc123\n");
  EXPECT_THAT(ReadJoinToken(path), IsOkAndHolds("abc123"));
  Spit(path, "\n");
  EXPECT_THAT(ReadJoinToken(path),
              StatusIs(absl::StatusCode::kInvalidArgument));
  Spit(path, "two words");
  EXPECT_THAT(ReadJoinToken(path),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace twinpath::agent
