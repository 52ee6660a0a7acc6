#include "cli/record.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "cli/child_process.h"
#include "cli/json.h"

namespace twinpath::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(OutputsInArguments, KnowsTheFormsOfNvccAndGcc) {
  EXPECT_THAT(OutputsInArguments({"nvcc", "-o", "app", "a.cu"}),
              ElementsAre("app"));
  EXPECT_THAT(OutputsInArguments({"nvcc", "--output-file=x", "a.cu"}),
              ElementsAre("x"));
  EXPECT_THAT(OutputsInArguments({"g++", "-oapp"}), ElementsAre("app"));
  // nvcc's folder for intermediates is no output file.
  EXPECT_THAT(OutputsInArguments({"nvcc", "-odir", "build", "a.cu"}),
              IsEmpty());
}

TEST(HostCompilerInArguments, KnowsBothSpellings) {
  EXPECT_EQ(HostCompilerInArguments({"nvcc", "-ccbin", "g++-12"}), "g++-12");
  EXPECT_EQ(HostCompilerInArguments({"nvcc", "--compiler-bindir=/opt/gcc"}),
            "/opt/gcc");
  EXPECT_EQ(HostCompilerInArguments({"nvcc", "a.cu"}), "");
}

// Runs in a folder of its own and goes back afterwards.
class RecordTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
    ASSERT_THAT(folder, IsOk());
    folder_.emplace(*std::move(folder));
    char* here = get_current_dir_name();
    before_ = here;
    free(here);
    ASSERT_EQ(chdir(folder_->path().c_str()), 0);
  }
  void TearDown() override { ASSERT_EQ(chdir(before_.c_str()), 0); }

  std::optional<TempDirectory> folder_;
  std::string before_;
};

TEST_F(RecordTest, KeepsCommandAndDigestOfWhatIsNew) {
  ASSERT_THAT(WriteFileAtomic("old.txt", "old"), IsOk());
  const timespec past[2] = {{1'000'000, 0}, {1'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, "old.txt", past, 0), 0);
  RecordOptions options;
  options.argv = {"/bin/sh", "-c", "mkdir out; printf data > out/app"};
  const absl::StatusOr<v1::BuildRecord> record = RecordBuild(options);
  ASSERT_THAT(record, IsOk());
  EXPECT_EQ(record->exit_code(), 0);
  EXPECT_THAT(record->argv(), ElementsAre("/bin/sh", "-c", options.argv[2]));
  ASSERT_EQ(record->outputs_size(), 1);
  EXPECT_EQ(record->outputs(0).path(), "out/app");
  EXPECT_EQ(record->outputs(0).digest().sha256(), Sha256Of("data").Raw());
  EXPECT_EQ(record->revision(), "");
  EXPECT_FALSE(record->declared());
}

TEST_F(RecordTest, AFailedBuildHasItsExitCodeAndNoOutputs) {
  RecordOptions options;
  options.argv = {"/bin/sh", "-c", "echo > app; exit 9"};
  const absl::StatusOr<v1::BuildRecord> record = RecordBuild(options);
  ASSERT_THAT(record, IsOk());
  EXPECT_EQ(record->exit_code(), 9);
  EXPECT_EQ(record->outputs_size(), 0);
}

// docs/exit-codes.md: 130 and 143. A job is ended by its process id; the build
// must not go on without it.
TEST_F(RecordTest, ASignalEndsTheBuildToo) {
  const absl::StatusOr<std::string> program = FindCompanion("twinpath");
  ASSERT_THAT(program, IsOk());
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    ChildOptions options;
    options.log_path = "record.log";
    options.argv = {*program, "record",
                    "--",     "/bin/sh",
                    "-c",     "echo $$ > new; mv new pid; exec sleep 600"};
    absl::StatusOr<ChildProcess> record = ChildProcess::Start(options);
    ASSERT_THAT(record, IsOk());
    while (access("pid", F_OK) != 0 && !record->Poll()) usleep(10'000);
    const absl::StatusOr<std::string> pid = ReadFile("pid", 100);
    ASSERT_THAT(pid, IsOk());
    record->Signal(number);
    const std::optional<int> status = record->WaitFor(absl::Seconds(60));
    ASSERT_TRUE(status.has_value());
    EXPECT_EQ(ShellExitCode(*status), 128 + number);
    EXPECT_EQ(kill(atoi(pid->c_str()), 0), -1);
    EXPECT_NE(access("record.json", F_OK), 0);
    ASSERT_EQ(unlink("pid"), 0);
  }
}

TEST_F(RecordTest, ANamedOutputThatIsMissingIsAnError) {
  RecordOptions options;
  options.argv = {"/bin/true"};
  options.outputs = {"app"};
  EXPECT_THAT(RecordBuild(options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("app")));
}

TEST_F(RecordTest, AMissingCommandIsAnError) {
  RecordOptions options;
  options.argv = {"no-such-compiler"};
  EXPECT_THAT(RecordBuild(options), StatusIs(absl::StatusCode::kNotFound,
                                             HasSubstr("no-such-compiler")));
}

TEST_F(RecordTest, ARecordOfOtherFilesDoesNotCover) {
  v1::BuildRecord record;
  record.add_outputs()->mutable_digest()->set_sha256(Sha256Of("a").Raw());
  v1::Artifact artifact;
  artifact.add_files()->mutable_digest()->set_sha256(Sha256Of("b").Raw());
  EXPECT_THAT(CheckRecordCovers(record, artifact),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  artifact.add_files()->mutable_digest()->set_sha256(Sha256Of("a").Raw());
  EXPECT_THAT(CheckRecordCovers(record, artifact), IsOk());
}

TEST_F(RecordTest, ARecordOfAFailedBuildIsRefused) {
  v1::BuildRecord record;
  record.add_argv("make");
  record.add_outputs()->set_path("app");
  record.set_exit_code(2);
  ASSERT_THAT(WriteFileAtomic("r.json", *ToJson(record)), IsOk());
  EXPECT_THAT(
      LoadBuildRecord("r.json"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("exit code 2")));
  record.set_exit_code(0);
  ASSERT_THAT(WriteFileAtomic("r.json", *ToJson(record)), IsOk());
  EXPECT_THAT(LoadBuildRecord("r.json"), IsOk());
}

}  // namespace
}  // namespace twinpath::cli
