// What a forward-compatibility libcuda (package cuda-compat) says of itself: an
// ELF note with JSON that names the CUDA version it brings, the branches of
// kernel modules and the classes of devices it works with. The driver's own
// libcuda has no such note. Layout and fields as NVIDIA's container toolkit
// reads them (NVIDIA/nvidia-container-toolkit, cmd/nvidia-cdi-hook/cudacompat).
// Pure but for the source; any bytes are fine.

#ifndef TWINPATH_INSPECT_DRIVER_NOTE_H_
#define TWINPATH_INSPECT_DRIVER_NOTE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/byte_source.h"
#include "inspect/elf_view.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::inspect {

// Section that holds the note.
inline constexpr char kForwardCompatSection[] = ".note.cuda.fwd_compatibility";

// Reads the JSON of the note. What cannot be read stands in `problem`.
v1::ForwardCompatNote ParseForwardCompat(absl::string_view json);

// The note of an ELF file; absent where it has none or its owner is not
// NVIDIA. A note that is there and broken is returned with its problem. Only
// read errors of the source are errors.
absl::StatusOr<std::optional<v1::ForwardCompatNote>> ReadForwardCompat(
    const ByteSource& source, const ElfView& elf);

// The same for a file. Absent also where it is no ELF file.
absl::StatusOr<std::optional<v1::ForwardCompatNote>> ReadForwardCompatOf(
    const ByteSource& source);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_DRIVER_NOTE_H_
