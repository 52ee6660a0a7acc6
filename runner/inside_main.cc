// twinpath-inside: the parent of the program under test: process 1 of
// bubblewrap's sandbox, or a process of the systemd run unit. It starts the
// program, confined (confine.h), with exactly the variables it was given, waits
// for it, and says how it ended: bwrap's exit code alone cannot tell exit 139
// from signal 11, nor a program that could not be started from one that failed.
// As process 1 its end is the end of every process left in the sandbox, daemons
// included.
//
//   twinpath-inside [--writable FOLDER]... [--guard PID] [--lifeline FD]
//                   -- PROGRAM [ARGUMENT]...
//
// --writable: see ConfineOptions. --guard: the process that watches; it and
// this one are guarded. Descriptor 3: the report, lines "up", "landlock ABI"
// (0: none), then "exit N", "signal N", "start ERRNO" or "confine ERRNO".
// Descriptor 4: the variables, "NAME=value", each behind a zero byte's end. A
// PROGRAM without '/' is searched in PATH of these. --lifeline: a pipe whose
// other end closes when nobody waits for the run any more; it then ends. It
// links nothing but the C library, and that statically, since it must run
// inside any root file system.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/confine.h"

namespace {

using twinpath::runner::Confine;
using twinpath::runner::Confined;
using twinpath::runner::ConfineOptions;
using twinpath::runner::kMaxGuarded;
using twinpath::runner::kMaxWritable;

constexpr int kReport = 3;
constexpr int kEnvironment = 4;
constexpr int kBadUse = 125;

// What the child tells when it could not become the program.
struct Failure {
  bool confine;
  int error;
};

void Report(const char* word, int number) {
  char line[64];
  const int length =
      number < 0 ? snprintf(line, sizeof(line), "%s\n", word)
                 : snprintf(line, sizeof(line), "%s %d\n", word, number);
  ssize_t written;
  do {
    written = write(kReport, line, static_cast<size_t>(length));
  } while (written < 0 && errno == EINTR);
}

// The variables of descriptor 4 as an environ array; nullptr if unreadable.
// Nothing is freed: the process becomes the program or ends.
// NOLINTBEGIN(clang-analyzer-unix.Malloc)
char** ReadEnvironment() {
  struct stat info;
  if (fstat(kEnvironment, &info) != 0 || info.st_size < 0) return nullptr;
  const size_t size = static_cast<size_t>(info.st_size);
  char* bytes = static_cast<char*>(malloc(size + 1));
  if (bytes == nullptr) return nullptr;
  size_t have = 0;
  while (have < size) {
    const ssize_t got = pread(kEnvironment, bytes + have, size - have,
                              static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return nullptr;
    have += static_cast<size_t>(got);
  }
  bytes[size] = '\0';
  size_t count = 0;
  for (size_t i = 0; i < size; ++i) count += bytes[i] == '\0';
  char** result = static_cast<char**>(calloc(count + 1, sizeof(char*)));
  if (result == nullptr) return nullptr;
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    result[i] = bytes + at;
    at += strlen(bytes + at) + 1;
  }
  return result;
}
// NOLINTEND(clang-analyzer-unix.Malloc)

[[noreturn]] void Fail(int pipe, Failure failure) {
  const ssize_t ignored = write(pipe, &failure, sizeof(failure));
  static_cast<void>(ignored);
  _exit(127);
}

// When memory is short the kernel is to take the program, not who reports.
void PreferForKilling() {
  // Otherwise the files below belong to root. Nothing of the program runs yet.
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t ignored = write(fd, "1000", 4);
  static_cast<void>(ignored);
  close(fd);
}

// Becomes the program, searched in PATH where its name has no '/'. Returns the
// errno of why not.
int Become(char** arguments, char** environment) {
  const char* const name = arguments[0];
  if (strchr(name, '/') != nullptr) {
    execve(name, arguments, environment);
    return errno;
  }
  const char* path = "";
  for (char** at = environment; *at != nullptr; ++at) {
    if (strncmp(*at, "PATH=", 5) == 0) path = *at + 5;
  }
  // As execvp(3): another folder is tried unless the file is there and cannot
  // be run.
  int error = ENOENT;
  while (*path != '\0') {
    const size_t length = strcspn(path, ":");
    char full[PATH_MAX];
    const int wrote = snprintf(full, sizeof(full), "%.*s/%s",
                               static_cast<int>(length), path, name);
    if (length > 0 && wrote > 0 && static_cast<size_t>(wrote) < sizeof(full)) {
      execve(full, arguments, environment);
      if (errno == EACCES) {
        error = EACCES;
      } else if (errno != ENOENT && errno != ENOTDIR) {
        return errno;
      }
    }
    path += length;
    if (*path == ':') ++path;
  }
  return error;
}

[[noreturn]] void Start(char** arguments, char** environment,
                        const ConfineOptions& options, int pipe) {
  // A signal to its own group ends the program and what it started, not us.
  setpgid(0, 0);
  PreferForKilling();
  Confined confined;
  if (const int error = Confine(options, &confined); error != 0) {
    Fail(pipe, {true, error});
  }
  Report("landlock", confined.landlock_abi);
  Fail(pipe, {false, Become(arguments, environment)});
}

// Waits until the other end of `lifeline` closes (returns false) or a child has
// ended. `children`: a descriptor of SIGCHLD.
bool WaitForChild(int children, int lifeline) {
  while (true) {
    struct pollfd waits[2] = {{children, POLLIN, 0}, {lifeline, POLLIN, 0}};
    const int ready = poll(waits, 2, -1);
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    if (waits[1].revents != 0) return false;
    signalfd_siginfo info;
    const ssize_t ignored = read(children, &info, sizeof(info));
    static_cast<void>(ignored);
    return true;
  }
}

// Reads the options; returns the index of the program, or 0.
int ReadOptions(int argc, char** argv, ConfineOptions* options, int* lifeline) {
  int at = 1;
  for (; at + 1 < argc; at += 2) {
    if (strcmp(argv[at], "--") == 0) return at + 1;
    if (strcmp(argv[at], "--writable") == 0) {
      if (options->writable_count == kMaxWritable) return 0;
      options->writable[options->writable_count++] = argv[at + 1];
    } else if (strcmp(argv[at], "--guard") == 0) {
      const long pid = strtol(argv[at + 1], nullptr, 10);
      if (pid <= 1 || options->guarded_count + 2 > kMaxGuarded) return 0;
      options->guarded[options->guarded_count++] = static_cast<pid_t>(pid);
      options->guarded[options->guarded_count++] = getpid();
    } else if (strcmp(argv[at], "--lifeline") == 0) {
      const long fd = strtol(argv[at + 1], nullptr, 10);
      if (fd <= kEnvironment || fcntl(static_cast<int>(fd), F_GETFD) < 0) {
        return 0;
      }
      *lifeline = static_cast<int>(fd);
    } else {
      return 0;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ConfineOptions options;
  int lifeline = -1;
  const int program = ReadOptions(argc, argv, &options, &lifeline);
  if (program == 0) {
    fprintf(stderr,
            "twinpath-inside is started by twinpath-run, not by hand\n");
    return kBadUse;
  }
  // The program may look at its parent neither by ptrace nor by /proc.
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // Where it is not process 1, daemons of the program still come to it.
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  char** environment = ReadEnvironment();
  int pipe[2];
  if (environment == nullptr || fcntl(kReport, F_SETFD, FD_CLOEXEC) != 0 ||
      fcntl(kEnvironment, F_SETFD, FD_CLOEXEC) != 0 ||
      (lifeline >= 0 && fcntl(lifeline, F_SETFD, FD_CLOEXEC) != 0) ||
      pipe2(pipe, O_CLOEXEC) != 0) {
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
    fprintf(stderr, "twinpath-inside: error: descriptors: %s\n",
            strerror(errno));
    return kBadUse;
  }
  int children = -1;
  sigset_t former;
  if (lifeline >= 0) {
    sigset_t child_ends;
    sigemptyset(&child_ends);
    sigaddset(&child_ends, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ends, &former);
    children = signalfd(-1, &child_ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (children < 0) return kBadUse;
  }
  Report("up", -1);
  const pid_t child = fork();
  if (child < 0) {
    Report("start", errno);
    return kBadUse;
  }
  if (child == 0) {
    if (lifeline >= 0) sigprocmask(SIG_SETMASK, &former, nullptr);
    Start(argv + program, environment, options, pipe[1]);
  }
  close(pipe[1]);
  Failure failure = {};
  ssize_t got;
  do {
    got = read(pipe[0], &failure, sizeof(failure));
  } while (got < 0 && errno == EINTR);
  const bool started = got != sizeof(failure);

  int status = 0;
  while (true) {
    // Orphans come here, too; they are only reaped.
    const pid_t ended = waitpid(-1, &status, lifeline >= 0 ? WNOHANG : 0);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) return kBadUse;
    if (ended == 0 && !WaitForChild(children, lifeline)) return kBadUse;
  }
  if (!started) {
    Report(failure.confine ? "confine" : "start", failure.error);
    return 127;
  }
  if (WIFSIGNALED(status)) {
    Report("signal", WTERMSIG(status));
    return 128 + WTERMSIG(status);
  }
  Report("exit", WEXITSTATUS(status));
  return WEXITSTATUS(status);
}
