// What the name of a shared library says: NVIDIA's CUDA libraries, the
// driver's, and their majors. Pure functions.

#ifndef TWINPATH_COMPAT_LIBRARY_NAME_H_
#define TWINPATH_COMPAT_LIBRARY_NAME_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace twinpath::compat {

// The driver's own library, as everything asks for it.
inline constexpr absl::string_view kDriverLibrary = "libcuda.so.1";

// "libcudart" and 12 of "libcudart.so.12"; no major: 0. The stem ends at
// ".so"; a name without it is its own stem.
struct LibraryName {
  std::string stem;
  uint32_t major = 0;
};
LibraryName ParseLibraryName(absl::string_view soname);

// Whether a name is one of NVIDIA's CUDA libraries (cudart, cuBLAS, NVRTC, ...)
// whose absence the facts can tell.
bool IsCudaLibrary(absl::string_view soname);

// Whether a name is the driver's libcuda, also as wheel tools rename a copy
// ("libcuda-9cd02a88.so.1").
bool IsDriverLibrary(absl::string_view soname);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_LIBRARY_NAME_H_
