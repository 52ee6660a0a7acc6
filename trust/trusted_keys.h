// The keys this host trusts: files *.pem and *.pub in a folder that only root
// can change. Whoever could add a key could make the host run anything, so a
// folder or file that somebody else may write is refused as a whole.

#ifndef TWINPATH_TRUST_TRUSTED_KEYS_H_
#define TWINPATH_TRUST_TRUSTED_KEYS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trust/dsse.h"

namespace twinpath::trust {

inline constexpr char kTrustedKeysFolder[] = "/etc/twinpath/trusted-keys.d";

// Reads the keys of `folder`. FAILED_PRECONDITION if there is none, if the
// folder or a key is not owned by `owner` (tests give their own) or may be
// written by group or others; INVALID_ARGUMENT, naming the file, for one that
// holds no key.
absl::StatusOr<std::vector<PublicKey>> LoadTrustedKeys(
    const std::string& folder, uid_t owner = 0);

// Reads a small text file under the same rule of ownership, at most `max_bytes`
// long.
absl::StatusOr<std::string> ReadOwnedFile(const std::string& path,
                                          size_t max_bytes, uid_t owner = 0);

}  // namespace twinpath::trust

#endif  // TWINPATH_TRUST_TRUSTED_KEYS_H_
