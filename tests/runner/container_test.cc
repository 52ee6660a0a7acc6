// Runs in containers without the unit and without root: podman as the user who
// runs the tests. tests/nspawn has the unit and root.

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/subprocess.h"
#include "runner/run_watch.h"
#include "tests/runner/run_fixture.h"

namespace twinpath::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Container : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() == 0) GTEST_SKIP() << "root; tests/nspawn has that";
    for (const char* program : {"/usr/bin/podman", "/usr/bin/python3"}) {
      if (access(program, X_OK) != 0) {
        GTEST_SKIP() << program << " is not installed";
      }
    }
    folder_.emplace(*TempDirectory::Make());
    image_ = MakeImage("image", {"bin/sh=/bin/sh", "bin/sleep=/bin/sleep"});
    const v1::Observation first = Run(Request(image_, "exit 5"));
    if (first.ending() == v1::ENDING_NOT_STARTED) {
      // Only where podman by itself cannot do it either.
      const std::string bare = BareRun();
      ASSERT_NE(bare, "") << "podman runs the image, Twinpath does not: "
                          << first.problem();
      GTEST_SKIP() << "no containers on this machine: " << bare;
    }
    ASSERT_EQ(first.exit_code(), 5) << first.ShortDebugString();
  }
  void TearDown() override { unsetenv(kDiskLimitVariable); }

  // Returns the digest of an image with these files.
  std::string MakeImage(const std::string& name,
                        const std::vector<std::string>& words) {
    ProcessOptions options;
    const char* source = std::getenv("TWINPATH_SOURCE_DIR");
    options.argv = {
        "/usr/bin/python3",
        JoinPath(source == nullptr ? "." : source, "tests/nspawn/make_image"),
        JoinPath(folder_->path(), absl::StrCat(name, "/image")), "--env",
        "PATH=/bin"};
    options.argv.insert(options.argv.end(), words.begin(), words.end());
    options.environment = MinimalEnvironment();
    const auto result = RunProcess(options);
    EXPECT_THAT(result, IsOk());
    if (!result.ok()) return "";
    EXPECT_TRUE(result->succeeded()) << result->err.head;
    return std::string(absl::StripAsciiWhitespace(result->out.head));
  }
  // Why podman by itself cannot run the image; empty where it can.
  std::string BareRun() {
    const std::string root = JoinPath(folder_->path(), "bare");
    ProcessOptions options;
    options.argv = {"/usr/bin/podman",
                    "--cgroup-manager=cgroupfs",
                    "--events-backend=none",
                    "--storage-driver=vfs",
                    "--storage-opt=vfs.ignore_chown_errors=true",
                    absl::StrCat("--root=", root, "/storage"),
                    absl::StrCat("--runroot=", root, "/run"),
                    absl::StrCat("--tmpdir=", root, "/tmp"),
                    "run",
                    "--rm",
                    "--network=none",
                    "--log-driver=none",
                    "oci:image",
                    "/bin/sh",
                    "-c",
                    "exit 5"};
    options.environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
                           absl::StrCat("HOME=", root),
                           absl::StrCat("XDG_RUNTIME_DIR=", root)};
    // The name of an image may not have every letter of a folder's.
    options.directory = JoinPath(folder_->path(), "image");
    options.timeout = absl::Minutes(2);
    EXPECT_THAT(MakeDirectories(root, 0700), IsOk());
    const auto result = RunProcess(options);
    if (!result.ok()) return std::string(result.status().message());
    if (result->ending == ProcessResult::Ending::kExited &&
        result->exit_code == 5) {
      return "";
    }
    return absl::StrCat(result->Describe(), ": ", result->err.head);
  }
  v1::RunRequest Request(const std::string& digest, const std::string& script,
                         const std::string& name = "image") {
    work_.emplace(*TempDirectory::Make());
    v1::RunRequest request;
    request.set_attempt_id("0123456789abcdef0123456789abcdef");
    request.set_path(v1::PATH_PLAIN);
    v1::Entry& entry = *request.mutable_entry();
    entry.set_kind(v1::ENTRY_KIND_OCI);
    entry.set_oci_image(digest);
    for (const std::string& word :
         {std::string("sh"), std::string("-c"), script})
      entry.add_command(word);
    request.set_artifact_directory(JoinPath(folder_->path(), name));
    request.set_work_directory(work_->path());
    return request;
  }
  static v1::Observation Run(const v1::RunRequest& request) {
    return RunInChild(request, absl::Minutes(4), nullptr);
  }
  // Command lines of processes that name the run's folder.
  std::vector<std::string> Left() const {
    std::vector<std::string> left;
    const auto names = ListDirectory("/proc");
    if (!names.ok()) return left;
    for (const std::string& name : *names) {
      auto line = ReadFile(absl::StrCat("/proc/", name, "/cmdline"), 65536);
      if (line.ok() && absl::StrContains(*line, work_->path())) {
        left.push_back(*line);
      }
    }
    return left;
  }

  std::optional<TempDirectory> folder_;
  std::optional<TempDirectory> work_;
  std::string image_;
};

// Whoever waits no longer sends SIGTERM to twinpath-run.
TEST_F(Container, ToldToEndItTidiesFirst) {
  const v1::RunRequest request =
      Request(image_, ": >/twinpath/home/up; exec sleep 1000");
  const std::string up = JoinPath(work_->path(), "run/home/up");
  bool was_up = false;
  const v1::Observation run = RunInChild(request, absl::Minutes(4), [&] {
    was_up = access(up.c_str(), F_OK) == 0;
    return was_up;
  });
  EXPECT_TRUE(was_up);
  EXPECT_EQ(run.ending(), v1::ENDING_INTERRUPTED) << run.ShortDebugString();
  // Storage, container, conmon.
  EXPECT_THAT(*ListDirectory(work_->path()), ElementsAre("run"));
  EXPECT_THAT(Left(), ElementsAre());
}

TEST_F(Container, ToldToEndWhileItUnpacksItTidiesToo) {
  const std::string large =
      MakeImage("large", {"--zeros", "big=100000000", "bin/sh=/bin/sh"});
  const v1::RunRequest request = Request(large, "exit 5", "large");
  const std::string storage = JoinPath(work_->path(), "podman/view/index.json");
  bool unpacks = false;
  const v1::Observation run = RunInChild(request, absl::Minutes(4), [&] {
    unpacks = unpacks || access(storage.c_str(), F_OK) == 0;
    return unpacks;
  });
  EXPECT_TRUE(unpacks);
  EXPECT_EQ(run.ending(), v1::ENDING_INTERRUPTED) << run.ShortDebugString();
  EXPECT_THAT(*ListDirectory(work_->path()), ElementsAre("run"));
  EXPECT_THAT(Left(), ElementsAre());
}

TEST_F(Container, AnImageThatIsTooLargeUnpackedIsRefused) {
  const std::string large =
      MakeImage("large", {"--zeros", "big=60000000", "bin/sh=/bin/sh"});
  EXPECT_EQ(Run(Request(large, "exit 5", "large")).exit_code(), 5);
  setenv(kDiskLimitVariable, "30000000", 1);
  const v1::Observation run = Run(Request(large, "exit 5", "large"));
  EXPECT_EQ(run.ending(), v1::ENDING_NOT_STARTED) << run.ShortDebugString();
  EXPECT_THAT(run.problem(),
              HasSubstr("TP115 artifact-not-staged: unpacking the oci_image: "
                        "disk limit"));
  EXPECT_THAT(*ListDirectory(work_->path()), ElementsAre("run"));
}

}  // namespace
}  // namespace twinpath::runner
