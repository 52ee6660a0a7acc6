// Fatbin wrappers: the 24-byte records by which host code hands its fatbins to
// the CUDA runtime at start. They say what is registered; they are never used
// to find code. Layout: docs/formats/device-code.md. Pure but for the source.

#ifndef TWINPATH_INSPECT_WRAPPER_H_
#define TWINPATH_INSPECT_WRAPPER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "inspect/byte_source.h"
#include "inspect/elf_view.h"

namespace twinpath::inspect {

struct WrapperRecord {
  // Place in the file.
  uint64_t offset = 0;
  uint32_t version = 0;
  // File offset its data pointer leads to; nothing if it leads nowhere.
  std::optional<uint64_t> target;
};

// Most wrappers read from one file.
inline constexpr size_t kMaxWrappers = 1 << 20;

// Finds the wrappers of an ELF file: the records of section .nvFatBinSegment,
// or, where no section has that name, records in writable segments whose
// pointer leads to one of `fatbins` (file offsets). Pointers are taken from the
// relocations that cover them (RELA addends, section symbols in object files)
// and from the file's bytes where none does.
absl::StatusOr<std::vector<WrapperRecord>> FindWrappers(
    const ByteSource& source, const ElfView& elf,
    const absl::flat_hash_set<uint64_t>& fatbins);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_WRAPPER_H_
