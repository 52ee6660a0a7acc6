// Bad input: every error names the thing and the next step, has the right exit
// code (docs/exit-codes.md) and leaves nothing half-written behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/e2e/fleet.h"

namespace twinpath::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class BadInputTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
    ASSERT_THAT(folder, IsOk());
    folder_.emplace(*std::move(folder));
  }
  std::string Write(const std::string& name, absl::string_view text) {
    const std::string path = JoinPath(folder_->path(), name);
    EXPECT_THAT(WriteFileAtomic(path, text, 0644), IsOk());
    return path;
  }
  CliResult Cli(const std::vector<std::string>& args) {
    return RunCli(args, "127.0.0.1:1", folder_->path());
  }
  std::optional<TempDirectory> folder_;
};

TEST_F(BadInputTest, MissingFile) {
  for (const char* command : {"inspect", "predict", "check"}) {
    const CliResult result = Cli({command, "gone"});
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_THAT(result.err, AllOf(HasSubstr("error: "), HasSubstr("gone"),
                                  HasSubstr("No such file")))
        << command;
    EXPECT_THAT(result.out, IsEmpty()) << command;
  }
}

TEST_F(BadInputTest, FolderWithoutCodeAndDevice) {
  const CliResult folder = Cli({"inspect", folder_->path()});
  EXPECT_EQ(folder.exit_code, 1);
  EXPECT_THAT(folder.err, HasSubstr("no device code"));
  const CliResult device = Cli({"inspect", "/dev/zero"});
  EXPECT_EQ(device.exit_code, 2);
  EXPECT_THAT(device.err,
              AllOf(HasSubstr("/dev/zero"), HasSubstr("not a regular file")));
  EXPECT_THAT(device.out, IsEmpty());
}

// What would look like a check and be none is refused before anything runs.
TEST_F(BadInputTest, ChecksThatCheckNothing) {
  Write("app", "#!/bin/sh\n");
  const struct {
    std::vector<std::string> args;
    const char* says;
  } kCases[] = {
      {{"check", "--expect-contains", "", "app"}, "--expect-contains"},
      {{"check", "--expect-pattern", "", "app"}, "--expect-pattern"},
      {{"check", "--env", "NAME", "app"}, "NAME=value"},
      {{"check", folder_->path()}, "is a folder"},
  };
  for (const auto& row : kCases) {
    const CliResult result = Cli(row.args);
    EXPECT_EQ(result.exit_code, 2) << row.says << result.err;
    EXPECT_THAT(result.err, HasSubstr(row.says));
    EXPECT_THAT(result.out, IsEmpty()) << row.says;
  }
}

TEST_F(BadInputTest, NotAnElfFile) {
  Write("notes", "just some text\n");
  const CliResult result = Cli({"inspect", "notes"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("notes: not an ELF, fatbin"),
                                HasSubstr("it is text")));
}

TEST_F(BadInputTest, OneBadFileDoesNotHideTheOthers) {
  Write("kernel.ptx", SamplePtx());
  const CliResult result = Cli({"inspect", "gone", "kernel.ptx"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.out, HasSubstr("compute_75"));
  EXPECT_THAT(result.err, HasSubstr("gone"));
}

TEST_F(BadInputTest, TruncatedElf) {
  const absl::StatusOr<std::string> program =
      ReadFile(Program("twinpath-inside"), 64 << 20);
  ASSERT_THAT(program, IsOk());
  Write("cut", program->substr(0, program->size() / 2));
  const CliResult result = Cli({"inspect", "cut"});
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("TP233"));
}

TEST_F(BadInputTest, CorruptFatbin) {
  // A header that is right (magic, version 1, 16 bytes, 64 bytes of entries)
  // and an entry whose header length is larger than the fatbin.
  std::string fatbin(
      "\x50\xed\x55\xba\x01\x00\x10\x00\x40\x00\x00\x00\x00\x00"
      "\x00\x00",
      16);
  fatbin.append("\x02\x00\x01\x01\xff\xff\xff\x00", 8);
  fatbin.append(56, '\0');
  Write("bad.fatbin", fatbin);
  const CliResult result = Cli({"inspect", "bad.fatbin"});
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("TP229"));
}

TEST_F(BadInputTest, SweepFileMistakesAreListedWithPlaces) {
  Write("sweep.yaml",
        "name: a\nartifact: {fils: [x]}\nentries:\n  - name: e\n"
        "    command: x\n    timeout: soon\n");
  const CliResult result = Cli({"sweep", "start", "sweep.yaml"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("sweep.yaml:2:"), HasSubstr("files"),
                    HasSubstr("sweep.yaml:6:"), HasSubstr("timeout")));
}

TEST_F(BadInputTest, SweepFileNamesAMissingFile) {
  Write("sweep.yaml", SampleSweep());
  const CliResult result = Cli({"sweep", "start", "sweep.yaml"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("sweep.yaml"), HasSubstr("kernel.ptx")));
}

TEST_F(BadInputTest, ARecordOfAnotherBuild) {
  Write("kernel.ptx", SamplePtx());
  Write("r.json", R"({"argv": ["bWFrZQ=="], "outputs": [{"path": "YQ=="}]})");
  Write("sweep.yaml", SampleSweep("build: {record: r.json}\n"));
  const CliResult result = Cli({"sweep", "start", "sweep.yaml"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("build record"), HasSubstr("hint: ")));
}

TEST_F(BadInputTest, UnknownProfileSuggestsTheNearest) {
  Write("kernel.ptx", SamplePtx());
  const CliResult result = Cli({"predict", "--host", "h20", "kernel.ptx"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("h20"), HasSubstr("h200")));
}

TEST_F(BadInputTest, NoCoordinator) {
  Write("kernel.ptx", SamplePtx());
  Write("sweep.yaml", SampleSweep());
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"hosts"},
                                             {"sweep", "list"},
                                             {"sweep", "show", "x"},
                                             {"sweep", "start", "sweep.yaml"},
                                             {"artifact", "push", "kernel.ptx"},
                                             {"gate", "x"}}) {
    const CliResult result = Cli(args);
    EXPECT_EQ(result.exit_code, 4) << args[0];
    EXPECT_THAT(result.err, AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("hint: "),
                                  HasSubstr("twinpath up")))
        << args[0];
  }
}

TEST_F(BadInputTest, ACoordinatorOnAnotherMachineIsRefused) {
  const CliResult result = Cli({"hosts", "--coordinator", "10.1.2.3:7711"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("10.1.2.3:7711"));
}

TEST_F(BadInputTest, MistypedCommandsAndOptionsSuggestTheNearest) {
  EXPECT_THAT(Cli({"inspct", "x"}).err, HasSubstr("twinpath inspect"));
  EXPECT_THAT(Cli({"sweep", "wtch", "x"}).err,
              HasSubstr("twinpath sweep watch"));
  EXPECT_THAT(Cli({"inspect", "--kernel", "x"}).err, HasSubstr("--kernels"));
  EXPECT_EQ(Cli({"inspct", "x"}).exit_code, 2);
  EXPECT_EQ(Cli({"inspect"}).exit_code, 2);
  EXPECT_EQ(Cli({}).exit_code, 2);
}

TEST_F(BadInputTest, ARecordThatCannotBeWrittenLeavesNothing) {
  const CliResult result =
      Cli({"record", "-o", "no/such/folder/r.json", "--output", "made", "--",
           "/bin/sh", "-c", "printf x > made"});
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no/such/folder"));
  struct stat info {};
  EXPECT_NE(stat(JoinPath(folder_->path(), "no").c_str(), &info), 0);
}

TEST(BadInputWithFleet, UnknownHostSuggestsTheNearest) {
  absl::StatusOr<std::unique_ptr<Fleet>> fleet = Fleet::Start();
  ASSERT_THAT(fleet, IsOk());
  ASSERT_THAT((*fleet)->Write("kernel.ptx", SamplePtx()), IsOk());
  ASSERT_THAT(
      (*fleet)->Write("sweep.yaml", SampleSweep("hosts: {names: [spark-1]}\n")),
      IsOk());
  ASSERT_THAT((*fleet)->StartAgent("spark-01", "dgx-spark"), IsOk());
  ASSERT_THAT((*fleet)->WaitForHosts(1), IsOk());
  const CliResult show = (*fleet)->Cli({"hosts", "show", "spark-1"});
  EXPECT_EQ(show.exit_code, 2);
  EXPECT_THAT(show.err, AllOf(HasSubstr("spark-1"),
                              HasSubstr("did you mean 'spark-01'?")));
  const CliResult start = (*fleet)->Cli({"sweep", "start", "sweep.yaml"});
  EXPECT_EQ(start.exit_code, 2) << start.err;
  EXPECT_THAT(start.err, AllOf(HasSubstr("spark-1"),
                               HasSubstr("did you mean 'spark-01'?")));
  EXPECT_EQ((*fleet)->Cli({"sweep", "list"}).out, "");
}

TEST(BadInputWithFleet, UnknownSweep) {
  absl::StatusOr<std::unique_ptr<Fleet>> fleet = Fleet::Start();
  ASSERT_THAT(fleet, IsOk());
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"sweep", "show", "nope"},
                                             {"sweep", "watch", "nope"},
                                             {"sweep", "cancel", "nope"},
                                             {"gate", "nope"}}) {
    const CliResult result = (*fleet)->Cli(args);
    EXPECT_EQ(result.exit_code, 2) << args[0] << ": " << result.err;
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("nope"), HasSubstr("twinpath sweep list")));
  }
}

}  // namespace
}  // namespace twinpath::e2e
