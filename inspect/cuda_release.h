// Which CUDA major release a word or a library name speaks of. Sources:
// NVIDIA's release notes (component versions of each toolkit), the sonames of
// the redistributable packages; docs/reasons/TP237.md has the table. Pure;
// thread-safe.

#ifndef TWINPATH_INSPECT_CUDA_RELEASE_H_
#define TWINPATH_INSPECT_CUDA_RELEASE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace twinpath::inspect {

// A set of CUDA major releases: bit N for CUDA N. 0: nothing is told.
using CudaMajors = uint32_t;

inline constexpr uint32_t kOldestCudaMajor = 8;
inline constexpr uint32_t kNewestCudaMajor = 19;

constexpr CudaMajors CudaMajorBit(uint32_t major) {
  return major >= kOldestCudaMajor && major <= kNewestCudaMajor
             ? CudaMajors{1} << major
             : 0;
}

// "CUDA 12", "CUDA 11 or 12".
std::string CudaMajorsName(CudaMajors majors);

// The release that a name or version speaks of: "cu130", "cu12",
// "cupy-cuda13x", "2.7.1+cu126", "pt27cu118", "libx_cuda121.so", "cuda-12.4",
// "cuda_v13". The first such word counts. Nothing where there is none.
std::optional<uint32_t> CudaMajorOfWords(absl::string_view text);

// The releases that have a library with this soname; 0 where it is none of the
// toolkit's or the same in many releases (libcurand.so.10). The eight-digit
// hash that auditwheel puts into names is looked through.
CudaMajors CudaMajorsOfLibrary(absl::string_view soname);

// Whether a soname is one of NVIDIA's that code for a GPU needs: the toolkit's,
// the driver's, cuDNN, NCCL.
bool IsCudaLibrary(absl::string_view soname);

// Whether a file name or soname is that of the driver's libcuda, also with the
// hash of auditwheel in it.
bool IsDriverLibrary(absl::string_view soname);

// The release in the name of a Debian package: "cuda-cudart-13-0",
// "libcublas-12-4", "libcudart12", "libcudnn9-cuda-13".
std::optional<uint32_t> CudaMajorOfDebName(absl::string_view name);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_CUDA_RELEASE_H_
