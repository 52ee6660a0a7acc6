// Whether this host may run an entry of a release: what its own files say,
// whoever asks. Asked anew before each run, so that a key taken away counts at
// once. Used by the run unit, and by the agent where there is none.
// Thread-safe.

#ifndef TWINPATH_RUNNER_TRUSTED_RELEASE_H_
#define TWINPATH_RUNNER_TRUSTED_RELEASE_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trust/trusted_keys.h"
#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/trust.pb.h"

namespace twinpath::runner {

// Where the host says what it trusts.
struct TrustFiles {
  std::string keys = trust::kTrustedKeysFolder;
  std::string labels = "/etc/twinpath/host-labels";
  // Owner of both; tests give their own.
  uid_t owner = 0;
};

// The entry `name` of `release`, where a trusted key signed it for this host
// and this time and its manifest is sound; a pointer into `release`. An error
// begins with "TP130" or, for the manifest, "TP405".
absl::StatusOr<const v1::Entry*> TrustedEntry(const v1::Release& release,
                                              const v1::Envelope& envelope,
                                              absl::string_view name,
                                              const TrustFiles& files);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_TRUSTED_RELEASE_H_
