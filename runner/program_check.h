// Whether a program can be started on this host, said before the kernel says it
// in one word: its place, its mode, its CPU architecture.

#ifndef TWINPATH_RUNNER_PROGRAM_CHECK_H_
#define TWINPATH_RUNNER_PROGRAM_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::runner {

// Absolute path of an entry's first word: below `artifact_directory` when it is
// relative, as it stands when it is absolute. INVALID_ARGUMENT for an empty
// word or one with "..".
absl::StatusOr<std::string> ProgramPath(absl::string_view word,
                                        const std::string& artifact_directory);

// OK if `path` is a file that may be executed and, where it is an ELF file, one
// for `architecture`. An emulator registered with the kernel must not run
// another architecture's program: that would be no run of this host.
absl::Status CheckProgram(const std::string& path,
                          v1::CpuArchitecture architecture);

// What an errno of execve means for `path`, in words.
std::string StartErrorText(int error, const std::string& path);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_PROGRAM_CHECK_H_
