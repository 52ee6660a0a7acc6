// The CUDA runtime and run-time compilers a host file is linked with, as far as
// its names and bytes tell. Pure; thread-safe.

#ifndef TWINPATH_INSPECT_RUNTIME_H_
#define TWINPATH_INSPECT_RUNTIME_H_

#include "inspect/dynamic.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Stands in the CUDA runtime's shared-memory code, in the static library as in
// the shared one (libcudart_static.a and libcudart.so of CUDA 13.0).
inline constexpr char kCudartText[] = "/cudart.shm.";

// Adds the run-time compilers that DT_NEEDED or DT_SONAME name.
void AddRuntimeCompilers(const DynamicTable& dynamic, v1::FileReport& report);

// Sets the release of the CUDA runtime: by name where it is shared, by the
// newest toolkit of the report's images where it is static. Unset: unknown.
void SetCudart(const DynamicTable& dynamic, v1::FileReport& report);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_RUNTIME_H_
