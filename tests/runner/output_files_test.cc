#include "runner/output_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/runner/run_fixture.h"

namespace twinpath::runner {
namespace {

using ::testing::HasSubstr;

// A work folder with a home, as a run leaves it.
class OutputFilesTest : public ::testing::Test {
 protected:
  OutputFilesTest() : folder_(TempDirectory::Make().value()) {
    EXPECT_THAT(MakeDirectories(Home()), IsOk());
  }
  std::string Home() const { return JoinPath(folder_.path(), "home"); }
  std::string At(absl::string_view name) const {
    return JoinPath(Home(), name);
  }
  void Write(absl::string_view name, absl::string_view text) {
    EXPECT_THAT(MakeDirectories(DirName(At(name))), IsOk());
    EXPECT_THAT(WriteFileAtomic(At(name), text), IsOk());
  }
  v1::OutputFile Collect(absl::string_view name,
                         const OutputFileLimits& limits = {}) {
    v1::Entry entry;
    entry.add_expected_files()->set_name(std::string(name));
    const auto files =
        CollectOutputFiles(entry, folder_.path(), "home", limits);
    EXPECT_EQ(files.size(), 1);
    EXPECT_EQ(files[0].name(), name);
    return files[0];
  }

  TempDirectory folder_;
};

TEST_F(OutputFilesTest, WholeFile) {
  Write("out/a.txt", "1.5\n");
  const v1::OutputFile file = Collect("out/a.txt");
  EXPECT_EQ(file.problem(), "");
  EXPECT_EQ(file.content().head(), "1.5\n");
  EXPECT_EQ(file.content().tail(), "");
  EXPECT_EQ(file.content().total_bytes(), 4u);
  EXPECT_EQ(file.content().digest().sha256(), Sha256Of("1.5\n").Raw());
}

TEST_F(OutputFilesTest, EmptyFileIsThere) {
  Write("a", "");
  const v1::OutputFile file = Collect("a");
  EXPECT_EQ(file.problem(), "");
  EXPECT_EQ(file.content().digest().sha256(), Sha256Of("").Raw());
}

TEST_F(OutputFilesTest, EndsOfALongFileAndItsDigest) {
  const std::string text(3 << 20, 'x');
  Write("a", text + "end");
  OutputFileLimits limits;
  limits.kept_bytes = 4;
  const v1::OutputFile file = Collect("a", limits);
  EXPECT_EQ(file.content().head(), "xxxx");
  EXPECT_EQ(file.content().tail(), "xend");
  EXPECT_EQ(file.content().total_bytes(), text.size() + 3);
  EXPECT_EQ(file.content().digest().sha256(), Sha256Of(text + "end").Raw());
}

TEST_F(OutputFilesTest, AllFilesTogetherKeepSoMuch) {
  v1::Entry entry;
  for (const char* name : {"a", "b", "c"}) {
    Write(name, "0123456789");
    entry.add_expected_files()->set_name(name);
  }
  OutputFileLimits limits;
  limits.kept_in_all = 12;
  const auto files = CollectOutputFiles(entry, folder_.path(), "home", limits);
  ASSERT_EQ(files.size(), 3);
  EXPECT_EQ(files[0].content().head(), "012345");
  EXPECT_EQ(files[0].content().tail(), "6789");
  EXPECT_EQ(files[1].content().head(), "0");
  for (const v1::OutputFile& file : files) {
    EXPECT_EQ(file.content().digest().sha256(), Sha256Of("0123456789").Raw());
  }
}

TEST_F(OutputFilesTest, WhatIsNotThere) {
  EXPECT_EQ(Collect("a").problem(), "is missing");
  EXPECT_EQ(Collect("no/a").problem(), "is missing");
  Write("file", "x");
  EXPECT_THAT(Collect("file/a").problem(), HasSubstr("is missing"));
  EXPECT_THAT(Collect(std::string(255, 'n')).problem(), HasSubstr("missing"));
}

TEST_F(OutputFilesTest, NoLinkIsFollowed) {
  ASSERT_EQ(symlink("/etc/passwd", At("link").c_str()), 0);
  EXPECT_EQ(Collect("link").problem(), "is a symbolic link");
  EXPECT_FALSE(Collect("link").has_content());
  ASSERT_EQ(symlink("/etc", At("folder").c_str()), 0);
  EXPECT_EQ(Collect("folder/passwd").problem(), "lies behind a symbolic link");
  // Into the folder itself, too: the artifact's files are such links.
  Write("real/a", "x");
  ASSERT_EQ(symlink("real", At("again").c_str()), 0);
  EXPECT_EQ(Collect("again/a").problem(), "lies behind a symbolic link");
  ASSERT_EQ(symlink("nowhere", At("dangling").c_str()), 0);
  EXPECT_EQ(Collect("dangling").problem(), "is a symbolic link");
}

TEST_F(OutputFilesTest, HomeThatIsALinkIsNotEntered) {
  ASSERT_EQ(rmdir(Home().c_str()), 0);
  ASSERT_EQ(symlink("/etc", Home().c_str()), 0);
  EXPECT_THAT(Collect("passwd").problem(), HasSubstr("replaced"));
}

TEST_F(OutputFilesTest, OddThingsAreNotOpened) {
  ASSERT_EQ(mkfifo(At("fifo").c_str(), 0600), 0);
  // Would hang if it were opened for reading without a writer.
  EXPECT_EQ(Collect("fifo").problem(), "is no regular file");
  ASSERT_EQ(mkdir(At("dir").c_str(), 0700), 0);
  EXPECT_EQ(Collect("dir").problem(), "is a folder");
}

TEST_F(OutputFilesTest, NamesThatLeaveTheFolder) {
  Write("a", "x");
  for (const char* name : {"../home/a", "/etc/passwd", "a/..", "./a", ""}) {
    EXPECT_THAT(Collect(name).problem(), HasSubstr("leaves the working folder"))
        << name;
  }
}

TEST_F(OutputFilesTest, AHoleOfManyBytesIsNotRead) {
  const UniqueFd fd(open(At("hole").c_str(), O_CREAT | O_WRONLY, 0600));
  ASSERT_TRUE(fd.valid());
  ASSERT_EQ(ftruncate(fd.get(), off_t{1} << 40), 0);
  const v1::OutputFile file = Collect("hole");
  EXPECT_TRUE(absl::StartsWith(file.problem(), "could not be read"))
      << file.problem();
  EXPECT_FALSE(file.has_content());
}

TEST_F(OutputFilesTest, TimeIsBounded) {
  Write("a", std::string(1000, 'x'));
  OutputFileLimits limits;
  limits.time = absl::ZeroDuration() - absl::Seconds(1);
  EXPECT_THAT(Collect("a", limits).problem(), HasSubstr("too long"));
}

// A real run in the sandbox.
class RunWithFiles : public RunFixture {
 protected:
  v1::Observation RunShell(const std::string& script,
                           const std::vector<std::string>& files) const {
    v1::RunRequest request = Request({});
    v1::Entry& entry = *request.mutable_entry();
    entry.clear_command();
    for (const char* word : {"/bin/sh", "-c"}) entry.add_command(word);
    entry.add_command(script);
    for (const std::string& name : files) {
      entry.add_expected_files()->set_name(name);
    }
    return Run(request);
  }
};

TEST_F(RunWithFiles, AreInTheObservation) {
  const v1::Observation run = RunShell(
      "mkdir out && echo 1.5 > out/a.txt && ln -s /etc/passwd link && "
      "mkfifo fifo && exit 3",
      {"out/a.txt", "link", "fifo", "missing", kTestProgram});
  ASSERT_EQ(run.ending(), v1::ENDING_EXITED) << run.problem();
  // Whatever the exit code, they are evidence.
  EXPECT_EQ(run.exit_code(), 3);
  ASSERT_EQ(run.files_size(), 5);
  EXPECT_EQ(run.files(0).content().head(), "1.5\n");
  EXPECT_EQ(run.files(1).problem(), "is a symbolic link");
  EXPECT_EQ(run.files(2).problem(), "is no regular file");
  EXPECT_EQ(run.files(3).problem(), "is missing");
  // Files of the artifact are links in the working folder: inputs.
  EXPECT_EQ(run.files(4).problem(), "is a symbolic link");
}

TEST_F(RunWithFiles, AProgramThatMovesItsHomeShowsNothingOfTheHost) {
  const v1::Observation run =
      RunShell("cd .. && mv home gone && ln -s /etc home; true", {"passwd"});
  ASSERT_EQ(run.ending(), v1::ENDING_EXITED) << run.problem();
  ASSERT_EQ(run.files_size(), 1);
  EXPECT_NE(run.files(0).problem(), "");
  EXPECT_FALSE(run.files(0).has_content());
}

TEST_F(RunWithFiles, AProgramThatWasNotStartedLeavesNone) {
  v1::RunRequest request = Request({});
  request.mutable_entry()->set_command(0, "no-such-program");
  request.mutable_entry()->add_expected_files()->set_name("a");
  const v1::Observation run = Run(request);
  EXPECT_EQ(run.ending(), v1::ENDING_NOT_STARTED);
  EXPECT_EQ(run.files_size(), 0);
}

}  // namespace
}  // namespace twinpath::runner
