#include "runner/confine.h"

#include <asm/sockios.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace twinpath::runner {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "the system call filter knows x86_64 and aarch64"
#endif

// Landlock, as linux/landlock.h of the newest ABI has it: headers of the
// systems we build on are older than the kernels we run on.
struct LandlockRuleset {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;
  uint64_t scoped;
};
struct LandlockPathBeneath {
  uint64_t allowed_access;
  int32_t parent_fd;
} __attribute__((packed));
constexpr long kCreateRuleset = 444;
constexpr long kAddRule = 445;
constexpr long kRestrictSelf = 446;
constexpr unsigned kCreateVersion = 1;
constexpr unsigned kRulePathBeneath = 1;
constexpr uint64_t kWriteFile = uint64_t{1} << 1;
// remove_dir, remove_file, make_{char,dir,reg,sock,fifo,block,sym}, refer.
constexpr uint64_t kChange = uint64_t{0x3ff} << 4;
constexpr uint64_t kTruncate = uint64_t{1} << 14;
constexpr uint64_t kScopeSignal = 2;

int AllowBeneath(int ruleset, const char* path, uint64_t access) {
  const int fd = open(path, O_PATH | O_CLOEXEC);
  // What is not there cannot be written to.
  if (fd < 0) return errno == ENOENT ? 0 : errno;
  LandlockPathBeneath rule = {access, fd};
  const long done = syscall(kAddRule, ruleset, kRulePathBeneath, &rule, 0U);
  const int error = done == 0 ? 0 : errno;
  close(fd);
  return error;
}

int ApplyLandlock(const ConfineOptions& options, Confined* confined) {
  const long abi = syscall(kCreateRuleset, nullptr, size_t{0}, kCreateVersion);
  // ABI 1 refuses every move between folders.
  if (abi < 2) return 0;
  const uint64_t all =
      kWriteFile | kChange | (abi >= 3 ? kTruncate : uint64_t{0});
  LandlockRuleset rules = {all, 0, abi >= 6 ? kScopeSignal : uint64_t{0}};
  const size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
  const int ruleset =
      static_cast<int>(syscall(kCreateRuleset, &rules, size, 0U));
  if (ruleset < 0) return errno;
  int error = 0;
  for (int i = 0; i < options.writable_count && error == 0; ++i) {
    error = AllowBeneath(ruleset, options.writable[i], all);
  }
  // Devices are written to, and threads name themselves in /proc.
  const uint64_t write = abi >= 3 ? kWriteFile | kTruncate : kWriteFile;
  if (error == 0) error = AllowBeneath(ruleset, "/dev", write);
  if (error == 0) error = AllowBeneath(ruleset, "/proc", write);
  if (error == 0 && syscall(kRestrictSelf, ruleset, 0U) != 0) error = errno;
  close(ruleset);
  if (error == 0) confined->landlock_abi = static_cast<int>(abi);
  return error;
}

// Calls that no program under test needs. Numbers of newer kernels are given
// where headers of Debian 12 lack them; they are the same on all architectures.
constexpr int kRefused[] = {
    // File systems and their namespaces.
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_swapon,
    SYS_swapoff,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    SYS_fanotify_init,
    // Other namespaces.
    SYS_unshare,
    SYS_setns,
    // The kernel itself.
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_kcmp,
    SYS_syslog,
    SYS_acct,
    SYS_nfsservctl,
    SYS_lookup_dcookie,
    SYS_vhangup,
    // Keys of the kernel's rings.
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    // Clocks and the host's name.
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
#if defined(__x86_64__)
    SYS_ioperm,
    SYS_iopl,
    SYS_modify_ldt,
    SYS_uselib,
    SYS_ustat,
    SYS_sysfs,
    SYS__sysctl,
    SYS_create_module,
    SYS_get_kernel_syms,
    SYS_query_module,
#endif
};

// Calls whose argument `argument` names a process, or its group where negative.
struct Aimed {
  int call;
  int argument;
};
constexpr Aimed kAimed[] = {
    {SYS_kill, 0},
    // Their group: a signal to one's own group would reach them.
    {SYS_setpgid, 1},
    {SYS_tkill, 0},
    {SYS_tgkill, 0},
    {SYS_rt_sigqueueinfo, 0},
    {SYS_rt_tgsigqueueinfo, 0},
    {SYS_pidfd_open, 0},
    {SYS_prlimit64, 0},
    {SYS_ptrace, 1},
    {SYS_process_vm_readv, 0},
    {SYS_process_vm_writev, 0},
    {SYS_sched_setaffinity, 0},
    {SYS_sched_setscheduler, 0},
    {SYS_sched_setparam, 0},
    {SYS_sched_setattr, 0},
};

constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

// The filter, instruction by instruction. Jumps only go forward over the few
// instructions of one check, so their distances fit.
class Program {
 public:
  Program() {
    Load(offsetof(seccomp_data, arch));
    // A call of another architecture has other numbers.
    Add(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
    Return(SECCOMP_RET_KILL_PROCESS);
    Load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    // The x32 variant of every call.
    Add(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);
    Return(kUnknown);
#endif
  }

  void Refuse(int call, uint32_t action) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1);
    Return(action);
  }
  // Refuses `call` where `argument` has a bit of `mask`.
  void RefuseBits(int call, int argument, uint32_t mask) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 4);
    LoadArgument(argument);
    Add(BPF_JMP | BPF_JSET | BPF_K, mask, 0, 1);
    Return(kRefuse);
    Return(SECCOMP_RET_ALLOW);
  }
  // Refuses `call` where `argument` is one of `values`.
  void RefuseValues(int call, int argument, const uint32_t* values, int count) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0,
        static_cast<uint8_t>(2 + 2 * count));
    LoadArgument(argument);
    for (int i = 0; i < count; ++i) {
      Add(BPF_JMP | BPF_JEQ | BPF_K, values[i], 0, 1);
      Return(kRefuse);
    }
    Return(SECCOMP_RET_ALLOW);
  }
  void Return(uint32_t action) { Add(BPF_RET | BPF_K, action, 0, 0); }

  // 0 or errno.
  int Apply() {
    if (overflow_) return E2BIG;
    sock_fprog program = {static_cast<unsigned short>(size_), code_};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0
               ? 0
               : errno;
  }

 private:
  void Load(size_t offset) {
    Add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset), 0, 0);
  }
  // The lower half: both architectures are little-endian, and process numbers
  // and flags have 32 bits.
  void LoadArgument(int argument) {
    Load(offsetof(seccomp_data, args) +
         sizeof(uint64_t) * static_cast<size_t>(argument));
  }
  void Add(int code, uint32_t k, uint8_t if_true, uint8_t if_false) {
    if (size_ == kMost) {
      overflow_ = true;
      return;
    }
    code_[size_++] = {static_cast<uint16_t>(code), if_true, if_false, k};
  }

  static constexpr size_t kMost = 1024;
  sock_filter code_[kMost];
  size_t size_ = 0;
  bool overflow_ = false;
};

int ApplyFilter(const ConfineOptions& options) {
  Program program;
  for (const int call : kRefused) program.Refuse(call, kRefuse);
  // Its flags lie in memory, where a filter does not see them; the C library
  // falls back to clone.
  program.Refuse(SYS_clone3, kUnknown);
  constexpr uint32_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP |
                                   CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                   CLONE_NEWPID | CLONE_NEWNET;
  program.RefuseBits(SYS_clone, 0, kNamespaces);
  // Putting words into the mouth of a terminal; where processes are guarded
  // also naming who gets the signals of a file (FIOSETOWN, SIOCSPGRP), which
  // could be SIGKILL to them.
  const uint32_t controls[] = {TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP};
  program.RefuseValues(SYS_ioctl, 1, controls,
                       options.guarded_count > 0 ? 4 : 2);
  if (options.guarded_count > 0) {
    const uint32_t owner[] = {F_SETOWN, F_SETOWN_EX};
    program.RefuseValues(SYS_fcntl, 1, owner, 2);
    // It takes a folder of /proc for a process; programs fall back to kill.
    program.Refuse(SYS_pidfd_send_signal, kUnknown);
    uint32_t values[2 * kMaxGuarded + 1];
    int count = 0;
    for (int i = 0; i < options.guarded_count; ++i) {
      values[count++] = static_cast<uint32_t>(options.guarded[i]);
      values[count++] = static_cast<uint32_t>(-options.guarded[i]);
    }
    values[count++] = static_cast<uint32_t>(-1);
    for (const Aimed& aimed : kAimed) {
      program.RefuseValues(aimed.call, aimed.argument, values, count);
    }
  }
  program.Return(SECCOMP_RET_ALLOW);
  return program.Apply();
}

int Lower(__rlimit_resource_t resource, rlim_t value) {
  struct rlimit limit;
  if (getrlimit(resource, &limit) != 0) return errno;
  if (limit.rlim_max > value) limit.rlim_max = value;
  if (limit.rlim_cur > limit.rlim_max) limit.rlim_cur = limit.rlim_max;
  return setrlimit(resource, &limit) == 0 ? 0 : errno;
}

}  // namespace

int Confine(const ConfineOptions& options, Confined* confined) {
  struct {
    __rlimit_resource_t resource;
    rlim_t value;
  } const limits[] = {{RLIMIT_CORE, 0},
                      {RLIMIT_NPROC, options.tasks},
                      {RLIMIT_NOFILE, options.open_files},
                      {RLIMIT_FSIZE, options.file_bytes}};
  for (const auto& limit : limits) {
    if (const int error = Lower(limit.resource, limit.value); error != 0) {
      return error;
    }
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  if (options.writable_count > 0) {
    if (const int error = ApplyLandlock(options, confined); error != 0) {
      return error;
    }
  }
  return ApplyFilter(options);
}

}  // namespace twinpath::runner
