// Signed releases: the text of a release (release.h) in a DSSE envelope. A host
// runs nothing else, whoever asks. Pure functions; thread-safe.

#ifndef TWINPATH_TRUST_SIGNED_RELEASE_H_
#define TWINPATH_TRUST_SIGNED_RELEASE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "trust/dsse.h"
#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/trust.pb.h"

namespace twinpath::trust {

inline constexpr char kReleasePayloadType[] =
    "application/vnd.twinpath.release; version=1";

// Signs the text of `release`. Errors as ReleaseText and SignEnvelope.
absl::StatusOr<v1::Envelope> SignRelease(const v1::Release& release,
                                         const PrivateKey& key);

// What a host knows when it is asked to run a release.
struct HostTrust {
  std::vector<PublicKey> keys;
  // "key=value" of this host, as its root-owned file says.
  std::vector<std::string> labels;
  absl::Time now;
};

// Whether this host may run `release`: a trusted key signed exactly its text,
// its time is not over, and for every label key it names the host has one of
// the values named. Returns the id of the key. PERMISSION_DENIED, beginning
// with "TP130" and saying what is wrong, else.
absl::StatusOr<std::string> VerifyRelease(const v1::Release& release,
                                          const v1::Envelope& envelope,
                                          const HostTrust& host);

// The labels in the text of a file: one "key=value" a line, blank lines and
// lines that begin with '#' left out. INVALID_ARGUMENT for another line.
absl::StatusOr<std::vector<std::string>> ParseHostLabels(
    absl::string_view text);

}  // namespace twinpath::trust

#endif  // TWINPATH_TRUST_SIGNED_RELEASE_H_
