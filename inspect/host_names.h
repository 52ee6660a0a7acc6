// Kernels that host code never names. The CUDA runtime starts a kernel by the
// name that the host code registered for it (__cudaRegisterFunction gets the
// mangled name as a string), so a kernel of a registered fatbin whose name
// stands nowhere in the host's data cannot be started by name.
//
// Thread-safe; keeps nothing between calls.

#ifndef TWINPATH_INSPECT_HOST_NAMES_H_
#define TWINPATH_INSPECT_HOST_NAMES_H_

#include <vector>

#include "absl/status/status.h"
#include "inspect/byte_source.h"
#include "inspect/scan.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Most names listed in a report.
inline constexpr int kMaxUnnamedKernels = 1000;
// A longer name is taken as named; nvcc's longest seen is under 20,000 bytes.
inline constexpr size_t kMaxSearchedName = 128 << 10;

// Fills unnamed_kernels and unnamed_kernel_count of a linked ELF file whose
// fatbins and kernels are read, and adds the finding TP240 where there are any.
// Does nothing where the answer would be a guess: part of the file is not read,
// or a fatbin with kernels is not registered (the library finds its kernels by
// itself). Link inputs that are registered count like linked images. `ranges`
// are those that were searched for fatbins; bytes of fatbins are left out.
//
// A name counts where its bytes are followed by NUL, whatever stands before
// (linkers merge strings by their ends). Memory: a hash table over the report's
// names and one window. Read errors of the source.
absl::Status FindUnnamedKernels(const ByteSource& source,
                                const std::vector<ScanRange>& ranges,
                                v1::FileReport& report);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_HOST_NAMES_H_
