// The user numbers of a container: a block that nobody else on this host has.
// Thread-safe.

#ifndef TWINPATH_RUNNER_OCI_USERS_H_
#define TWINPATH_RUNNER_OCI_USERS_H_

#include <cstdint>

namespace twinpath::runner {

inline constexpr uint32_t kUserBlockSize = 65'536;

// Whether this process has all user numbers of the kernel: otherwise it is in a
// user namespace already, and its root is nobody outside.
bool HasAllUsers();

// The first of a block of user numbers for one container.
uint32_t UserBlock();

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_OCI_USERS_H_
