// What an entry may hold, whoever wrote it: kind and command, names of files,
// tolerances, digests, references. A signed release, the coordinator and the
// runner apply the same rules, so that what one accepts no other reads in
// another way. Pure functions; thread-safe.

#ifndef TWINPATH_TRUST_ENTRY_RULES_H_
#define TWINPATH_TRUST_ENTRY_RULES_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "twinpath/v1/release.pb.h"

namespace twinpath::trust {

// Files an entry may name, and files a reference may hold.
inline constexpr int kMaxEntryFiles = 32;
// Bytes of a file's name.
inline constexpr size_t kMaxFileNameBytes = 1024;

// Whether `name` stays below the folder it is looked for in: 1 to
// kMaxFileNameBytes bytes without NUL, not absolute, no part that is empty, "."
// or "..", no part longer than the 255 bytes a file system takes.
bool IsOutputFileName(absl::string_view name);

// "sha256:" and 64 lower-case hexadecimal digits.
bool IsOciDigest(absl::string_view text);

// Both parts finite and not negative. INVALID_ARGUMENT else.
absl::Status CheckTolerance(const v1::Tolerance& tolerance);

// INVALID_ARGUMENT for a rule of a kind unknown here or none, a bad tolerance,
// a digest of another length.
absl::Status CheckExpectedOutput(const v1::ExpectedOutput& output);

// Digests of 32 bytes, kept bytes that have the digest stated beside them,
// names as IsOutputFileName, none twice. INVALID_ARGUMENT else.
absl::Status CheckReference(const v1::Reference& reference);

// Kind, command, oci_image, tracing, expected output and files, comparison and
// reference of an entry, each by itself and with each other:
//   - a command or an OCI entry has a command; images and toolchain have none,
//     and nothing that is about a command's result;
//   - oci_image goes with an OCI entry and only with it;
//   - must_launch does not go with tracing that is off;
//   - a reference does not go with a comparison that is off.
// INVALID_ARGUMENT says what is wrong, without the entry's name.
absl::Status CheckEntryRules(const v1::Entry& entry);

}  // namespace twinpath::trust

#endif  // TWINPATH_TRUST_ENTRY_RULES_H_
