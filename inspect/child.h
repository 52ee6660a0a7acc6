// Inspection in a child process (twinpath-inspect), for daemons and for the
// command line alike: no artifact is ever parsed in the caller's own process.
// The child gets the opened file as descriptor 3 and an InspectRequest on
// standard input, and answers with a FileReport on standard output.
// Thread-safe.

#ifndef TWINPATH_INSPECT_CHILD_H_
#define TWINPATH_INSPECT_CHILD_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "inspect/inspect.h"
#include "twinpath/v1/artifact.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Most bytes taken from the child's standard output.
inline constexpr uint64_t kMaxChildOutputBytes = uint64_t{256} << 20;
// How long the child may take for one file.
inline constexpr absl::Duration kChildTimeout = absl::Minutes(5);

// Inspects the file at `path`; `name` goes into the report. A child that dies,
// runs out of time or answers nonsense gives a report with kind UNSPECIFIED and
// problem TP232, not an error. Returns NOT_FOUND, PERMISSION_DENIED,
// INVALID_ARGUMENT (folder, device) if the file cannot be opened, and NOT_FOUND
// if twinpath-inspect is not installed.
absl::StatusOr<v1::FileReport> InspectInChild(const std::string& path,
                                              absl::string_view name,
                                              const InspectOptions& options);

// Returns where the bytes of an artifact's regular file lie on this machine.
using PathOfFile =
    std::function<absl::StatusOr<std::string>(const v1::ArtifactFile&)>;

// Inspects every regular file of `artifact`, each in a child of its own, in the
// manifest's order. Links are not followed: what they point at is a member
// itself. The first error of `path_of` or InspectInChild ends it, with the
// file's name as context.
absl::StatusOr<v1::ArtifactReport> InspectArtifact(
    const v1::Artifact& artifact, const PathOfFile& path_of,
    const InspectOptions& options);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_CHILD_H_
