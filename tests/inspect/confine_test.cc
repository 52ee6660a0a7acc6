// What a reader that was taken over can still do: nothing but read its
// descriptors. helpers/confined.cc tries it, one process a try.

#include "inspect/confine.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"
#include "tests/inspect/inspect_fixture.h"

namespace twinpath::inspect {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

ProcessResult Confined(std::vector<std::string> arguments) {
  const char* const bin = std::getenv("TWINPATH_BIN_DIR");
  const UniqueFd scratch = FileWith("");
  ProcessOptions options;
  options.argv = {absl::StrCat(bin != nullptr ? bin : ".", "/confined")};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.environment = MinimalEnvironment();
  options.directory = "/";
  options.descriptors = {{scratch.get(), 3}};
  absl::StatusOr<ProcessResult> result = RunProcess(options);
  EXPECT_THAT(result, IsOk());
  return result.ok() ? *std::move(result) : ProcessResult();
}

class ConfineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) {
      GTEST_SKIP() << "a sanitizer's run-time library needs what is forbidden";
    }
  }
  // Whether this kernel and this container have the layer.
  static bool Has(absl::string_view layer) {
    const std::string all = Confined({"scratch"}).out.head;
    return absl::StrContains(all.substr(0, all.find("missing")), layer);
  }
};

TEST_F(ConfineTest, WhatAReaderNeedsWorks) {
  for (const char* action : {"threads", "scratch"}) {
    const ProcessResult result = Confined({action});
    EXPECT_TRUE(result.succeeded())
        << action << ": " << result.Describe() << " " << result.out.head;
  }
}

TEST_F(ConfineTest, WhatIsNotListedEndsTheProcess) {
  if (!Has("system call filter")) GTEST_SKIP() << "no seccomp here";
  for (const char* action : {"truncate",
                             "mkdir",
                             "unlink",
                             "dup",
                             "socket",
                             "pipe",
                             "memfd",
                             "execve",
                             "fork",
                             "vfork",
                             "unshare",
                             "kill",
                             "kill-self",
                             "tgkill",
                             "ptrace",
                             "process-read",
                             "setuid",
                             "map-executable",
                             "make-executable",
                             "raise-limit",
                             "io-uring",
                             "bpf"}) {
    const ProcessResult result = Confined({action});
    EXPECT_EQ(result.ending, ProcessResult::Ending::kSignaled) << action;
    EXPECT_EQ(result.signal, SIGSYS) << action << ": " << result.Describe();
  }
}

TEST_F(ConfineTest, WhatLibrariesLookUpIsRefused) {
  if (!Has("system call filter")) GTEST_SKIP() << "no seccomp here";
  for (const char* action :
       {"open", "create", "stat", "stat-empty-path", "clone3"}) {
    const ProcessResult result = Confined({action});
    EXPECT_EQ(result.exit_code, 1) << action << ": " << result.Describe();
    EXPECT_THAT(result.out.head, HasSubstr("errno ")) << action;
  }
}

TEST_F(ConfineTest, LimitsHold) {
  EXPECT_THAT(Confined({"scratch-too-large"}).Describe(), HasSubstr("SIGXFSZ"));
  const ProcessResult space = Confined({"address-space"});
  EXPECT_EQ(space.exit_code, 1) << space.Describe();
  EXPECT_THAT(space.out.head, HasSubstr(absl::StrCat("errno ", ENOMEM)));
}

TEST_F(ConfineTest, AbortIsStillSeenAsAbort) {
  EXPECT_THAT(Confined({"abort"}).Describe(), HasSubstr("SIGABRT"));
}

// As in a container whose own filter refuses seccomp(2).
TEST_F(ConfineTest, WithoutSeccompTheOtherLayersHold) {
  if (!Has("Landlock")) GTEST_SKIP() << "no Landlock here";
  for (const char* action : {"open", "create", "dup", "mkdir", "socket"}) {
    const ProcessResult result = Confined({"--no-seccomp", action});
    EXPECT_THAT(result.out.head, HasSubstr("missing: system call filter"));
    EXPECT_EQ(result.exit_code, 1) << action << ": " << result.Describe();
    EXPECT_THAT(result.out.head,
                AnyOf(HasSubstr(absl::StrCat("errno ", EACCES)),
                      HasSubstr(absl::StrCat("errno ", EMFILE))))
        << action;
  }
  EXPECT_TRUE(Confined({"--no-seccomp", "threads"}).succeeded());
}

// As before Linux 5.13.
TEST_F(ConfineTest, WithoutLandlockTheFilterHolds) {
  if (!Has("system call filter")) GTEST_SKIP() << "no seccomp here";
  const ProcessResult made = Confined({"--old-kernel", "mkdir"});
  EXPECT_THAT(made.out.head, HasSubstr("missing: Landlock"));
  EXPECT_EQ(made.signal, SIGSYS) << made.Describe();
  EXPECT_EQ(Confined({"--old-kernel", "open"}).exit_code, 1);
  EXPECT_TRUE(Confined({"--old-kernel", "threads"}).succeeded());
}

TEST_F(ConfineTest, WithNeitherTheLimitsHold) {
  const ProcessResult result =
      Confined({"--old-kernel", "--no-seccomp", "open"});
  EXPECT_THAT(result.out.head, HasSubstr("limits; missing: Landlock"));
  EXPECT_EQ(result.exit_code, 1) << result.Describe();
}

}  // namespace
}  // namespace twinpath::inspect
