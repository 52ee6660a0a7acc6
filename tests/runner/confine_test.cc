// What twinpath-inside takes away from a program, seen from the program.

#include "runner/confine.h"

#include <asm/sockios.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <string>

#include "base/file.h"
#include "base/status_matchers.h"

namespace twinpath::runner {
namespace {

// Runs `act` in a confined child; its return value, or 200 + errno where it
// could not be confined.
int RunConfined(const ConfineOptions& options, const std::function<int()>& act,
                Confined* confined = nullptr) {
  int told[2];
  EXPECT_EQ(pipe(told), 0);
  const pid_t child = fork();
  if (child == 0) {
    Confined state;
    if (const int error = Confine(options, &state); error != 0) {
      _exit(200 + error);
    }
    const ssize_t ignored = write(told[1], &state, sizeof(state));
    static_cast<void>(ignored);
    _exit(act());
  }
  close(told[1]);
  Confined state;
  const bool there = read(told[0], &state, sizeof(state)) == sizeof(state);
  close(told[0]);
  if (there && confined != nullptr) *confined = state;
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// The same in a child that is not confined.
int RunFree(const std::function<int()>& act) {
  const pid_t child = fork();
  if (child == 0) _exit(act());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

const void* const kBadPointer = reinterpret_cast<const void*>(8);

// 0 if the call gave `error`, else the errno it gave (255 for none).
int Gives(int error, long result) {
  if (result >= 0) return 255;
  return errno == error ? 0 : errno;
}

TEST(Confine, WithoutItTheSameCallsDoNotGiveEperm) {
  // The control of the tests below: these work for everybody.
  const int fd = open("/", O_PATH);
  EXPECT_GE(fd, 0);
  close(fd);
  EXPECT_EQ(kill(getpid(), 0), 0);
}

TEST(Confine, TakesPrivilegesAndNamespaces) {
  EXPECT_EQ(RunConfined({},
                        [] {
                          return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 &&
                                         prctl(PR_GET_SECCOMP) ==
                                             SECCOMP_MODE_FILTER
                                     ? 0
                                     : 1;
                        }),
            0);
  // Each with arguments for which the kernel has another answer before it looks
  // at privileges, or none at all, so that EPERM is the filter's.
  const struct {
    const char* name;
    std::function<long()> call;
    int confined;
  } calls[] = {
      // EINVAL: no such flag. A filter sees no difference.
      {"unshare", [] { return syscall(SYS_unshare, 0x1); }, EPERM},
      // EINVAL: threads share their user namespace.
      {"clone",
       [] {
         return syscall(SYS_clone,
                        CLONE_NEWUSER | CLONE_THREAD | CLONE_VM | CLONE_SIGHAND,
                        0, 0, 0, 0);
       },
       EPERM},
      // EFAULT: the type of the file system cannot be read.
      {"mount",
       [] { return syscall(SYS_mount, nullptr, nullptr, kBadPointer, 0, 0); },
       EPERM},
      {"clone3", [] { return syscall(SYS_clone3, nullptr, size_t{0}); },
       ENOSYS},
      // EFAULT, or ENOSYS where the kernel is built without.
      {"io_uring_setup",
       [] { return syscall(SYS_io_uring_setup, 1, kBadPointer); }, EPERM},
  };
  for (const auto& c : calls) {
    const auto answer = [&c] { return c.call() < 0 ? errno : 0; };
    EXPECT_EQ(RunConfined({}, answer), c.confined) << c.name;
    const int free = RunFree(answer);
    if (free == c.confined) {
      // A filter of the host's own (a container's) answers as ours does.
      std::fprintf(stderr, "no control for %s: this host refuses it, too\n",
                   c.name);
    }
  }
}

TEST(Confine, OrdinaryProgramsGoOn) {
  EXPECT_EQ(RunConfined({},
                        [] {
                          const pid_t child = fork();
                          if (child == 0) {
                            execl("/bin/sh", "sh", "-c",
                                  "ls / >/dev/null && kill -0 $$", nullptr);
                            _exit(9);
                          }
                          int status = 0;
                          waitpid(child, &status, 0);
                          return WEXITSTATUS(status);
                        }),
            0);
}

TEST(Confine, ArgumentsOfOtherCallsAreLeftAlone) {
  // getppid has no argument; dup's first argument equals a guarded number only
  // by chance and must not be refused.
  ConfineOptions options;
  options.guarded[options.guarded_count++] = 2;
  EXPECT_EQ(RunConfined(options, [] { return dup(2) >= 0 ? 0 : errno; }), 0);
}

TEST(Confine, GuardedProcessesAreNotReached) {
  ConfineOptions options;
  options.guarded[options.guarded_count++] = getpid();
  EXPECT_EQ(RunConfined(options,
                        [] { return Gives(EPERM, kill(getppid(), SIGCONT)); }),
            0);
  EXPECT_EQ(RunConfined(options,
                        [] { return Gives(EPERM, kill(-getppid(), SIGCONT)); }),
            0);
  EXPECT_EQ(RunConfined(options, [] { return Gives(EPERM, kill(-1, 0)); }), 0);
  EXPECT_EQ(
      RunConfined(
          options,
          [] { return Gives(EPERM, syscall(SYS_pidfd_open, getppid(), 0)); }),
      0);
  // Itself it may signal.
  EXPECT_EQ(RunConfined(options, [] { return kill(getpid(), 0); }), 0);
  // Without guards the same call works.
  EXPECT_EQ(RunConfined({}, [] { return kill(getppid(), 0); }), 0);
}

// A program that joins its watchers' group and kills its own would turn its
// failure into an interruption.
TEST(Confine, TheGroupOfGuardedProcessesIsNotJoined) {
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t watcher = fork();
  if (watcher == 0) {
    char byte;
    close(go[1]);
    _exit(static_cast<int>(read(go[0], &byte, 1)));
  }
  ASSERT_EQ(setpgid(watcher, watcher), 0);
  const auto join = [watcher] { return setpgid(0, watcher) == 0 ? 0 : errno; };
  EXPECT_EQ(RunConfined({}, join), 0) << "the control";
  ConfineOptions options;
  options.guarded[options.guarded_count++] = watcher;
  EXPECT_EQ(RunConfined(options, join), EPERM);
  EXPECT_EQ(RunConfined(options, [] { return setpgid(0, 0) == 0 ? 0 : errno; }),
            0)
      << "a group of its own";
  close(go[0]);
  close(go[1]);
  waitpid(watcher, nullptr, 0);
}

// Who owns a file gets its signals, which may be SIGKILL (F_SETSIG).
TEST(Confine, GuardedProcessesOwnNoFile) {
  const pid_t self = getpid();
  const std::function<int()> ways[] = {
      [self] {
        int ends[2];
        if (pipe(ends) != 0) return 1;
        return fcntl(ends[0], F_SETOWN, self) == 0 ? 0 : errno;
      },
      [self] {
        int ends[2];
        if (pipe(ends) != 0) return 1;
        f_owner_ex owner = {F_OWNER_PID, self};
        return fcntl(ends[0], F_SETOWN_EX, &owner) == 0 ? 0 : errno;
      },
      [self] {
        int number = self;
        const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        return ioctl(fd, FIOSETOWN, &number) == 0 ? 0 : errno;
      },
      [self] {
        int number = self;
        const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        return ioctl(fd, SIOCSPGRP, &number) == 0 ? 0 : errno;
      }};
  ConfineOptions options;
  options.guarded[options.guarded_count++] = self;
  for (const auto& way : ways) {
    EXPECT_EQ(RunConfined({}, way), 0) << "the control";
    EXPECT_EQ(RunConfined(options, way), EPERM);
  }
  const auto by_folder = [self] {
    const int folder =
        open(("/proc/" + std::to_string(self)).c_str(), O_RDONLY | O_DIRECTORY);
    return syscall(SYS_pidfd_send_signal, folder, 0, nullptr, 0) == 0 ? 0
                                                                      : errno;
  };
  EXPECT_EQ(RunConfined({}, by_folder), 0) << "the control";
  EXPECT_EQ(RunConfined(options, by_folder), ENOSYS);
}

TEST(Confine, WritesOnlyWhereItMay) {
  const auto inside = TempDirectory::Make();
  const auto outside = TempDirectory::Make();
  ASSERT_THAT(inside, IsOk());
  ASSERT_THAT(outside, IsOk());
  const std::string good = JoinPath(inside->path(), "x");
  const std::string bad = JoinPath(outside->path(), "x");
  const auto make = [](const std::string& path) {
    return open(path.c_str(), O_CREAT | O_WRONLY, 0600);
  };
  ConfineOptions options;
  options.writable[options.writable_count++] = inside->path().c_str();
  options.writable[options.writable_count++] = "/not there";
  Confined confined;
  EXPECT_EQ(
      RunConfined(
          options, [&] { return make(good) >= 0 ? 0 : errno; }, &confined),
      0);
  if (confined.landlock_abi == 0) {
    GTEST_SKIP() << "this kernel has no Landlock of ABI 2 or newer";
  }
  EXPECT_EQ(RunConfined(options, [&] { return Gives(EACCES, make(bad)); }), 0);
  EXPECT_EQ(RunConfined({}, [&] { return make(bad) >= 0 ? 0 : errno; }), 0);
  // What is there may be read, not changed; devices stay.
  EXPECT_EQ(
      RunConfined(options,
                  [&] { return open(bad.c_str(), O_RDONLY) >= 0 ? 0 : 1; }),
      0);
  EXPECT_EQ(
      RunConfined(options,
                  [&] { return Gives(EACCES, open(bad.c_str(), O_WRONLY)); }),
      0);
  EXPECT_EQ(
      RunConfined(options, [&] { return Gives(EACCES, unlink(bad.c_str())); }),
      0);
  EXPECT_EQ(
      RunConfined(options,
                  [] { return open("/dev/null", O_WRONLY) >= 0 ? 0 : 1; }),
      0);
}

TEST(Confine, LimitsAreLoweredNeverRaised) {
  ConfineOptions options;
  options.open_files = 10;
  EXPECT_EQ(RunConfined(options,
                        [] {
                          rlimit files{};
                          rlimit core{};
                          getrlimit(RLIMIT_NOFILE, &files);
                          getrlimit(RLIMIT_CORE, &core);
                          return files.rlim_max == 10 && core.rlim_max == 0 ? 0
                                                                            : 1;
                        }),
            0);
  options.open_files = RLIM_INFINITY;
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(RunConfined(options,
                        [&] {
                          rlimit files{};
                          getrlimit(RLIMIT_NOFILE, &files);
                          return files.rlim_max == now.rlim_max ? 0 : 1;
                        }),
            0);
}

}  // namespace
}  // namespace twinpath::runner
