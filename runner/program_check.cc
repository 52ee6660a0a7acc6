#include "runner/program_check.h"

#include <elf.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"

namespace twinpath::runner {
namespace {

std::string MachineName(unsigned machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "AArch64";
    case EM_386:
      return "32-bit x86";
    case EM_ARM:
      return "32-bit Arm";
    case EM_PPC64:
      return "PowerPC64";
    case EM_RISCV:
      return "RISC-V";
    default:
      return absl::StrCat("ELF machine ", machine);
  }
}

}  // namespace

absl::StatusOr<std::string> ProgramPath(absl::string_view word,
                                        const std::string& artifact_directory) {
  if (word.empty() || word.find('\0') != absl::string_view::npos) {
    return absl::InvalidArgumentError("the entry's command names no program");
  }
  if (word.front() == '/') return std::string(word);
  for (const absl::string_view part : absl::StrSplit(word, '/')) {
    if (part == "..") {
      return absl::InvalidArgumentError(absl::StrCat(
          "the entry's program leaves the artifact: ", Printable(word)));
    }
  }
  return JoinPath(artifact_directory, word);
}

absl::Status CheckProgram(const std::string& path,
                          v1::CpuArchitecture architecture) {
  const absl::StatusOr<UniqueFd> file = OpenRegularFile(path);
  if (!file.ok()) return WithContext(file.status(), "the entry's program");
  if (access(path.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the entry's program is not executable: ", Printable(path)));
  }
  const auto head = PreadUpTo(file->get(), 0, 20);
  if (!head.ok() || head->size() < 20 ||
      !absl::StartsWith(*head, absl::string_view(ELFMAG, SELFMAG))) {
    return absl::OkStatus();  // A script: the kernel finds its interpreter.
  }
  const auto byte = [&](size_t at) {
    return static_cast<unsigned>(static_cast<unsigned char>((*head)[at]));
  };
  const bool big_endian = byte(EI_DATA) == ELFDATA2MSB;
  const unsigned machine =
      big_endian ? byte(18) << 8 | byte(19) : byte(19) << 8 | byte(18);
  const unsigned wanted =
      architecture == v1::CPU_ARCHITECTURE_X86_64    ? EM_X86_64
      : architecture == v1::CPU_ARCHITECTURE_AARCH64 ? EM_AARCH64
                                                     : EM_NONE;
  if (wanted != EM_NONE && machine != wanted) {
    return absl::FailedPreconditionError(absl::StrCat(
        "exec format error: ", Printable(path), " is built for ",
        MachineName(machine), ", this host is ", MachineName(wanted)));
  }
  return absl::OkStatus();
}

std::string StartErrorText(int error, const std::string& path) {
  const std::string name = Printable(path);
  switch (error) {
    case ENOEXEC:
      return absl::StrCat("exec format error: ", name,
                          " is no program of this host (ENOEXEC)");
    case ENOENT:
      // The file itself was there when it was checked.
      return absl::StrCat(
          "cannot start ", name,
          ": it, its ELF interpreter or its script interpreter does not exist "
          "in the sandbox (ENOENT)");
    case EACCES:
      return absl::StrCat("cannot start ", name,
                          ": permission denied (EACCES); the file or a folder "
                          "above it is closed to the sandbox's user");
    default:
      return absl::StrCat("cannot start ", name, ": ", std::strerror(error));
  }
}

}  // namespace twinpath::runner
