// The files of an artifact on this machine: manifest and where each blob lies,
// so that they can be inspected, staged or uploaded.

#ifndef TWINPATH_CLI_ARTIFACT_FILES_H_
#define TWINPATH_CLI_ARTIFACT_FILES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/console.h"
#include "cli/sweep_file.h"
#include "twinpath/v1/artifact.pb.h"
#include "twinpath/v1/services.pb.h"

namespace twinpath::cli {

class Client;

struct LocalArtifact {
  v1::Artifact artifact;
  // Name in the artifact -> path on this machine; regular files only.
  std::map<std::string, std::string> paths;
};

// Reads and hashes the files. `root` as in inspect::ScanArtifact. Errors name
// the path.
absl::StatusOr<LocalArtifact> ScanLocal(
    absl::string_view name, const std::vector<ArtifactSource>& sources,
    absl::string_view root);

// Copies files, links and modes into `directory`, which exists and is empty.
absl::Status StageArtifact(const LocalArtifact& artifact,
                           const std::string& directory);

// Uploads the blobs that the coordinator lacks and registers the manifest.
// Shows progress on `console`.
absl::StatusOr<v1::RegisterArtifactResponse> PushArtifact(
    const LocalArtifact& artifact, Client& client, Console& console);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_ARTIFACT_FILES_H_
