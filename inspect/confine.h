// Confinement of the process that reads untrusted files (twinpath-inspect). A
// file may drive the reader, or a library it uses, out of its path; what that
// process can still do then is what this file leaves it: read the descriptors
// it was given, write to the scratch file and to standard output, take memory,
// start threads. It can open, execute, connect to and signal nothing.
//
// Layers, each useful without the others:
//   no new privileges, not dumpable (no ptrace by others of the same user);
//   limits: address space, writable memory, processor time, file size, no new
//   descriptors, no
//     core file. Not the number of processes: that limit counts all of the
//     user's, so 0 would forbid the threads too; fork is left to the filter;
//   Landlock: no access to any file by its name, no TCP, no signals outside;
//   a system call filter (seccomp) with a list of what is allowed. What is not
//     listed kills the process with SIGSYS, so that the caller sees an end and
//     not a report. Calls that the C library makes to look something up
//     (time zones, character sets, the number of processors) get an error
//     number instead. So does every call that asks for attributes of a file by
//     its name, which Landlock does not stop; with newer C libraries that is
//     fstat, too: sizes of files are asked for before.
//
// A kernel or container without Landlock or without seccomp is no error: the
// layer is named in `missing` and the others hold. With AddressSanitizer or
// ThreadSanitizer built in, memory, descriptors, Landlock and the filter
// are left out: their run-time libraries open files and start processes.
// Call once, from the only thread, before any untrusted byte is read. There is
// no way back.

#ifndef TWINPATH_INSPECT_CONFINE_H_
#define TWINPATH_INSPECT_CONFINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace twinpath::inspect {

struct ConfineOptions {
  // Address space, not resident memory: thread stacks and allocator arenas are
  // reserved, not used.
  uint64_t address_space_bytes = uint64_t{2} << 30;
  // Writable memory, which may become resident: what keeps a library that a
  // file asks for an absurd window from taking it. Below the 512 MiB that an
  // inspection may keep resident.
  uint64_t data_bytes = uint64_t{480} << 20;
  uint64_t cpu_seconds = 600;
  // Largest size of a file that is written: the scratch file. 0 where there is
  // none; pipes are not files in this sense.
  uint64_t file_bytes = 0;
  // SHA-256 will be asked for; what it needs is made ready.
  bool digests = true;
};

// What holds now.
struct Confinement {
  // 0: not applied.
  int landlock_abi = 0;
  bool filter = false;
  // Layers that could not be applied, each with its reason.
  std::vector<std::string> missing;

  // One line for people: "limits, Landlock ABI 7, system call filter; missing:
  // ...".
  std::string Describe() const;
};

// Confines this process. Fails only if not even privileges and limits can be
// set (errors as ErrnoStatus); the caller should then read nothing.
absl::StatusOr<Confinement> ConfineSelf(const ConfineOptions& options);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_CONFINE_H_
