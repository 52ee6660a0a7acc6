// Version of this build and of the wire protocol.

#ifndef TWINPATH_BASE_VERSION_H_
#define TWINPATH_BASE_VERSION_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace twinpath {

// "0.1.0"; TWINPATH_VERSION comes from the project's CMake version.
inline constexpr absl::string_view kVersion = TWINPATH_VERSION;

// The wire protocol this build speaks best, and the range it accepts.
inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr uint32_t kProtocolMin = 1;
inline constexpr uint32_t kProtocolMax = 1;

}  // namespace twinpath

#endif  // TWINPATH_BASE_VERSION_H_
