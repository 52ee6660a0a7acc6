// The manifest: which files an artifact is made of, and the digest that names
// exactly them. The bytes under the digest are specified in
// docs/formats/artifact.md. Functions are pure but for ScanArtifact, which
// reads the file system. Thread-safe.

#ifndef TWINPATH_INSPECT_MANIFEST_H_
#define TWINPATH_INSPECT_MANIFEST_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/digest.h"
#include "twinpath/v1/artifact.pb.h"

namespace twinpath::inspect {

// Limits of a manifest; a larger one is refused.
inline constexpr int kMaxArtifactFiles = 100'000;
inline constexpr size_t kMaxNameBytes = 4096;

// Makes the manifest of `paths`: regular files, symbolic links, folders (taken
// whole). Names are relative to `root`; when `root` is empty, a file has its
// base name and a folder's members are named relative to that folder. Reads and
// hashes every file; sets sizes, modes and digest. Returns NOT_FOUND,
// PERMISSION_DENIED as the file system says; INVALID_ARGUMENT for a path
// outside `root`, for a device, socket or pipe, for a link that leaves the
// artifact, for two paths with one name.
absl::StatusOr<v1::Artifact> ScanArtifact(const std::vector<std::string>& paths,
                                          absl::string_view root);

// Checks a manifest from elsewhere: names (relative, no "..", no empty or "."
// part, no NUL, at most kMaxNameBytes, unique, no name below another file),
// types, modes, digests of the right length, links that stay inside the
// artifact and end at a member, and the artifact's digest where it is present.
// Returns INVALID_ARGUMENT naming the file, DATA_LOSS for a wrong digest.
absl::Status ValidateArtifact(const v1::Artifact& artifact);

// Returns the line of one file (docs/formats/artifact.md), line end included.
std::string ManifestLine(const v1::ArtifactFile& file);

// Returns the SHA-256 of the sorted lines. INVALID_ARGUMENT where the manifest
// is not valid; a digest stated in it is neither used nor checked.
absl::StatusOr<Sha256> ArtifactDigest(const v1::Artifact& artifact);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_MANIFEST_H_
