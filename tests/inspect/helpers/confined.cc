// Confines itself, says on standard output what holds, then tries one thing:
//
//   confined [--old-kernel] [--no-seccomp] ACTION
//
// Exit 0: it worked. 1: refused, with the error number on standard output.
// A signal: what the filter made of it. The flags take a layer away first, as
// older kernels and containers do. Descriptor 3 is a scratch file.

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "inspect/confine.h"

namespace {

constexpr int kScratch = 3;

// Makes the given calls fail from now on.
void TakeAway(int error, std::initializer_list<int> calls) {
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
  for (const int call : calls) {
    seccomp_rule_add(context, SCMP_ACT_ERRNO(static_cast<uint32_t>(error)),
                     call, 0);
  }
  if (seccomp_load(context) != 0) std::exit(70);
  seccomp_release(context);
}

int Threads() {
  std::atomic<int> count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&count] {
      // Large enough for an arena, a mapping of its own, and to be given back.
      std::vector<char> bytes(64 << 20, 'x');
      bytes.resize(100);
      bytes.shrink_to_fit();
      try {
        throw std::string("unwinding needs no file");
      } catch (const std::string&) {
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return count == 4 && std::thread::hardware_concurrency() > 0 ? 0 : -1;
}

int Scratch() {
  char byte = 0;
  const bool ok = ::pwrite(kScratch, "a", 1, 4095) == 1 &&
                  ::pread(kScratch, &byte, 1, 4095) == 1 && byte == 'a' &&
                  ::lseek(kScratch, 0, SEEK_END) == 4096 &&
                  ::ftruncate(kScratch, 0) == 0;
  return ok ? 0 : -1;
}

// With AT_EMPTY_PATH, too, a name is followed where there is one.
long Attributes(int flags) {
  struct stat status;
  return ::fstatat(kScratch, "/etc/passwd", &status, flags);
}

long MapExecutable() {
  return ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
             ? -1
             : 0;
}

long MakeExecutable() {
  void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return ::mprotect(page, 4096, PROT_READ | PROT_EXEC);
}

long Execute() {
  char name[] = "/bin/true";
  char* const argv[] = {name, nullptr};
  return ::execve(name, argv, argv + 1);
}

long Fork() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  return child;
}

long RaiseLimit() {
  const struct rlimit limit = {1, 1};
  return ::setrlimit(RLIMIT_STACK, &limit);
}

const std::map<std::string, std::function<long()>>& Actions() {
  static const auto* const actions =
      new std::map<std::string, std::function<long()>>{
          {"threads", Threads},
          {"scratch", Scratch},
          {"scratch-too-large",
           [] { return ::pwrite(kScratch, "a", 1, 1 << 20); }},
          {"address-space",
           [] {
             return ::mmap(nullptr, size_t{3} << 30, PROT_READ,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
                        ? -1
                        : 0;
           }},
          {"stat", [] { return Attributes(0); }},
          {"stat-empty-path", [] { return Attributes(AT_EMPTY_PATH); }},
          {"abort",
           [] {
             std::abort();
             return 0;
           }},
          {"open", [] { return ::open("/etc/passwd", O_RDONLY); }},
          {"create", [] { return ::open("x", O_WRONLY | O_CREAT, 0600); }},
          {"truncate", [] { return ::truncate("/dev/null", 0); }},
          {"mkdir", [] { return ::mkdir("/tmp/twinpath-confined", 0700); }},
          {"unlink", [] { return ::unlink("/tmp/twinpath-none"); }},
          {"dup", [] { return ::dup(kScratch); }},
          {"socket", [] { return ::socket(AF_INET, SOCK_STREAM, 0); }},
          {"pipe",
           [] {
             int ends[2];
             return ::pipe(ends);
           }},
          {"memfd", [] { return ::memfd_create("x", 0); }},
          {"execve", Execute},
          {"fork", Fork},
          {"vfork",
           [] {
             return ::syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0,
                              0, 0);
           }},
          {"clone3", [] { return ::syscall(SYS_clone3, nullptr, 0); }},
          {"unshare", [] { return ::unshare(CLONE_NEWUSER); }},
          {"kill", [] { return ::kill(::getppid(), 0); }},
          {"kill-self", [] { return ::kill(::getpid(), 0); }},
          {"tgkill", [] { return ::syscall(SYS_tgkill, 1, 1, 0); }},
          {"ptrace", [] { return ::ptrace(PTRACE_TRACEME, 0, nullptr, 0); }},
          {"process-read",
           [] {
             return ::syscall(SYS_process_vm_readv, ::getpid(), nullptr, 0,
                              nullptr, 0, 0);
           }},
          {"setuid", [] { return ::setuid(12345); }},
          {"map-executable", MapExecutable},
          {"make-executable", MakeExecutable},
          {"raise-limit", RaiseLimit},
          {"io-uring", [] { return ::syscall(425, 1, nullptr); }},
          {"bpf", [] { return ::syscall(SYS_bpf, 0, nullptr, 0); }},
      };
  return *actions;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--old-kernel") TakeAway(ENOSYS, {444, 445, 446});
    if (flag == "--no-seccomp") TakeAway(EPERM, {SCMP_SYS(seccomp)});
  }
  const auto action = Actions().find(argc > 1 ? argv[argc - 1] : "");
  if (action == Actions().end()) return 64;
  const auto confinement =
      twinpath::inspect::ConfineSelf({.file_bytes = 1 << 20});
  if (!confinement.ok()) {
    std::printf("%s\n", confinement.status().ToString().c_str());
    return 71;
  }
  std::printf("%s\n", confinement->Describe().c_str());
  std::fflush(stdout);
  errno = 0;
  if (action->second() >= 0) return 0;
  std::printf("errno %d\n", errno);
  return 1;
}
