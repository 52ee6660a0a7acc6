// Programs that put more on disk than a run may have, where it is not to be
// seen.

#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "runner/run_watch.h"
#include "tests/runner/run_fixture.h"

namespace twinpath::runner {
namespace {

using ::testing::HasSubstr;

constexpr char kWrites[] = "head -c 50000000 /dev/zero";

class DiskLimit : public RunFixture {
 protected:
  void SetUp() override {
    RunFixture::SetUp();
    setenv(kDiskLimitVariable, "20000000", 1);
  }
  void TearDown() override {
    unsetenv(kDiskLimitVariable);
    unsetenv(kUnseenVariable);
    unsetenv(kRunsVariable);
  }
  v1::RunRequest Script(const std::string& text) const {
    v1::RunRequest request = Request({});
    request.mutable_entry()->set_command(0, "/bin/sh");
    request.mutable_entry()->add_command("-c");
    request.mutable_entry()->add_command(text);
    request.mutable_entry()->mutable_timeout()->set_seconds(20);
    return request;
  }
  static void ExpectEnded(const v1::RunRequest& request) {
    const v1::Observation run = Run(request);
    EXPECT_EQ(run.ending(), v1::ENDING_SIGNALED) << run.ShortDebugString();
    EXPECT_THAT(run.problem(), HasSubstr("disk limit"));
  }
};

TEST_F(DiskLimit, BelowItTheProgramGoesOn) {
  const v1::Observation run =
      Run(Script("mkdir a; head -c 1000000 /dev/zero >a/file; chmod 0 a; sleep "
                 "3; exit 5"));
  EXPECT_EQ(run.ending(), v1::ENDING_EXITED) << run.ShortDebugString();
  EXPECT_EQ(run.exit_code(), 5);
  // What the program did to its folder stays so.
  struct stat info {};
  const std::string folder = JoinPath(work_->path(), "home/a");
  ASSERT_EQ(stat(folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0u);
  chmod(folder.c_str(), 0700);
}

TEST_F(DiskLimit, FilesInAFolderThatNobodyMayReadCount) {
  ExpectEnded(Script(std::string("mkdir a; ") + kWrites +
                     " >a/file; chmod 0 a; sleep 100"));
  chmod(JoinPath(work_->path(), "home/a").c_str(), 0700);
}

TEST_F(DiskLimit, FilesInDeepFoldersCount) {
  ExpectEnded(Script(std::string("i=0; while [ $i -lt 120 ]; do mkdir d; cd d; "
                                 "i=$((i + 1)); done; ") +
                     kWrites + " >file; sleep 100"));
}

TEST_F(DiskLimit, FilesWithoutANameCount) {
  ExpectEnded(Script(std::string("exec 3>file; rm file; ") + kWrites +
                     " >&3; sleep 100"));
}

// No name, and no process that holds it: only the file system knows.
TEST_F(DiskLimit, FilesThatNobodyShowsAreNotedByTheFileSystem) {
  setenv(kUnseenVariable, "1000000", 1);
  setenv(kRunsVariable, "1", 1);
  v1::RunRequest request = Request({"hide-on-the-way", "50000000"});
  request.mutable_entry()->mutable_timeout()->set_seconds(20);
  const v1::Observation run = Run(request);
  EXPECT_EQ(run.ending(), v1::ENDING_SIGNALED) << run.ShortDebugString();
  EXPECT_THAT(run.problem(), HasSubstr("cannot be told"));
}

}  // namespace
}  // namespace twinpath::runner
