// How a run ended and what it left.

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "base/digest.h"
#include "runner/run_folder.h"
#include "tests/runner/run_fixture.h"

namespace twinpath::runner {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class RunTest : public RunFixture {};

TEST_F(RunTest, ExitCodeOfTheProgram) {
  for (const int code : {0, 1, 2, 125, 139, 255}) {
    auto work = TempDirectory::Make();
    ASSERT_THAT(work, IsOk());
    v1::RunRequest request = Request({"exit", std::to_string(code)});
    request.set_work_directory(work->path());
    const v1::Observation run = Run(request);
    EXPECT_EQ(run.ending(), v1::ENDING_EXITED);
    EXPECT_EQ(run.exit_code(), code);
    EXPECT_EQ(run.sandbox(), "bubblewrap");
    EXPECT_EQ(run.attempt_id(), request.attempt_id());
  }
}

// What the kernel has is what is said; without it the artifact is not kept as
// it was verified.
TEST_F(RunTest, SaysWhetherLandlockWasThere) {
  constexpr long kCreateRuleset = 444;
  const long abi = syscall(kCreateRuleset, nullptr, size_t{0}, 1u);
  const v1::Observation run = Run(Request({"exit", "0"}));
  EXPECT_EQ(run.exit_code(), 0);
  EXPECT_EQ(run.ending(), v1::ENDING_EXITED);
  EXPECT_EQ(run.landlock_abi(), abi >= 2 ? static_cast<uint32_t>(abi) : 0u);
}

TEST_F(RunTest, SignalIsNotMistakenForAnExitCode) {
  const v1::Observation run = Run({"signal", "11"});
  EXPECT_EQ(run.ending(), v1::ENDING_SIGNALED);
  EXPECT_EQ(run.signal(), 11);
}

TEST_F(RunTest, ArgumentsArriveAsTheyAre) {
  EXPECT_EQ(
      Run({"arguments", "a b", "", "$HOME", "--", "\x01\xff"}).stdout().head(),
      "[a b][][$HOME][--][\x01\xff]");
}

TEST_F(RunTest, FilesOfTheArtifactAreInTheWorkingFolder) {
  ASSERT_THAT(
      WriteFileAtomic(JoinPath(artifact_->path(), "input.txt"), "seven", 0644),
      IsOk());
  const v1::Observation run = Run({"read", "input.txt"});
  EXPECT_EQ(run.stdout().head(), "seven");
}

TEST_F(RunTest, FloodIsCountedAndHashedButNotKept) {
  constexpr uint64_t kBytes = 50'000'000;
  v1::RunRequest request = Request({"flood", std::to_string(kBytes)});
  request.set_output_limit_bytes(1000);
  const v1::Observation run = Run(request);
  ASSERT_EQ(run.ending(), v1::ENDING_EXITED);
  EXPECT_EQ(run.stdout().total_bytes(), kBytes);
  EXPECT_EQ(run.stdout().head().size(), 1000u);
  EXPECT_EQ(run.stdout().tail().size(), 1000u);
  EXPECT_THAT(run.stdout().head(), StartsWith("ab"));
  EXPECT_TRUE(absl::EndsWith(run.stdout().tail(), "bz"));
  std::string all(kBytes, 'b');
  all.front() = 'a';
  all.back() = 'z';
  EXPECT_EQ(run.stdout().digest().sha256(), Sha256Of(all).Raw());
}

TEST_F(RunTest, DriverLogIsKept) {
  const v1::Observation run = Run({"driver"});
  EXPECT_THAT(run.driver_log().head(),
              HasSubstr("Returning 209 (CUDA_ERROR_NO_BINARY_FOR_GPU)"));
  EXPECT_EQ(run.driver_log().total_bytes(), run.driver_log().head().size());
  EXPECT_EQ(run.driver_log().digest().sha256(),
            Sha256Of(run.driver_log().head()).Raw());
}

TEST_F(RunTest, CacheFilesAreCounted) {
  const v1::Observation run = Run({"driver"});
  EXPECT_TRUE(run.cache().observed());
  EXPECT_EQ(run.cache().files(), 2u);
  EXPECT_EQ(run.cache().bytes(), 12u);
}

TEST_F(RunTest, EmptyCacheIsObservedAsEmpty) {
  const v1::Observation run = Run({"exit", "0"});
  EXPECT_TRUE(run.cache().observed());
  EXPECT_EQ(run.cache().files(), 0u);
}

TEST_F(RunTest, NativePathObservesNoCache) {
  const v1::Observation run = Run(Request({"driver"}, v1::PATH_NATIVE));
  EXPECT_EQ(run.ending(), v1::ENDING_EXITED);
  EXPECT_FALSE(run.cache().observed());
}

TEST_F(RunTest, TrapsInTheFoldersAreNotFollowed) {
  // The log became a FIFO, the cache a link to a folder full of files.
  const v1::Observation run = Run({"traps"});
  ASSERT_EQ(run.ending(), v1::ENDING_EXITED) << run.ShortDebugString();
  ASSERT_EQ(run.exit_code(), 0);
  EXPECT_EQ(run.driver_log().total_bytes(), 0u);
  EXPECT_FALSE(run.cache().observed());
  EXPECT_EQ(run.cache().files(), 0u);
}

// Folders deeper than are looked into may hold files.
TEST(RunFolderTest, WhatIsNotLookedIntoIsNotCalledEmpty) {
  const auto work = TempDirectory::Make();
  ASSERT_THAT(work, IsOk());
  const auto folder = RunFolder::Make(work->path(), "", false);
  ASSERT_THAT(folder, IsOk());
  EXPECT_TRUE(folder->CacheEvidenceNow().observed());
  std::string deep = folder->cache();
  for (int i = 0; i < 40; ++i) deep += "/d";
  ASSERT_THAT(MakeDirectories(deep), IsOk());
  EXPECT_FALSE(folder->CacheEvidenceNow().observed());
  // A file that was seen is seen.
  ASSERT_THAT(WriteFileAtomic(folder->cache() + "/f", "x", 0600), IsOk());
  EXPECT_TRUE(folder->CacheEvidenceNow().observed());
  EXPECT_EQ(folder->CacheEvidenceNow().files(), 1u);
}

TEST_F(RunTest, ProgramForAnotherCpuIsNotStarted) {
  const std::string path = JoinPath(artifact_->path(), kTestProgram);
  auto bytes = ReadFile(path, 64 << 20);
  ASSERT_THAT(bytes, IsOk());
  // e_machine: AArch64 is 183, x86-64 is 62.
  (*bytes)[18] = (*bytes)[18] == 62 ? static_cast<char>(183) : 62;
  ASSERT_THAT(WriteFileAtomic(path, *bytes, 0755), IsOk());
  const v1::Observation run = Run({"exit", "0"});
  EXPECT_EQ(run.ending(), v1::ENDING_NOT_STARTED);
  EXPECT_THAT(run.problem(), HasSubstr("exec format error"));
  EXPECT_THAT(run.problem(), HasSubstr("AArch64"));
  EXPECT_THAT(run.problem(), HasSubstr("x86-64"));
}

TEST_F(RunTest, MissingProgramIsNotStarted) {
  v1::RunRequest request = Request({});
  request.mutable_entry()->set_command(0, "nothing-here");
  const v1::Observation run = Run(request);
  EXPECT_EQ(run.ending(), v1::ENDING_NOT_STARTED);
  EXPECT_THAT(run.problem(), HasSubstr("nothing-here"));
}

TEST_F(RunTest, ProgramOutsideTheArtifactIsRefused) {
  v1::RunRequest request = Request({});
  request.mutable_entry()->set_command(0, "../../bin/sh");
  const v1::Observation run = Run(request);
  EXPECT_EQ(run.ending(), v1::ENDING_NOT_STARTED);
  EXPECT_THAT(run.problem(), HasSubstr("leaves the artifact"));
}

TEST_F(RunTest, TextWithoutInterpreterIsNotStarted) {
  ASSERT_THAT(WriteFileAtomic(JoinPath(artifact_->path(), "text"),
                              "just some text, no program at all\n", 0755),
              IsOk());
  v1::RunRequest request = Request({});
  request.mutable_entry()->set_command(0, "text");
  const v1::Observation run = Run(request);
  EXPECT_EQ(run.ending(), v1::ENDING_NOT_STARTED);
  EXPECT_THAT(run.problem(), HasSubstr("ENOEXEC"));
}

TEST_F(RunTest, ScriptWithMissingInterpreterIsNotStarted) {
  ASSERT_THAT(WriteFileAtomic(JoinPath(artifact_->path(), "script"),
                              "#!/no/such/shell\n", 0755),
              IsOk());
  v1::RunRequest request = Request({});
  request.mutable_entry()->set_command(0, "script");
  const v1::Observation run = Run(request);
  EXPECT_EQ(run.ending(), v1::ENDING_NOT_STARTED);
  EXPECT_THAT(run.problem(), HasSubstr("ENOENT"));
}

TEST_F(RunTest, FileWithoutExecuteModeIsNotStarted) {
  chmod(JoinPath(artifact_->path(), kTestProgram).c_str(), 0644);
  const v1::Observation run = Run({"exit", "0"});
  EXPECT_EQ(run.ending(), v1::ENDING_NOT_STARTED);
  EXPECT_THAT(run.problem(), HasSubstr("not executable"));
}

TEST_F(RunTest, UsedWorkFolderIsRefused) {
  ASSERT_THAT(WriteFileAtomic(JoinPath(work_->path(), "old"), "x"), IsOk());
  const v1::Observation run = Run({"exit", "0"});
  EXPECT_EQ(run.ending(), v1::ENDING_NOT_STARTED);
  EXPECT_THAT(run.problem(), HasSubstr("not empty"));
}

TEST_F(RunTest, WithoutBubblewrapItIsRefusedNotRunBare) {
  setenv("TWINPATH_BWRAP", "/no/such/bwrap", 1);
  const v1::Observation run = Run({"exit", "0"});
  unsetenv("TWINPATH_BWRAP");
  EXPECT_EQ(run.ending(), v1::ENDING_NOT_STARTED);
  EXPECT_THAT(run.problem(), StartsWith("TP114"));
}

TEST_F(RunTest, SandboxThatFailsIsRefusedNotRunBare) {
  // What bwrap does where the kernel refuses user namespaces.
  const std::string fake = JoinPath(artifact_->path(), "bwrap");
  ASSERT_THAT(
      WriteFileAtomic(fake,
                      "#!/bin/sh\necho 'bwrap: No permissions to create a new "
                      "namespace' >&2\nexit 1\n",
                      0755),
      IsOk());
  setenv("TWINPATH_BWRAP", fake.c_str(), 1);
  const v1::Observation run = Run({"exit", "0"});
  unsetenv("TWINPATH_BWRAP");
  EXPECT_EQ(run.ending(), v1::ENDING_NOT_STARTED);
  EXPECT_THAT(run.problem(), StartsWith("TP114"));
  EXPECT_THAT(run.problem(), HasSubstr("No permissions"));
}

}  // namespace
}  // namespace twinpath::runner
