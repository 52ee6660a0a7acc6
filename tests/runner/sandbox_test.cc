// What a program in the sandbox cannot do.

#include "runner/sandbox.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/runner/run_fixture.h"

namespace twinpath::runner {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class Sandbox : public RunFixture {};

TEST_F(Sandbox, CannotWriteOutsideTheWorkFolder) {
  auto outside = TempDirectory::Make("/var/tmp");
  ASSERT_THAT(outside, IsOk());
  int number = 0;
  for (const std::string& path :
       {std::string("/etc/twinpath-test"), std::string("/twinpath-test"),
        JoinPath(artifact_->path(), "new")}) {
    auto work = TempDirectory::Make();
    ASSERT_THAT(work, IsOk());
    v1::RunRequest request = Request({"write", path});
    request.set_work_directory(work->path());
    const v1::Observation run = Run(request);
    EXPECT_EQ(run.exit_code(), 1) << path;
    EXPECT_THAT(run.stdout().head(), HasSubstr("Read-only file system"));
    EXPECT_NE(access(path.c_str(), F_OK), 0) << path;
    ++number;
  }
  EXPECT_EQ(number, 3);
}

TEST_F(Sandbox, TemporaryFoldersArePrivate) {
  const std::string path =
      absl::StrCat("/tmp/twinpath-private-", getpid(), ".txt");
  const v1::Observation run = Run({"write", path});
  EXPECT_EQ(run.exit_code(), 0) << run.ShortDebugString();
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST_F(Sandbox, WorkFolderIsWritable) {
  const std::string path = JoinPath(work_->path(), "home/result.txt");
  EXPECT_EQ(Run({"write", path}).exit_code(), 0);
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
}

// Root in a user namespace of its own still reads as root.
TEST(SandboxArguments, HideSecretsOfTheHost) {
  const std::vector<std::string> argv = SandboxArguments(SandboxSpec());
  struct stat info;
  ASSERT_EQ(stat("/etc/shadow", &info), 0);
  const auto at = std::find(argv.begin(), argv.end(), "/etc/shadow");
  ASSERT_NE(at, argv.end());
  EXPECT_EQ(*(at - 1), "/dev/null");
  EXPECT_EQ(*(at - 2), "--ro-bind");
}

TEST_F(Sandbox, HasNoNetwork) {
  const UniqueFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  struct sockaddr_in address {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<struct sockaddr*>(&address);
  ASSERT_EQ(bind(server.get(), any, size), 0);
  ASSERT_EQ(listen(server.get(), 1), 0);
  ASSERT_EQ(getsockname(server.get(), any, &size), 0);
  const v1::Observation run =
      Run({"connect", std::to_string(ntohs(address.sin_port))});
  EXPECT_EQ(run.exit_code(), 1);
  EXPECT_THAT(run.stdout().head(), HasSubstr("connect: "));
}

TEST_F(Sandbox, SeesOnlyItsOwnProcesses) {
  const v1::Observation run = Run({"processes"});
  int count = 0;
  ASSERT_TRUE(absl::SimpleAtoi(run.stdout().head(), &count))
      << run.ShortDebugString();
  // Process 1 and itself.
  EXPECT_EQ(count, 2);
}

TEST_F(Sandbox, CannotReachSocketsUnderRun) {
  // Sockets connect through a read-only mount, so /run must be another one.
  v1::RunRequest request = Request({});
  request.mutable_entry()->set_command(0, "/bin/ls");
  request.mutable_entry()->add_command("/run");
  EXPECT_EQ(Run(request).stdout().head(), "twinpath-inside\n");
}

TEST_F(Sandbox, CannotReachItsReporter) {
  // Process 1 says how the program ended; the program may not write there.
  for (const char* path : {"/proc/1/fd/3", "/proc/1/environ"}) {
    auto work = TempDirectory::Make();
    ASSERT_THAT(work, IsOk());
    v1::RunRequest request = Request({"read", path});
    request.set_work_directory(work->path());
    const v1::Observation run = Run(request);
    EXPECT_EQ(run.exit_code(), 1) << run.ShortDebugString();
    EXPECT_EQ(run.stdout().head(), "Permission denied\n");
  }
}

TEST_F(Sandbox, HoldsNoCapabilities) {
  v1::RunRequest request = Request({});
  request.mutable_entry()->set_command(0, "/bin/grep");
  request.mutable_entry()->add_command("^Cap\\|^NoNewPrivs");
  request.mutable_entry()->add_command("/proc/self/status");
  EXPECT_EQ(Run(request).stdout().head(),
            "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n"
            "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n"
            "CapAmb:\t0000000000000000\nNoNewPrivs:\t1\n");
}

TEST(SandboxArguments, ShowsDevicesOnlyByName) {
  SandboxSpec spec;
  spec.work_directory = "/tmp/w";
  spec.artifact_directory = "/srv/a";
  spec.inside_program = "/usr/libexec/inside";
  spec.devices = {"/dev/nvidia0"};
  const std::vector<std::string> argv = SandboxArguments(spec);
  const auto follow = [&](const std::string& option, const std::string& value) {
    for (size_t i = 0; i + 1 < argv.size(); ++i) {
      if (argv[i] == option && argv[i + 1] == value) return true;
    }
    return false;
  };
  EXPECT_THAT(argv, Contains("--unshare-all"));
  EXPECT_THAT(argv, Contains("--die-with-parent"));
  EXPECT_TRUE(follow("--ro-bind", "/"));
  EXPECT_TRUE(follow("--dev", "/dev"));
  EXPECT_TRUE(follow("--dev-bind-try", "/dev/nvidia0"));
  EXPECT_TRUE(follow("--ro-bind", "/srv/a"));
  EXPECT_TRUE(follow("--bind", "/tmp/w"));
  EXPECT_EQ(std::count(argv.begin(), argv.end(), "--bind"), 1);
  EXPECT_EQ(std::count(argv.begin(), argv.end(), "--share-net"), 0);
  EXPECT_EQ(argv.back(), kInsidePath);
}

}  // namespace
}  // namespace twinpath::runner
