// Folders that ld.so searches without any setting, on the systems we know.

#ifndef TWINPATH_BASE_LOADER_FOLDERS_H_
#define TWINPATH_BASE_LOADER_FOLDERS_H_

#include "absl/strings/string_view.h"

namespace twinpath {

// ld.so(8), "/lib and /usr/lib", with the folders that multilib and multiarch
// systems build in: of 64-bit libraries, and of Debian's x86-64 and aarch64.
inline constexpr absl::string_view kLoaderFolders[] = {
    "/lib",
    "/usr/lib",
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu"};

}  // namespace twinpath

#endif  // TWINPATH_BASE_LOADER_FOLDERS_H_
