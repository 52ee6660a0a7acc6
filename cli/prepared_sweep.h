// A sweep file with everything that lies on this machine: files hashed, build
// record checked, signature compared.

#ifndef TWINPATH_CLI_PREPARED_SWEEP_H_
#define TWINPATH_CLI_PREPARED_SWEEP_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/artifact_files.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

struct PreparedSweep {
  v1::SweepSpec spec;
  LocalArtifact artifact;
};

// Errors name the file and, for a build record that does not cover the
// artifact, say "build record".
absl::StatusOr<PreparedSweep> PrepareSweep(const std::string& path);

// Puts the envelope of `path` (made by `twinpath release sign`) into the sweep.
// FAILED_PRECONDITION if it is of another release: the sweep file, or a file it
// names, has changed since. Whether its key is trusted is for each host to say.
absl::Status AddSignature(const std::string& path, PreparedSweep& sweep);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_PREPARED_SWEEP_H_
