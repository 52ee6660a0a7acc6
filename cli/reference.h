// Reference files: results of an earlier run that a release holds and later
// runs are compared with (docs/formats/reference.md). Pure but for the reading;
// thread-safe.

#ifndef TWINPATH_CLI_REFERENCE_H_
#define TWINPATH_CLI_REFERENCE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

// Reads a reference file. Strict: INVALID_ARGUMENT names the file for an
// unknown field, a digest of another length, kept bytes of another digest, a
// name that leaves its folder.
absl::StatusOr<v1::Reference> LoadReference(const std::string& path);

// Which result of a sweep a reference is made of. Empty: whichever there is,
// if only one is.
struct ReferenceChoice {
  std::string entry;
  // Host name.
  std::string host;
  // Path; unspecified: native if it ran well, else plain, else ptx-jit.
  v1::Path path = v1::PATH_UNSPECIFIED;
};

// Makes a reference of the result that `choice` leaves: of several the first,
// if all are equal as their entry compares them. FAILED_PRECONDITION if none is
// left that is not simulated, proven on its path and holds every file its entry
// names; if those left differ, saying which; NOT_FOUND for an
// entry or host the sweep does not have. Bytes are kept where they are complete
// and, all together, short enough to travel in an entry.
absl::StatusOr<v1::Reference> MakeReference(const v1::Sweep& sweep,
                                            const ReferenceChoice& choice);

// Writes a reference file, as LoadReference reads it.
absl::Status WriteReference(const std::string& path,
                            const v1::Reference& reference);

// For people: where it was recorded and what it holds.
std::string RenderReference(const v1::Reference& reference);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_REFERENCE_H_
