#include "inspect/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "base/file.h"
#include "base/status_matchers.h"
#include "inspect/manifest.h"
#include "tests/inspect/archive_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/inspect_fixture.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ChildTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<TempDirectory> made = TempDirectory::Make();
    ASSERT_THAT(made, IsOk());
    folder_ = std::make_unique<TempDirectory>(*std::move(made));
    fatbin_ = folder_->path() + "/demo.fatbin";
    ASSERT_THAT(
        WriteFileAtomic(fatbin_, BuildFatbin({SassEntry({.sm = 90})}), 0644),
        IsOk());
    if (const char* bin = std::getenv("TWINPATH_BIN_DIR")) {
      ::setenv("TWINPATH_LIBEXEC", bin, 1);
    }
  }
  void TearDown() override { ::unsetenv("TWINPATH_LIBEXEC"); }

  // Puts a shell script in place of the inspector.
  void ReplaceInspector(const std::string& script) {
    const std::string path = folder_->path() + "/twinpath-inspect";
    ASSERT_THAT(WriteFileAtomic(path, "#!/bin/sh\n" + script, 0755), IsOk());
    ::setenv("TWINPATH_LIBEXEC", folder_->path().c_str(), 1);
  }

  std::unique_ptr<TempDirectory> folder_;
  std::string fatbin_;
};

TEST_F(ChildTest, ReportsWhatTheLibraryReports) {
  const absl::StatusOr<v1::FileReport> report =
      InspectInChild(fatbin_, "demo", {.image_digests = true});
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->name(), "demo");
  EXPECT_EQ(report->kind(), v1::FILE_KIND_FATBIN);
  EXPECT_TRUE(report->has_digest());
  ASSERT_EQ(report->fatbins_size(), 1);
  EXPECT_THAT(KernelNames(report->fatbins(0).images(0)),
              ElementsAre("_Z6kernelPi"));
  EXPECT_TRUE(report->fatbins(0).images(0).has_digest());
}

TEST_F(ChildTest, FilesThatCannotBeOpenedAreErrors) {
  EXPECT_THAT(InspectInChild(folder_->path() + "/gone", "gone", {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("gone")));
  EXPECT_THAT(InspectInChild(folder_->path(), "folder", {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ChildTest, AChildThatDiesIsAReport) {
  ReplaceInspector("kill -SEGV $$\n");
  const absl::StatusOr<v1::FileReport> report =
      InspectInChild(fatbin_, "demo", {});
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->kind(), v1::FILE_KIND_UNSPECIFIED);
  EXPECT_THAT(ProblemCodes(*report), ElementsAre("TP232"));
  EXPECT_THAT(report->problems(0).detail(), HasSubstr("SIGSEGV"));
}

TEST_F(ChildTest, AChildThatTalksNonsenseIsAReport) {
  ReplaceInspector("echo nonsense\n");
  const absl::StatusOr<v1::FileReport> report =
      InspectInChild(fatbin_, "demo", {});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->problems(0).detail(), HasSubstr("cannot be read"));
}

TEST_F(ChildTest, WhatAChildSaysOfItsFailureIsKept) {
  ReplaceInspector("echo 'no memory' >&2; exit 2\n");
  const absl::StatusOr<v1::FileReport> report =
      InspectInChild(fatbin_, "demo", {});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->problems(0).detail(), HasSubstr("no memory"));
}

// Names of all reports, those of one file joined; "!CODE" for what cannot be
// opened.
std::vector<std::string> NamesOf(const std::vector<InspectTarget>& targets,
                                 const InspectOptions& options = {}) {
  std::vector<std::string> all;
  EXPECT_THAT(
      InspectFiles(targets, options,
                   [&](const absl::Status& opened, size_t target,
                       std::vector<v1::FileReport> reports) {
                     EXPECT_EQ(target, all.size());
                     std::string names;
                     if (!opened.ok()) {
                       names = absl::StrCat(
                           "!", absl::StatusCodeToString(opened.code()));
                     }
                     for (const v1::FileReport& report : reports) {
                       absl::StrAppend(&names, names.empty() ? "" : " ",
                                       report.name());
                       for (const std::string& code : ProblemCodes(report)) {
                         absl::StrAppend(&names, "(", code, ")");
                       }
                     }
                     all.push_back(names);
                     return absl::OkStatus();
                   }),
      IsOk());
  return all;
}

TEST_F(ChildTest, CarriersStandBeforeTheirMembers) {
  const std::string fatbin = BuildFatbin({SassEntry({.sm = 90})});
  const std::string inner =
      BuildArchive("zip", {{"a.fatbin", fatbin}, {"b.fatbin", fatbin}});
  const std::string outer = BuildArchive(
      "gnutar", {{"1.zip", inner}, {"x.fatbin", fatbin}, {"2.zip", inner}},
      {.filters = {"gzip"}});
  const std::string path = folder_->path() + "/all.tgz";
  ASSERT_THAT(WriteFileAtomic(path, outer, 0644), IsOk());
  EXPECT_THAT(
      NamesOf({{path, "t"}, {fatbin_, "f"}, {path, "u"}}),
      ElementsAre(
          "t t!/1.zip t!/1.zip!/a.fatbin t!/1.zip!/b.fatbin "
          "t!/x.fatbin t!/2.zip t!/2.zip!/a.fatbin t!/2.zip!/b.fatbin",
          "f",
          "u u!/1.zip u!/1.zip!/a.fatbin u!/1.zip!/b.fatbin "
          "u!/x.fatbin u!/2.zip u!/2.zip!/a.fatbin u!/2.zip!/b.fatbin"));
  const absl::StatusOr<std::vector<v1::FileReport>> all =
      InspectAllInChild(path, "t", {});
  ASSERT_THAT(all, IsOk());
  EXPECT_EQ(all->size(), 8u);
  // One file alone is never opened as a carrier.
  const absl::StatusOr<v1::FileReport> alone = InspectInChild(path, "t", {});
  ASSERT_THAT(alone, IsOk());
  EXPECT_FALSE(alone->has_carrier());
}

// The scratch file works in the confined child.
TEST_F(ChildTest, LargeMembersGoThroughTheScratchFile) {
  const std::string fatbin =
      BuildFatbin({SassEntry({.sm = 90, .filler = 20 << 20})});
  const std::string bytes =
      BuildArchive("zip", {{"large", fatbin}, {"again", fatbin}});
  const std::string path = folder_->path() + "/x.zip";
  ASSERT_THAT(WriteFileAtomic(path, bytes, 0644), IsOk());
  EXPECT_THAT(NamesOf({{path, "x"}}), ElementsAre("x x!/large x!/again"));
  ::setenv("TMPDIR", "/nowhere", 1);
  EXPECT_THAT(NamesOf({{path, "x"}}), ElementsAre("x x!/large x!/again"));
  ::unsetenv("TMPDIR");
}

TEST_F(ChildTest, ManyFilesInBatches) {
  std::vector<InspectTarget> targets;
  std::vector<std::string> want;
  for (size_t i = 0; i < 2 * kMaxBatchFiles + 3; ++i) {
    targets.push_back({fatbin_, absl::StrCat("file", i)});
    want.push_back(targets.back().name);
  }
  targets[5].path = folder_->path() + "/gone";
  want[5] = "!NOT_FOUND";
  targets[70].path = folder_->path();
  want[70] = "!INVALID_ARGUMENT";
  EXPECT_EQ(NamesOf(targets), want);
  EXPECT_THAT(NamesOf({}), ::testing::IsEmpty());
}

// A child that dies at one file costs only that one.
TEST_F(ChildTest, OnlyTheGuiltyFileIsIncomplete) {
  const char* const bin = std::getenv("TWINPATH_BIN_DIR");
  if (bin == nullptr) GTEST_SKIP() << "needs TWINPATH_BIN_DIR";
  ReplaceInspector(absl::StrCat("cd ", folder_->path(),
                                "\ncat > request\n"
                                "grep -q bad request && kill -SEGV $$\n"
                                "exec ",
                                bin, "/twinpath-inspect < request\n"));
  EXPECT_THAT(NamesOf({{fatbin_, "first"},
                       {fatbin_, "bad"},
                       {fatbin_, "third"},
                       {fatbin_, "last"}}),
              ElementsAre("first", "bad(TP232)", "third", "last"));
}

// What a child wrote before it died is taken, and the rest asked anew.
TEST_F(ChildTest, FinishedFilesAreKept) {
  const char* const bin = std::getenv("TWINPATH_BIN_DIR");
  if (bin == nullptr) GTEST_SKIP() << "needs TWINPATH_BIN_DIR";
  ReplaceInspector(absl::StrCat(
      "cd ", folder_->path(), "\necho run >> runs\ntest -f died && exec ", bin,
      "/twinpath-inspect\n", "touch died\n", bin,
      "/twinpath-inspect > answer\nhead -c -10 answer\nkill -SEGV $$\n"));
  EXPECT_THAT(NamesOf({{fatbin_, "a"}, {fatbin_, "b"}, {fatbin_, "c"}}),
              ElementsAre("a", "b", "c"));
  EXPECT_THAT(ReadFile(folder_->path() + "/runs", 100),
              IsOkAndHolds("run\nrun\n"));
}

TEST_F(ChildTest, ErrorsOfTheReceiverEndIt) {
  int calls = 0;
  EXPECT_THAT(InspectFiles({{{fatbin_, "a"}, {fatbin_, "b"}}}, {},
                           [&](const absl::Status&, size_t,
                               const std::vector<v1::FileReport>&) {
                             ++calls;
                             return absl::CancelledError("enough");
                           }),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(calls, 1);
}

TEST_F(ChildTest, HowItIsConfinedIsTold) {
  const absl::StatusOr<v1::Artifact> artifact =
      ScanArtifact({folder_->path()}, "");
  ASSERT_THAT(artifact, IsOk());
  const absl::StatusOr<v1::ArtifactReport> report = InspectArtifact(
      *artifact,
      [this](const v1::ArtifactFile& file) -> absl::StatusOr<std::string> {
        return JoinPath(folder_->path(), file.name());
      },
      {});
  ASSERT_THAT(report, IsOk());
  const v1::Confinement& confinement = report->confinement();
  EXPECT_TRUE(confinement.limits());
  EXPECT_THAT(DescribeConfinement(confinement), HasSubstr("limits"));
  // What does not hold is named.
  if (confinement.landlock_abi() == 0 || !confinement.system_call_filter()) {
    EXPECT_GT(confinement.missing_size(), 0);
  }
}

TEST(DescribeConfinementTest, NamesLayersAndWhatIsMissing) {
  v1::Confinement confinement;
  confinement.set_limits(true);
  confinement.set_landlock_abi(4);
  confinement.add_missing("system call filter: Invalid argument");
  EXPECT_EQ(DescribeConfinement(confinement),
            "limits, Landlock ABI 4; missing: system call filter: Invalid "
            "argument");
}

// A child that tells how far it is, cut at every place that pipes may cut it.
TEST_F(ChildTest, ProgressIsTold) {
  v1::InspectResult half;
  half.mutable_progress()->set_bytes_done(5);
  half.mutable_progress()->set_total_bytes(10);
  v1::InspectResult done;
  done.mutable_report()->set_name("demo");
  std::string stream;
  for (const v1::InspectResult& result : {half, done}) {
    const std::string bytes = result.SerializeAsString();
    ASSERT_LT(bytes.size(), 128u);
    stream.push_back(static_cast<char>(bytes.size()));
    stream += bytes;
  }
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{4}, stream.size()}) {
    const std::string first = folder_->path() + "/first";
    const std::string second = folder_->path() + "/second";
    ASSERT_THAT(WriteFileAtomic(first, stream.substr(0, cut), 0644), IsOk());
    ASSERT_THAT(WriteFileAtomic(second, stream.substr(cut), 0644), IsOk());
    ReplaceInspector(absl::StrCat("cat > /dev/null\ncat ", first,
                                  "\nsleep 0.05\ncat ", second, "\n"));
    std::vector<std::string> told;
    ChildEvents events;
    events.progress = [&](size_t target, uint64_t bytes, uint64_t total) {
      told.push_back(absl::StrCat(target, " ", bytes, " ", total));
    };
    EXPECT_THAT(InspectFiles(
                    {{{fatbin_, "demo"}}}, {},
                    [&](const absl::Status&, size_t,
                        std::vector<v1::FileReport> reports) {
                      EXPECT_THAT(ProblemCodes(reports.front()),
                                  ::testing::IsEmpty());
                      told.push_back("done");
                      return absl::OkStatus();
                    },
                    events),
                IsOk());
    EXPECT_THAT(told, ElementsAre("0 5 10", "done"));
  }
}

TEST_F(ChildTest, AnArtifactsCarriersAreOpened) {
  ASSERT_THAT(
      WriteFileAtomic(
          folder_->path() + "/x.zip",
          BuildArchive("zip",
                       {{"k.fatbin", BuildFatbin({SassEntry({.sm = 100})})}}),
          0644),
      IsOk());
  const absl::StatusOr<v1::Artifact> artifact =
      ScanArtifact({folder_->path()}, "");
  ASSERT_THAT(artifact, IsOk());
  const absl::StatusOr<v1::ArtifactReport> report = InspectArtifact(
      *artifact,
      [this](const v1::ArtifactFile& file) -> absl::StatusOr<std::string> {
        return JoinPath(folder_->path(), file.name());
      },
      {});
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->files_size(), 3);
  EXPECT_EQ(report->files(1).name(), "x.zip");
  EXPECT_TRUE(report->files(1).has_carrier());
  EXPECT_EQ(report->files(2).name(), "x.zip!/k.fatbin");
  EXPECT_EQ(report->files(2).member_of(), "x.zip");
}

TEST_F(ChildTest, InspectsAnArtifact) {
  ASSERT_THAT(WriteFileAtomic(folder_->path() + "/run.sh", "#!/bin/sh\n", 0755),
              IsOk());
  const absl::StatusOr<v1::Artifact> artifact =
      ScanArtifact({folder_->path()}, "");
  ASSERT_THAT(artifact, IsOk());
  const absl::StatusOr<v1::ArtifactReport> report = InspectArtifact(
      *artifact,
      [this](const v1::ArtifactFile& file) -> absl::StatusOr<std::string> {
        return JoinPath(folder_->path(), file.name());
      },
      {});
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->artifact_digest().sha256(), artifact->digest().sha256());
  ASSERT_EQ(report->files_size(), 2);
  EXPECT_EQ(report->files(0).name(), "demo.fatbin");
  EXPECT_EQ(report->files(1).kind(), v1::FILE_KIND_TEXT);
  EXPECT_EQ(report->files(0).digest().sha256(),
            artifact->files(0).digest().sha256());
}

}  // namespace
}  // namespace twinpath::inspect
