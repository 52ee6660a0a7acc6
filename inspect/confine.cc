#include "inspect/confine.h"

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/digest.h"
#include "base/status.h"

namespace twinpath::inspect {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define TWINPATH_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TWINPATH_SANITIZED 1
#endif
#ifdef TWINPATH_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Sets both limits, or as near as the hard limit allows.
absl::Status Limit(int resource, absl::string_view name, uint64_t value) {
  const auto which = static_cast<__rlimit_resource_t>(resource);
  struct rlimit limit;
  if (::getrlimit(which, &limit) != 0) {
    return ErrnoStatus(errno, absl::StrCat("getrlimit ", name));
  }
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, value);
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(which, &limit) != 0) {
    return ErrnoStatus(errno, absl::StrCat("setrlimit ", name));
  }
  return absl::OkStatus();
}

// Landlock, as linux/landlock.h of the newest ABI has it: headers of the
// systems we build on are older than the kernels we run on.
struct LandlockRuleset {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;
  uint64_t scoped;
};
constexpr long kLandlockCreateRuleset = 444;
constexpr long kLandlockRestrictSelf = 446;
constexpr unsigned kLandlockCreateVersion = 1;

// Forbids what this kernel's ABI knows and names no exception. Returns the ABI.
absl::StatusOr<int> ApplyLandlock() {
  const long abi = ::syscall(kLandlockCreateRuleset, nullptr, size_t{0},
                             kLandlockCreateVersion);
  if (abi < 0) return ErrnoStatus(errno, "landlock_create_ruleset");
  // Bits added: 0 to 12 in ABI 1, refer in 2, truncate in 3, devices in 5.
  const int bits = abi >= 5 ? 16 : abi >= 3 ? 15 : abi == 2 ? 14 : 13;
  LandlockRuleset ruleset = {.handled_access_fs = (uint64_t{1} << bits) - 1,
                             .handled_access_net = abi >= 4 ? uint64_t{3} : 0,
                             .scoped = abi >= 6 ? uint64_t{3} : 0};
  const size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
  const int fd =
      static_cast<int>(::syscall(kLandlockCreateRuleset, &ruleset, size, 0u));
  if (fd < 0) return ErrnoStatus(errno, "landlock_create_ruleset");
  const long done = ::syscall(kLandlockRestrictSelf, fd, 0u);
  const int error = errno;
  ::close(fd);
  if (done != 0) return ErrnoStatus(error, "landlock_restrict_self");
  return static_cast<int>(abi);
}

// The list of system calls. Errors of single rules are kept in `error_`.
class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_KILL_PROCESS)) {}
  ~Filter() {
    if (context_ != nullptr) seccomp_release(context_);
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  absl::Status Load() {
    if (context_ == nullptr) {
      return absl::UnavailableError("seccomp_init failed");
    }
    Note(seccomp_attr_set(context_, SCMP_FLTATR_CTL_TSYNC, 1));
    // Error numbers of the kernel rather than a summary.
    Note(seccomp_attr_set(context_, SCMP_FLTATR_API_SYSRAWRC, 1));
    // As a tree rather than a chain: reads are frequent.
    Note(seccomp_attr_set(context_, SCMP_FLTATR_CTL_OPTIMIZE, 2));
    Files();
    Memory();
    Threads();
    Rest();
    if (error_ == 0) Note(seccomp_load(context_));
    if (error_ != 0) return ErrnoStatus(-error_, "system call filter");
    return absl::OkStatus();
  }

 private:
  void Note(int result) {
    if (error_ == 0 && result < 0) error_ = result;
  }
  void Allow(std::initializer_list<int> calls) {
    for (const int call : calls) {
      Note(seccomp_rule_add(context_, SCMP_ACT_ALLOW, call, 0));
    }
  }
  void Allow(int call, std::initializer_list<scmp_arg_cmp> arguments) {
    Note(seccomp_rule_add_array(context_, SCMP_ACT_ALLOW, call,
                                static_cast<unsigned>(arguments.size()),
                                arguments.begin()));
  }
  void Refuse(int error, std::initializer_list<int> calls) {
    const uint32_t action = SCMP_ACT_ERRNO(static_cast<uint32_t>(error));
    for (const int call : calls) {
      Note(seccomp_rule_add(context_, action, call, 0));
    }
  }
  static scmp_arg_cmp Masked(unsigned argument, uint64_t mask, uint64_t value) {
    return {argument, SCMP_CMP_MASKED_EQ, mask, value};
  }
  static scmp_arg_cmp Equal(unsigned argument, uint64_t value) {
    return {argument, SCMP_CMP_EQ, value, 0};
  }

  void Files() {
    Allow({SCMP_SYS(read), SCMP_SYS(pread64), SCMP_SYS(readv), SCMP_SYS(write),
           SCMP_SYS(pwrite64), SCMP_SYS(writev), SCMP_SYS(lseek),
           SCMP_SYS(ftruncate), SCMP_SYS(close), SCMP_SYS(fstat),
           SCMP_SYS(fadvise64)});
    for (const uint64_t command : {F_GETFD, F_GETFL}) {
      Allow(SCMP_SYS(fcntl), {Equal(1, command)});
    }
    // What libraries look up and do without. newfstatat, which newer C
    // libraries make of fstat, is among them: it takes a name, which lies in
    // memory, where a filter does not see it, and Landlock lets everybody look
    // at attributes.
    Refuse(EACCES, {SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(access),
                    SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(stat),
                    SCMP_SYS(lstat), SCMP_SYS(readlink), SCMP_SYS(readlinkat),
                    SCMP_SYS(newfstatat)});
    Refuse(ENOSYS, {SCMP_SYS(statx)});
    Refuse(ENOTTY, {SCMP_SYS(ioctl)});
  }

  void Memory() {
    Allow(SCMP_SYS(mmap), {Masked(2, PROT_EXEC, 0)});
    Allow(SCMP_SYS(mprotect), {Masked(2, PROT_EXEC, 0)});
    Allow(
        {SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(brk), SCMP_SYS(madvise)});
  }

  void Threads() {
    // Threads of this process only: no new process, no new namespace.
    constexpr uint64_t kNamespaces =
        CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
        CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    Allow(SCMP_SYS(clone),
          {Masked(0, CLONE_THREAD | CLONE_VFORK | CLONE_PTRACE | kNamespaces,
                  CLONE_THREAD)});
    // Its flags lie in memory, where a filter does not see them; the C library
    // falls back to clone.
    Refuse(ENOSYS, {SCMP_SYS(clone3)});
    Allow({SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq),
           SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(exit),
           SCMP_SYS(exit_group), SCMP_SYS(restart_syscall)});
  }

  void Rest() {
    Allow({SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),
           SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack), SCMP_SYS(getpid),
           SCMP_SYS(gettid), SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres),
           SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep),
           SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(getrandom),
           // The demangler is interrupted by it.
           SCMP_SYS(setitimer), SCMP_SYS(getrusage), SCMP_SYS(sysinfo),
           SCMP_SYS(uname), SCMP_SYS(getcpu)});
    // abort() signals its own process.
    Allow(SCMP_SYS(tgkill), {Equal(0, static_cast<uint64_t>(::getpid()))});
    // Limits are asked for, not set.
    Allow(SCMP_SYS(prlimit64), {Equal(0, 0), Equal(2, 0)});
    Allow({SCMP_SYS(getrlimit)});
    // Names of threads and memory ranges.
    Refuse(EINVAL, {SCMP_SYS(prctl)});
  }

  scmp_filter_ctx context_;
  int error_ = 0;
};

}  // namespace

std::string Confinement::Describe() const {
  std::string out = "limits";
  if (landlock_abi > 0) {
    absl::StrAppend(&out, ", Landlock ABI ", landlock_abi);
  }
  if (filter) absl::StrAppend(&out, ", system call filter");
  if (!missing.empty()) {
    absl::StrAppend(&out, "; missing: ", absl::StrJoin(missing, "; "));
  }
  return out;
}

absl::StatusOr<Confinement> ConfineSelf(const ConfineOptions& options) {
  // OpenSSL reads its configuration with the first digest.
  if (options.digests) (void)Sha256Of("");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return ErrnoStatus(errno, "no new privileges");
  }
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    return ErrnoStatus(errno, "not dumpable");
  }
  TWINPATH_RETURN_IF_ERROR(Limit(RLIMIT_CPU, "CPU", options.cpu_seconds));
  TWINPATH_RETURN_IF_ERROR(Limit(RLIMIT_CORE, "CORE", 0));
  TWINPATH_RETURN_IF_ERROR(Limit(RLIMIT_FSIZE, "FSIZE", options.file_bytes));
  Confinement confinement;
  if (kSanitized) {
    confinement.missing = {
        "memory, descriptors, Landlock and the system call filter: "
        "built with a sanitizer"};
    return confinement;
  }
  TWINPATH_RETURN_IF_ERROR(Limit(RLIMIT_AS, "AS", options.address_space_bytes));
  TWINPATH_RETURN_IF_ERROR(Limit(RLIMIT_DATA, "DATA", options.data_bytes));
  const absl::StatusOr<int> landlock = ApplyLandlock();
  if (landlock.ok()) {
    confinement.landlock_abi = *landlock;
  } else {
    confinement.missing.push_back(
        absl::StrCat("Landlock: ", landlock.status().message()));
  }
  // Open descriptors stay, however high they are; new ones cannot be had.
  TWINPATH_RETURN_IF_ERROR(Limit(RLIMIT_NOFILE, "NOFILE", 0));
  const absl::Status filter = Filter().Load();
  if (filter.ok()) {
    confinement.filter = true;
  } else {
    confinement.missing.push_back(std::string(filter.message()));
  }
  return confinement;
}

}  // namespace twinpath::inspect
