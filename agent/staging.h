// Staging: the artifact's files as one cell sees them, in a new folder of its
// own that is removed afterwards. Files are copies out of the cache, never
// links into it, so that nothing a run does can reach the cache or another
// cell. Their digests are taken again from the folder just before the run: what
// is reported is what was there, not what was asked for.
//
// Not thread-safe.

#ifndef TWINPATH_AGENT_STAGING_H_
#define TWINPATH_AGENT_STAGING_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/blob_cache.h"
#include "twinpath/v1/artifact.pb.h"
#include "twinpath/v1/observation.pb.h"

namespace twinpath::agent {

class StagedArtifact {
 public:
  // Makes `directory` (which must not exist) with all files of `artifact`,
  // fetching what the cache lacks; makes what was begun disappear again on any
  // error. INVALID_ARGUMENT or DATA_LOSS: the manifest is not valid.
  // RESOURCE_EXHAUSTED: no room. CANCELLED, UNAVAILABLE, NOT_FOUND: fetching.
  static absl::StatusOr<std::unique_ptr<StagedArtifact>> Stage(
      const v1::Artifact& artifact, BlobCache& cache, BlobSource& source,
      const std::string& directory, const std::function<bool()>& cancelled);

  // Removes the folder.
  ~StagedArtifact();
  StagedArtifact(const StagedArtifact&) = delete;
  StagedArtifact& operator=(const StagedArtifact&) = delete;

  // Reads every file again and compares with the manifest; a file whose inode,
  // size and times are as they were at the last reading is not read once more.
  // DATA_LOSS names the first file that differs; staged() then shows it.
  absl::Status Verify();

  // Digests as the last Verify found them; the digest of a file that could not
  // be read is empty.
  const std::vector<v1::StagedFile>& staged() const { return staged_; }
  const std::string& directory() const { return directory_; }

 private:
  // What tells that a file was touched. ctime cannot be set by a user.
  struct Fingerprint {
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = 0;
    int64_t modified = 0;
    int64_t changed = 0;
    friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
  };
  struct File {
    std::string name;
    Sha256 expected;
    Fingerprint fingerprint;
  };

  explicit StagedArtifact(std::string directory)
      : directory_(std::move(directory)) {}
  absl::Status Fill(const v1::Artifact& artifact, BlobCache& cache,
                    BlobSource& source, const std::function<bool()>& cancelled);
  static absl::StatusOr<Fingerprint> FingerprintOf(const std::string& path);

  const std::string directory_;
  std::vector<File> files_;
  std::vector<v1::StagedFile> staged_;
};

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_STAGING_H_
