// twinpath-inside: process 1 of a sandboxed run. It starts the program with
// exactly the variables it was given and limits of its own, waits for it, and
// says how it ended: bwrap's exit code alone cannot tell exit 139 from signal
// 11, nor a program that could not be started from one that failed. When it
// exits the kernel ends every process left in the sandbox, daemons included.
//
//   twinpath-inside PROGRAM [ARGUMENT...]
//
// Descriptor 3: the report, lines "up", then "exit N", "signal N" or
// "start ERRNO". Descriptor 4: the variables, "NAME=value", each behind a zero
// byte's end. It links nothing but the C library, since it must run inside any
// root file system.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr int kReport = 3;
constexpr int kEnvironment = 4;
constexpr int kBadUse = 125;
// Bounds of a single run; generous for GPU programs with many host threads.
constexpr rlim_t kMaxTasks = 4096;
constexpr rlim_t kMaxOpenFiles = 65536;
constexpr rlim_t kMaxFileBytes = rlim_t{64} << 30;

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

void Lower(__rlimit_resource_t resource, rlim_t value) {
  struct rlimit limit;
  if (getrlimit(resource, &limit) != 0) return;
  if (limit.rlim_max > value) limit.rlim_max = value;
  if (limit.rlim_cur > limit.rlim_max) limit.rlim_cur = limit.rlim_max;
  setrlimit(resource, &limit);
}

[[noreturn]] void Start(char** arguments, char** environment, int failure) {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  Lower(RLIMIT_CORE, 0);
  Lower(RLIMIT_NPROC, kMaxTasks);
  Lower(RLIMIT_NOFILE, kMaxOpenFiles);
  Lower(RLIMIT_FSIZE, kMaxFileBytes);
  execve(arguments[0], arguments, environment);
  const int error = errno;
  const ssize_t ignored = write(failure, &error, sizeof(error));
  static_cast<void>(ignored);
  _exit(127);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr,
            "twinpath-inside is started by twinpath-run, not by hand\n");
    return kBadUse;
  }
  // The program may look at its parent neither by ptrace nor by /proc.
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  char** environment = ReadEnvironment();
  int failure[2];
  if (environment == nullptr || fcntl(kReport, F_SETFD, FD_CLOEXEC) != 0 ||
      fcntl(kEnvironment, F_SETFD, FD_CLOEXEC) != 0 ||
      pipe2(failure, O_CLOEXEC) != 0) {
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
    fprintf(stderr, "twinpath-inside: error: descriptors: %s\n",
            strerror(errno));
    return kBadUse;
  }
  Report("up", -1);
  const pid_t child = fork();
  if (child < 0) {
    Report("start", errno);
    return kBadUse;
  }
  if (child == 0) Start(argv + 1, environment, failure[1]);
  close(failure[1]);
  int error = 0;
  ssize_t got;
  do {
    got = read(failure[0], &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  const bool started = got != sizeof(error);

  int status = 0;
  while (true) {
    // Orphans come here, too; they are only reaped.
    const pid_t ended = waitpid(-1, &status, 0);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) return kBadUse;
  }
  if (!started) {
    Report("start", error);
    return 127;
  }
  if (WIFSIGNALED(status)) {
    Report("signal", WTERMSIG(status));
    return 128 + WTERMSIG(status);
  }
  Report("exit", WEXITSTATUS(status));
  return WEXITSTATUS(status);
}
