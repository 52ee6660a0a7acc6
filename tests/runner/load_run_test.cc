// The entry of kind IMAGES: from an artifact's files to a report on every
// image, and what a loader that lies, dies or is kept from starting leaves.

#include "runner/load_run.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"
#include "runner/load_answer.h"
#include "runner/run.h"
#include "runner/sandbox.h"
#include "tests/runner/load_fixture.h"

namespace twinpath::runner {
namespace {

using ::testing::HasSubstr;

class ImagesEntry : public ::testing::Test {
 protected:
  void SetUp() override {
    auto artifact = TempDirectory::Make();
    auto work = TempDirectory::Make();
    ASSERT_THAT(artifact, IsOk());
    ASSERT_THAT(work, IsOk());
    artifact_.emplace(*std::move(artifact));
    work_.emplace(*std::move(work));
  }

  void Put(const std::string& sample, const std::string& name) {
    const auto bytes =
        ReadFile(JoinPath(TestVariable("TWINPATH_SOURCE_DIR"),
                          absl::StrCat("tests/data/samples/", sample)),
                 16 << 20);
    ASSERT_THAT(bytes, IsOk());
    const std::string path = JoinPath(artifact_->path(), name);
    ASSERT_THAT(MakeDirectories(DirName(path), 0755), IsOk());
    ASSERT_THAT(WriteFileAtomic(path, *bytes, 0644), IsOk());
  }

  v1::RunRequest Request() const {
    v1::RunRequest request;
    request.set_attempt_id("0123456789abcdef0123456789abcdef");
    request.set_path(v1::PATH_PLAIN);
    request.mutable_entry()->set_name("images");
    request.mutable_entry()->set_kind(v1::ENTRY_KIND_IMAGES);
    request.add_gpu_uuids("GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    request.set_artifact_directory(artifact_->path());
    request.set_work_directory(work_->path());
    return request;
  }

  // Runs the loader without confinement.
  static v1::Observation Unconfined(const v1::RunRequest& request) {
    v1::Observation observation;
    ProcessOptions options;
    for (const std::string& word : request.entry().command()) {
      options.argv.push_back(word);
    }
    options.environment = {
        absl::StrCat(
            "LD_LIBRARY_PATH=",
            JoinPath(TestVariable("TWINPATH_BIN_DIR"), "fake_drivers/full")),
        "TWINPATH_FAKE_CUDA=gpu=9.0",
        // What must not reach the workers.
        "CUDA_DISABLE_PTX_JIT=1", "CUDA_FORCE_PTX_JIT=1"};
    options.timeout = absl::Minutes(2);
    const auto ran = RunProcess(options);
    EXPECT_THAT(ran, IsOk());
    if (!ran.ok()) return observation;
    observation.set_ending(v1::ENDING_EXITED);
    observation.set_exit_code(ran->exit_code);
    return observation;
  }

  // The images of a file that are in this state.
  static int Count(const v1::ImageLoadReport& report, const std::string& file,
                   v1::LoadState state) {
    int count = 0;
    for (const v1::ImageLoad& load : report.images()) {
      count += load.file() == file && load.state() == state ? 1 : 0;
    }
    return count;
  }

  // What a run that leaves `result` in place of the loader's gives.
  v1::ImageLoadReport After(
      const std::function<void(const std::string& path)>& leave) {
    const v1::RunResponse response =
        RunImagesEntry(Request(), [&](const v1::RunRequest& request) {
          leave(request.entry().command(2));
          v1::Observation observation;
          observation.set_ending(v1::ENDING_EXITED);
          return observation;
        });
    return response.image_loads();
  }

  std::optional<TempDirectory> artifact_;
  std::optional<TempDirectory> work_;
};

TEST_F(ImagesEntry, EveryImageOfEveryFileIsReported) {
  // sm_90 and compute_75; one cubin; one PTX; sm_90, sm_120 and compute_75.
  Put("check.fatbin", "check.fatbin");
  Put("check.sm_90.cubin", "lib/a.cubin");
  Put("check.ptx", "lib/a.ptx");
  Put("libcheck.so", "lib/libcheck.so");
  const v1::RunResponse response = RunImagesEntry(Request(), Unconfined);
  const v1::ImageLoadReport& report = response.image_loads();
  EXPECT_EQ(response.observation().exit_code(), 0);
  EXPECT_TRUE(report.problems().empty()) << report.DebugString();
  EXPECT_EQ(report.gpu_uuid(), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
  EXPECT_EQ(Count(report, "check.fatbin", v1::LOAD_STATE_LOADED), 2);
  EXPECT_EQ(Count(report, "lib/a.cubin", v1::LOAD_STATE_LOADED), 1);
  EXPECT_EQ(Count(report, "lib/a.ptx", v1::LOAD_STATE_LOADED), 1);
  EXPECT_EQ(Count(report, "lib/libcheck.so", v1::LOAD_STATE_LOADED), 2);
  EXPECT_EQ(Count(report, "lib/libcheck.so", v1::LOAD_STATE_REFUSED), 1);
  EXPECT_EQ(report.tried(), 7u);
  EXPECT_EQ(report.loaded(), 6u);
  EXPECT_EQ(report.left_out(), 0u);
  EXPECT_EQ(report.kernels(), 6u);
  for (const v1::ImageLoad& load : report.images()) {
    EXPECT_EQ(load.predicted(), v1::OUTCOME_UNSPECIFIED);
    EXPECT_EQ(load.has_fatbin(), load.file() == "check.fatbin" ||
                                     load.file() == "lib/libcheck.so");
    if (load.target().number() == 120) {
      EXPECT_EQ(load.cuda_error(), 209u);
    }
  }
}

TEST_F(ImagesEntry, AnArtifactWithoutImages) {
  Put("commands", "text");
  const v1::RunResponse response = RunImagesEntry(Request(), Unconfined);
  EXPECT_EQ(response.image_loads().tried(), 0u);
  EXPECT_TRUE(response.image_loads().problems().empty());
}

TEST_F(ImagesEntry, OnlyTheFilesItCovers) {
  Put("check.ptx", "lib/a.ptx");
  Put("check.ptx", "lib/b.ptx");
  v1::RunRequest request = Request();
  request.mutable_entry()->add_covers("lib/b.ptx");
  request.mutable_entry()->add_covers("a word for people");
  const v1::RunResponse response = RunImagesEntry(request, Unconfined);
  ASSERT_EQ(response.image_loads().images_size(), 1);
  EXPECT_EQ(response.image_loads().images(0).file(), "lib/b.ptx");
}

TEST_F(ImagesEntry, LinksOfTheArtifactAreNotFollowed) {
  Put("check.ptx", "a.ptx");
  ASSERT_EQ(
      symlink("/etc/passwd", JoinPath(artifact_->path(), "passwd").c_str()), 0);
  ASSERT_EQ(symlink("a.ptx", JoinPath(artifact_->path(), "b.ptx").c_str()), 0);
  EXPECT_EQ(RunImagesEntry(Request(), Unconfined).image_loads().tried(), 1u);
}

TEST_F(ImagesEntry, ALoaderThatDoesNotComeToItsEnd) {
  Put("check.fatbin", "a");
  LoadAnswer answer;
  answer.id = 1;
  answer.state = LoadAnswer::State::kLoaded;
  const v1::ImageLoadReport report = After([&](const std::string& path) {
    // Cut in the middle of the second answer.
    ASSERT_THAT(WriteFileAtomic(path, answer.Line() + "image 0 1 0"), IsOk());
  });
  EXPECT_EQ(report.tried(), 1u);
  EXPECT_EQ(report.loaded(), 1u);
  EXPECT_EQ(report.left_out(), 1u);
  ASSERT_EQ(report.problems_size(), 1);
  EXPECT_EQ(report.problems(0).code(), "TP336");
}

TEST_F(ImagesEntry, AResultThatIsNoneSaysNothing) {
  Put("check.fatbin", "a");
  for (const auto& leave : std::vector<std::function<void(const std::string&)>>{
           [](const std::string&) {},
           [](const std::string& path) { mkfifo(path.c_str(), 0600); },
           [](const std::string& path) {
             EXPECT_EQ(symlink("/etc/passwd", path.c_str()), 0);
           },
           [](const std::string& path) { mkdir(path.c_str(), 0700); },
           [](const std::string& path) {
             // Images there are not, twice the same, and nonsense.
             EXPECT_THAT(
                 WriteFileAtomic(
                     path, absl::StrCat("image 7 1 0 0 1 1 1 1 -\n",
                                        "image 4294967296 1 0 0 1 1 1 1 -\n",
                                        "image 0 9 0 0 1 1 1 1 -\n",
                                        std::string(1000, '\xff'), "\nend\n")),
                 IsOk());
           }}) {
    auto work = TempDirectory::Make();
    ASSERT_THAT(work, IsOk());
    work_.emplace(*std::move(work));
    const v1::ImageLoadReport report = After(leave);
    EXPECT_EQ(report.tried(), 0u);
    EXPECT_EQ(report.left_out(), 2u);
    ASSERT_EQ(report.problems_size(), 1);
    EXPECT_EQ(report.problems(0).code(), "TP336");
  }
}

TEST_F(ImagesEntry, ASecondAnswerChangesNothing) {
  Put("check.ptx", "a");
  LoadAnswer refused;
  refused.state = LoadAnswer::State::kRefused;
  refused.cuda_error = 218;
  LoadAnswer loaded;
  loaded.state = LoadAnswer::State::kLoaded;
  const v1::ImageLoadReport report = After([&](const std::string& path) {
    ASSERT_THAT(WriteFileAtomic(
                    path, refused.Line() + loaded.Line() + LoadEnd().Line()),
                IsOk());
  });
  EXPECT_EQ(report.loaded(), 0u);
  EXPECT_EQ(report.images(0).cuda_error(), 218u);
  EXPECT_TRUE(report.problems().empty());
}

TEST_F(ImagesEntry, ARunThatIsNotStartedSaysWhy) {
  Put("check.ptx", "a");
  const v1::RunResponse response =
      RunImagesEntry(Request(), [](const v1::RunRequest&) {
        v1::Observation observation;
        observation.set_ending(v1::ENDING_NOT_STARTED);
        observation.set_problem("TP114 sandbox-unavailable: no bwrap");
        return observation;
      });
  ASSERT_EQ(response.image_loads().problems_size(), 1);
  EXPECT_EQ(response.image_loads().problems(0).code(), "TP114");
  EXPECT_EQ(response.image_loads().left_out(), 1u);
}

// Through twinpath-run, in the sandbox, with a driver that kills and hangs.
TEST_F(ImagesEntry, InTheSandbox) {
  if (const absl::Status status = CheckSandbox(); !status.ok()) {
    GTEST_SKIP() << "no sandbox on this machine: " << status.message();
  }
  Put("check.fatbin", "check.fatbin");
  Put("libcheck.so", "libcheck.so");
  v1::RunRequest request = Request();
  request.mutable_entry()->mutable_timeout()->set_seconds(120);
  const auto add = [&](const std::string& name, const std::string& value) {
    v1::EnvironmentVariable& added = *request.add_experiment_environment();
    added.set_name(name);
    added.set_value(value);
  };
  add("LD_LIBRARY_PATH",
      JoinPath(TestVariable("TWINPATH_BIN_DIR"), "fake_drivers/full"));
  add("TWINPATH_FAKE_CUDA", "gpu=9.0 image:sm_90=segv");
  const v1::RunResponse response =
      RunEntryInChild(request, absl::Minutes(4), nullptr);
  EXPECT_EQ(response.observation().ending(), v1::ENDING_EXITED)
      << response.observation().problem();
  EXPECT_EQ(response.observation().sandbox(), "bubblewrap");
  const v1::ImageLoadReport& report = response.image_loads();
  EXPECT_TRUE(report.problems().empty()) << report.DebugString();
  EXPECT_EQ(report.tried(), 5u);
  EXPECT_EQ(report.loaded(), 2u);
  EXPECT_EQ(report.deaths(), 2u);
  EXPECT_EQ(Count(report, "libcheck.so", v1::LOAD_STATE_DIED), 1);
  EXPECT_EQ(Count(report, "check.fatbin", v1::LOAD_STATE_DIED), 1);
}

// A bundle unpacked below /tmp, which is private in the sandbox.
TEST_F(ImagesEntry, FromAFolderThatTheSandboxHides) {
  if (const absl::Status status = CheckSandbox(); !status.ok()) {
    GTEST_SKIP() << "no sandbox on this machine: " << status.message();
  }
  Put("check.ptx", "a.ptx");
  const auto bundle = TempDirectory::Make("/tmp");
  ASSERT_THAT(bundle, IsOk());
  std::filesystem::copy_file(
      JoinPath(TestVariable("TWINPATH_BIN_DIR"), "twinpath-load"),
      JoinPath(bundle->path(), "twinpath-load"));
  ASSERT_EQ(setenv("TWINPATH_LIBEXEC", bundle->path().c_str(), 1), 0);
  v1::RunRequest request = Request();
  for (const auto& [name, value] :
       {std::pair<std::string, std::string>{
            "LD_LIBRARY_PATH",
            JoinPath(TestVariable("TWINPATH_BIN_DIR"), "fake_drivers/full")},
        {"TWINPATH_FAKE_CUDA", "gpu=9.0"}}) {
    v1::EnvironmentVariable& added = *request.add_experiment_environment();
    added.set_name(name);
    added.set_value(value);
  }
  const v1::RunResponse response =
      RunEntryInChild(request, absl::Minutes(4), nullptr);
  unsetenv("TWINPATH_LIBEXEC");
  EXPECT_EQ(response.image_loads().loaded(), 1u) << response.DebugString();
}

TEST_F(ImagesEntry, HasALongTimeLimitOfItsOwn) {
  v1::Entry entry;
  EXPECT_EQ(ImagesTimeLimit(entry), absl::Minutes(15));
  entry.mutable_timeout()->set_seconds(7);
  EXPECT_EQ(ImagesTimeLimit(entry), absl::Seconds(7));
}

}  // namespace
}  // namespace twinpath::runner
