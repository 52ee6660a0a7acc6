// clang's offload bundles ("offload binary"): what clang's new driver puts into
// section .llvm.offloading of host files, and what clang-offload-packager
// writes as a file. A header, a table of entries, and for each entry its kind,
// strings (triple, architecture) and an image. Layout: LLVM,
// llvm/include/llvm/Object/OffloadBinary.h. Pure but for the source's state.

#ifndef TWINPATH_INSPECT_OFFLOAD_H_
#define TWINPATH_INSPECT_OFFLOAD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/bare.h"
#include "inspect/byte_source.h"

namespace twinpath::inspect {

inline constexpr char kOffloadMagic[] = "\x10\xFF\x10\xAD";

// OffloadBinary.h, enum ImageKind and enum OffloadKind.
enum class OffloadImage : uint16_t {
  kNone = 0,
  kObject = 1,
  kBitcode = 2,
  kCubin = 3,
  kFatbinary = 4,
  kPtx = 5,
  kSpirV = 6,
};
enum class OffloadUser : uint16_t {
  kNone = 0,
  kOpenMp = 1,
  kCuda = 2,
  kHip = 4,
  kSycl = 8,
};

struct OffloadEntry {
  OffloadImage image = OffloadImage::kNone;
  OffloadUser user = OffloadUser::kNone;
  std::string triple;
  std::string arch;
  // Place in the source.
  uint64_t offset = 0;
  uint64_t size = 0;

  // Whether NVIDIA's driver could run it, now or when compiled: by triple, by
  // the kind of image, or by architecture ("sm_90").
  bool for_nvidia() const;
  // "CUDA bitcode for nvptx64-nvidia-cuda sm_90". Printable.
  std::string Describe() const;
};

struct OffloadBundle {
  uint64_t offset = 0;
  // Header included; bundles lie back to back at multiples of 8.
  uint64_t size = 0;
  std::vector<OffloadEntry> entries;
  // What is broken ("" if nothing); entries read before it stay.
  std::string problem;
};

// Reads the bundle at `offset`, which has to end at or before `limit`. Nothing
// if there is none: magic, a version of 1 to 3 and a size and a table that fit
// make one. RESOURCE_EXHAUSTED when the budget is used up; else only read
// errors of the source.
absl::StatusOr<std::optional<OffloadBundle>> ReadOffloadBundle(
    const ByteSource& source, uint64_t offset, uint64_t limit,
    ProbeBudget& budget);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_OFFLOAD_H_
