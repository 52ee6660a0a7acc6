// The dynamic section of an ELF file, found by its segment or its section.
// Pure but for the source.

#ifndef TWINPATH_INSPECT_DYNAMIC_H_
#define TWINPATH_INSPECT_DYNAMIC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "inspect/byte_source.h"
#include "inspect/elf_view.h"

namespace twinpath::inspect {

struct DynamicTable {
  bool present = false;
  std::string soname;
  std::vector<std::string> needed;
  // As they stand, parts joined by ':'.
  std::string rpath;
  std::string runpath;
  // File offset and bytes of the RELA table; 0 where there is none.
  uint64_t rela_offset = 0;
  uint64_t rela_bytes = 0;
  // DF_1_PIE.
  bool pie = false;
  // What could not be read ("" if nothing).
  std::string problem;
};

// Only read errors of the source; odd content stands in `problem`.
absl::StatusOr<DynamicTable> ReadDynamic(const ByteSource& source,
                                         const ElfView& elf);

// PT_INTERP; "" if there is none.
absl::StatusOr<std::string> ReadInterpreter(const ByteSource& source,
                                            const ElfView& elf);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_DYNAMIC_H_
