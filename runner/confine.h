// Confinement of the program under test, applied by twinpath-inside in the
// process that becomes the program, in bubblewrap and in the systemd unit
// alike. What surrounds it (namespaces, the unit's control group) is the
// boundary; this takes away what neither needs:
//
//   limits: no core file, threads and processes, open files, file size. Not the
//     address space: CUDA reserves more of it than any limit;
//   no new privileges;
//   Landlock, where the kernel has it (ABI 2 or newer): writing only below the
//     folders given, no signals to processes outside;
//   a system call filter: no mounts, namespaces, keys, kernel modules, tracing
//     of the kernel, io_uring, foreign architectures; nothing that reaches the
//     processes that watch the run. What a GPU program needs (mbind,
//     sched_setaffinity, System V and POSIX IPC, ptrace of its own children)
//     stays. A refused call gives EPERM, or ENOSYS where the C library then
//     takes another way.
//
// Linked into a program without a C++ run time: nothing here allocates, throws
// or uses more than the C library.

#ifndef TWINPATH_RUNNER_CONFINE_H_
#define TWINPATH_RUNNER_CONFINE_H_

#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

namespace twinpath::runner {

inline constexpr int kMaxGuarded = 4;
// Those of every run, and the volumes of an oci_image (oci_image.h).
inline constexpr int kMaxWritable = 80;

struct ConfineOptions {
  // Bounds of a single run; generous for GPU programs with many host threads.
  rlim_t tasks = 4096;
  rlim_t open_files = 65536;
  rlim_t file_bytes = rlim_t{64} << 30;
  // Folders below which it may write. None: no Landlock.
  const char* writable[kMaxWritable] = {};
  int writable_count = 0;
  // Processes that must not be signalled, traced or limited, nor their groups
  // joined. With any, a signal to "all processes" is refused, too, and naming a
  // process that gets the signals of a file.
  pid_t guarded[kMaxGuarded] = {};
  int guarded_count = 0;
};

struct Confined {
  // 0: not applied.
  int landlock_abi = 0;
};

// Confines this process and everything it starts. Returns 0, or the errno of
// what could not be applied; the program must then not be started. A kernel
// without Landlock is no error. There is no way back. Call from the only
// thread.
int Confine(const ConfineOptions& options, Confined* confined);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_CONFINE_H_
