#include "inspect/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "base/file.h"
#include "base/status_matchers.h"
#include "inspect/manifest.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/inspect_fixture.h"

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
