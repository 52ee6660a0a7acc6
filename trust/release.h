// The bytes that name a release, and their digest. What is signed is never
// serialised protobuf, whose bytes are not stable, but sorted lines specified
// in docs/formats/release.md. Pure functions; thread-safe.

#ifndef TWINPATH_TRUST_RELEASE_H_
#define TWINPATH_TRUST_RELEASE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/digest.h"
#include "twinpath/v1/release.pb.h"

namespace twinpath::trust {

// Returns the text of a release: the header line, then its sorted lines, each
// with its line feed. INVALID_ARGUMENT, naming the entry and what is wrong with
// it: artifact digest absent or not 32 bytes; an entry name that is empty, not
// of [A-Za-z0-9._-], or used twice; an entry without command; a variable name
// not of [A-Za-z_][A-Za-z0-9_]* or set twice; a duration or time outside its
// range; an expectation of a kind this version does not know.
absl::StatusOr<std::string> ReleaseText(const v1::Release& release);

// Returns the SHA-256 of ReleaseText. Errors as ReleaseText.
absl::StatusOr<Sha256> ReleaseDigest(const v1::Release& release);

// A value as it stands in a line: printable ASCII as it is, the backslash and
// every other byte as \xNN with upper-case digits.
std::string EscapeReleaseValue(absl::string_view value);

}  // namespace twinpath::trust

#endif  // TWINPATH_TRUST_RELEASE_H_
