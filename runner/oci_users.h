// The user numbers of a container: a block that nobody else on this host has.
// Thread-safe.

#ifndef TWINPATH_RUNNER_OCI_USERS_H_
#define TWINPATH_RUNNER_OCI_USERS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace twinpath::runner {

inline constexpr uint32_t kUserBlockSize = 65'536;

// Whether root of this process may be root outside, by the text of
// /proc/self/uid_map or gid_map (user_namespaces(7)). True, too, where the text
// does not say or could not be read: the container then gets users of its own,
// and where these cannot be had it does not start.
bool RootMayBeReal(const absl::StatusOr<std::string>& map);

// The same for this process and both maps. False: it is in a user namespace
// already, and its root is nobody outside.
bool RootHereMayBeReal();

// The first of a block of user numbers for one container.
uint32_t UserBlock();

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_OCI_USERS_H_
