#include "runner/process_watch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"

namespace twinpath::runner {
namespace {

TEST(ProcessWatch, NamesMayHoldBlanksAndParentheses) {
  // proc(5): field 4 is the parent, 20 the threads, 24 the resident pages.
  ProcessStat stat;
  ASSERT_TRUE(ParseProcessStat(
      "77 (a) (b c) S 12 77 77 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 100 2000 "
      "333 18446744073709551615 1 1 0 0 0 0 0 0\n",
      stat));
  EXPECT_EQ(stat.parent, 12);
  EXPECT_EQ(stat.threads, 9u);
  EXPECT_EQ(stat.resident_pages, 333u);
}

TEST(ProcessWatch, RefusesOtherLines) {
  ProcessStat stat;
  EXPECT_FALSE(ParseProcessStat("", stat));
  EXPECT_FALSE(ParseProcessStat("1 (x", stat));
  EXPECT_FALSE(ParseProcessStat("1 (x) S 1 2", stat));
  EXPECT_FALSE(ParseProcessStat(
      "1 (x) S no 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 1 1 1 1", stat));
}

TEST(ProcessWatch, CountsDescendantsWithoutTheRoot) {
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) {
      // Nobody else would end it.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      // A program of its own: a fork of this one has a second thread under
      // ThreadSanitizer. The pipe closes once it runs.
      execlp("sleep", "sleep", "1000", nullptr);
      _exit(1);
    }
    close(ready[1]);
    while (true) pause();
  }
  close(ready[1]);
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 0);
  // The pipe closes before the new program has its first page.
  TreeUsage below;
  for (int i = 0; i < 1000 && below.resident_bytes == 0; ++i) {
    if (i > 0) usleep(10'000);
    below = UsageOfDescendants(child);
  }
  EXPECT_EQ(below.processes, 1u);
  EXPECT_EQ(below.tasks, 1u);
  EXPECT_GT(below.resident_bytes, 0u);
  EXPECT_EQ(UsageOfDescendants(getpid()).processes, 2u);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
}

// Files as in cgroups(7) and the kernel's cgroup-v2.rst.
class ControlGroup : public ::testing::Test {
 protected:
  ControlGroup() : root_(*TempDirectory::Make()) {}
  void Put(const std::string& path, const std::string& text) {
    const std::string whole = root_.path() + path;
    ASSERT_THAT(MakeDirectories(DirName(whole), 0755), IsOk());
    ASSERT_THAT(WriteFileAtomic(whole, text), IsOk());
  }
  const TempDirectory root_;
};

TEST_F(ControlGroup, Unified) {
  Put("/proc/self/cgroup", "0::/system.slice/x.service\n");
  Put("/sys/fs/cgroup/system.slice/x.service/memory.stat",
      "anon 1000\nfile 5000000\nkernel 77\nshmem 234\n");
  Put("/sys/fs/cgroup/system.slice/x.service/pids.current", "12\n");
  const TreeUsage usage = UsageOfControlGroup(root_.path());
  EXPECT_EQ(usage.resident_bytes, 1234u);
  EXPECT_EQ(usage.tasks, 12u);
}

TEST_F(ControlGroup, Older) {
  Put("/proc/self/cgroup", "8:pids:/s/x\n4:memory:/s/x\n1:cpu:/\n0::/s/x\n");
  Put("/sys/fs/cgroup/memory/s/x/memory.stat",
      "cache 9\nrss 1\nshmem 1\ntotal_rss 1000\ntotal_shmem 234\n");
  Put("/sys/fs/cgroup/pids/s/x/pids.current", "3\n");
  const TreeUsage usage = UsageOfControlGroup(root_.path());
  EXPECT_EQ(usage.resident_bytes, 1234u);
  EXPECT_EQ(usage.tasks, 3u);
}

TEST_F(ControlGroup, ItsProcessesWithoutThisOne) {
  Put("/proc/self/cgroup", "8:pids:/s/x\n0::/s/x\n");
  Put("/sys/fs/cgroup/pids/s/x/cgroup.procs",
      absl::StrCat("12\n", getpid(), "\n13\n"));
  EXPECT_THAT(ProcessesOfControlGroup(root_.path()),
              ::testing::ElementsAre(12, 13));
}

TEST_F(ControlGroup, WhatTheKernelTookForWantOfMemory) {
  EXPECT_EQ(TakenForMemory(root_.path()), std::nullopt);
  Put("/proc/self/cgroup", "0::/s/x.service\n");
  Put("/sys/fs/cgroup/s/x.service/memory.events",
      "low 0\nhigh 0\nmax 812\noom 5\noom_kill 2\noom_group_kill 0\n");
  EXPECT_EQ(TakenForMemory(root_.path()), 2u);
  // Of a unit with Delegate=, systemd's own commands.
  Put("/proc/self/cgroup", "0::/s/x.service/.control\n");
  EXPECT_EQ(TakenForMemory(root_.path()), 2u);
  Put("/proc/self/cgroup", "8:pids:/s/x\n4:memory:/s/x\n0::/s/x\n");
  Put("/sys/fs/cgroup/memory/s/x/memory.oom_control",
      "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  EXPECT_EQ(TakenForMemory(root_.path()), 3u);
}

TEST_F(ControlGroup, NoneIsZero) {
  EXPECT_EQ(UsageOfControlGroup(root_.path()).resident_bytes, 0u);
  EXPECT_EQ(UsageOfControlGroup(root_.path()).tasks, 0u);
}

}  // namespace
}  // namespace twinpath::runner
