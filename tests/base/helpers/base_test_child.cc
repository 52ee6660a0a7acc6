// A child of many behaviours for the tests of base/subprocess.h and base/log.h.
//   base_test_child MODE [ARGUMENT]...

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/subprocess.h"

extern char** environ;

namespace {

// The test reads readiness from descriptor 3.
constexpr int kReadyFd = 3;

void TellReady() {
  if (write(kReadyFd, "r", 1) != 1) _exit(90);
}

[[noreturn]] void Forever() {
  while (true) pause();
}

void SayGoodbye(int) {
  const ssize_t ignored = write(STDOUT_FILENO, "goodbye", 7);
  static_cast<void>(ignored);
  _exit(7);
}

int PrintDescriptors() {
  DIR* folder = opendir("/proc/self/fd");
  std::vector<int> numbers;
  while (const dirent* entry = readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != dirfd(folder)) numbers.push_back(fd);
  }
  closedir(folder);
  std::sort(numbers.begin(), numbers.end());
  for (const int fd : numbers) std::printf("%d ", fd);
  return 0;
}

int PrintDescriptor(int fd) {
  char buffer[256];
  const ssize_t got = pread(fd, buffer, sizeof(buffer), 0);
  if (got < 0) return 1;
  std::fwrite(buffer, 1, static_cast<size_t>(got), stdout);
  return 0;
}

int CopyInput() {
  char buffer[65536];
  while (true) {
    const ssize_t got = read(STDIN_FILENO, buffer, sizeof(buffer));
    if (got < 0) return 1;
    if (got == 0) return 0;
    std::fwrite(buffer, 1, static_cast<size_t>(got), stdout);
  }
}

// Lines "line 0" to "line N-1" on both streams.
int Flood(int lines) {
  for (int i = 0; i < lines; ++i) {
    std::printf("line %d\n", i);
    std::fprintf(stderr, "line %d\n", i);
  }
  return 0;
}

// Leaves a descendant that holds the output; in a session of its own if
// `daemon`. It ends when descriptor 3 does.
int LeaveDescendant(bool daemon) {
  std::printf("parent\n");
  std::fflush(stdout);
  if (fork() == 0) {
    if (daemon) setsid();
    char byte;
    const ssize_t ignored = read(kReadyFd, &byte, 1);
    static_cast<void>(ignored);
    _exit(0);
  }
  return 0;
}

// A descendant in the group that writes to descriptor 3 and never ends.
int LeaveWriter() {
  if (fork() == 0) {
    signal(SIGTERM, SIG_IGN);
    Forever();
  }
  return 0;
}

int Nest(const std::string& self) {
  twinpath::ProcessOptions options;
  options.argv = {self, "ready-forever"};
  options.descriptors = {{kReadyFd, kReadyFd}};
  options.timeout = absl::InfiniteDuration();
  return twinpath::RunProcess(options).ok() ? 0 : 1;
}

// Runs "descriptors" as on a kernel before Linux 5.3, which knows neither
// pidfd_open nor close_range. A seccomp filter answers for that kernel.
int RunOnOldKernel(const std::string& self) {
  std::array<sock_filter, 5> filter = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 434 /* pidfd_open */, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 436 /* close_range */, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
  }};
  const sock_fprog program{filter.size(), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) {
    return 77;
  }
  // Descriptors that would be inherited.
  for (int fd = 20; fd < 220; ++fd) dup2(STDIN_FILENO, fd);
  twinpath::ProcessOptions options;
  options.argv = {self, "descriptors"};
  options.descriptors = {{20, 7}};
  const absl::StatusOr<twinpath::ProcessResult> result =
      twinpath::RunProcess(options);
  if (!result.ok()) return 1;
  std::printf("%s", result->out.head.c_str());
  return result->exit_code;
}

int PrintSignals() {
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, nullptr, &blocked);
  for (const int number : {SIGPIPE, SIGTERM, SIGUSR1, SIGINT}) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_DFL) std::printf("handled %d\n", number);
    if (sigismember(&blocked, number)) std::printf("blocked %d\n", number);
  }
  return 0;
}

int PrintLimits() {
  for (const __rlimit_resource resource :
       {RLIMIT_CORE, RLIMIT_NOFILE, RLIMIT_FSIZE}) {
    struct rlimit limit {};
    getrlimit(resource, &limit);
    std::printf("%llu ", static_cast<unsigned long long>(limit.rlim_cur));
  }
  return 0;
}

int LogLines(bool journal) {
  if (journal) {
    struct stat info {};
    fstat(STDERR_FILENO, &info);
    setenv("JOURNAL_STREAM",
           absl::StrCat(info.st_dev, ":", info.st_ino).c_str(), 1);
  }
  twinpath::Log(twinpath::LogLevel::kDebug, "not written");
  twinpath::Log(twinpath::LogLevel::kInfo, "session opened",
                {{"host", "n1"}, {"note", "two words \"x\""}, {"none", ""}});
  twinpath::Log(twinpath::LogLevel::kError, "bad \x1b[31m\nname");
  twinpath::SetLogLevel(twinpath::LogLevel::kWarning);
  twinpath::Log(twinpath::LogLevel::kInfo, "not written either");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const std::string argument = argc > 2 ? argv[2] : "";
  if (mode == "exit") return std::atoi(argument.c_str());
  if (mode == "arguments") {
    for (int i = 2; i < argc; ++i) std::printf("[%s]", argv[i]);
    return 0;
  }
  if (mode == "environment") {
    for (char** variable = environ; *variable != nullptr; ++variable) {
      std::printf("%s\n", *variable);
    }
    return 0;
  }
  if (mode == "directory") {
    char buffer[4096];
    std::printf("%s", getcwd(buffer, sizeof(buffer)));
    return 0;
  }
  if (mode == "signal") {
    signal(std::atoi(argument.c_str()), SIG_DFL);
    raise(std::atoi(argument.c_str()));
    return 1;
  }
  if (mode == "forever") Forever();
  if (mode == "ready-forever") {
    TellReady();
    Forever();
  }
  if (mode == "ignore-sigterm") {
    signal(SIGTERM, SIG_IGN);
    TellReady();
    Forever();
  }
  if (mode == "goodbye") {
    signal(SIGTERM, SayGoodbye);
    TellReady();
    Forever();
  }
  if (mode == "descriptors") return PrintDescriptors();
  if (mode == "descriptor") return PrintDescriptor(std::atoi(argument.c_str()));
  if (mode == "copy-input") return CopyInput();
  if (mode == "flood") return Flood(std::atoi(argument.c_str()));
  if (mode == "flood-forever") {
    while (true) std::printf("again and again and again\n");
  }
  if (mode == "leave-daemon") return LeaveDescendant(true);
  if (mode == "leave-descendant") return LeaveDescendant(false);
  if (mode == "leave-writer") return LeaveWriter();
  if (mode == "nest") return Nest(argv[0]);
  if (mode == "old-kernel") return RunOnOldKernel(argv[0]);
  if (mode == "signals") return PrintSignals();
  if (mode == "limits") return PrintLimits();
  if (mode == "spin") {
    volatile uint64_t counter = 0;
    while (true) counter = counter + 1;
  }
  if (mode == "write-file") {
    std::FILE* file = std::fopen(argument.c_str(), "w");
    if (file == nullptr) return 1;
    const std::string block(1 << 16, 'x');
    for (int i = 0; i < 64; ++i) {
      if (std::fwrite(block.data(), 1, block.size(), file) != block.size()) {
        return 2;
      }
    }
    return 0;
  }
  if (mode == "log") return LogLines(false);
  if (mode == "log-journal") return LogLines(true);
  std::fprintf(stderr, "unknown mode %s\n", mode.c_str());
  return 99;
}
