// Reads a cubin: target, producer, kernels. Works on any ByteSource and reads
// only the tables it needs, in ascending order, so that a payload can be
// decoded while it is read. Both ABIs (EI_ABIVERSION 7 and 8) are read; what
// the file says is checked before it is used. Layout:
// docs/formats/device-code.md. Pure but for the source's state.

#ifndef TWINPATH_INSPECT_CUBIN_H_
#define TWINPATH_INSPECT_CUBIN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/byte_source.h"

namespace twinpath::inspect {

struct CubinKernel {
  std::string name;
  std::optional<uint32_t> registers;
  std::optional<uint32_t> shared_bytes;
  std::optional<uint32_t> max_threads;
};

struct Cubin {
  // ELF type REL: still has to be linked.
  bool relocatable = false;
  // ELF type 0xff00: only capsule code that a finaliser has to turn into
  // machine code.
  bool capsule_only = false;
  // SM number, 90 for 9.0.
  uint32_t target = 0;
  // 'a', 'f' or 0; 'f' can only be known from the tool's options.
  char suffix = 0;
  std::optional<uint32_t> virtual_architecture;
  // Toolkit release; 0.0 if not stated.
  uint32_t toolkit_major = 0;
  uint32_t toolkit_minor = 0;
  // Of the tool's note, "" where there is none.
  std::string tool;
  std::string tool_version;
  std::string options;
  std::vector<CubinKernel> kernels;
  // Bytes up to the end of the last table or section.
  uint64_t extent = 0;
  // What could not be read ("" if nothing).
  std::string problem;
};

// Caps: what a table of a cubin may take. Far above what compilers make.
inline constexpr uint64_t kMaxCubinTableBytes = uint64_t{64} << 20;

// Whether these first bytes (20 at least) are a cubin's: ELF64, little-endian,
// e_machine 190.
bool LooksLikeCubin(absl::string_view head);

enum class CubinDetail {
  // The ELF header, the section table and the notes.
  kHeader,
  // Kernels' names too.
  kNames,
  // Their registers, shared memory and threads too.
  kAll,
};

// Reads the cubin in `source`. INVALID_ARGUMENT if it is no cubin; DATA_LOSS
// and read errors of the source.
absl::StatusOr<Cubin> ReadCubin(const ByteSource& source, CubinDetail detail);
// kAll with `kernels`, kHeader without.
absl::StatusOr<Cubin> ReadCubin(const ByteSource& source, bool kernels);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_CUBIN_H_
