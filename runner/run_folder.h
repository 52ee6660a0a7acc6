// The folder of one run and what the run leaves in it:
//
//   home/       HOME and working folder; links to the artifact's top-level
//   files cache/      CUDA_CACHE_PATH driver.log  CUDA_LOG_FILE
//
// The program may do to these what it likes; reading them afterwards follows no
// link and is bounded.

#ifndef TWINPATH_RUNNER_RUN_FOLDER_H_
#define TWINPATH_RUNNER_RUN_FOLDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/file.h"
#include "twinpath/v1/observation.pb.h"

namespace twinpath::runner {

class RunFolder {
 public:
  // Makes home and cache in `path`, which must exist and be empty unless
  // `may_hold_files`, and links `artifact_directory`'s top-level names ("" =
  // none) into home.
  static absl::StatusOr<RunFolder> Make(const std::string& path,
                                        const std::string& artifact_directory,
                                        bool may_hold_files);

  const std::string& home() const { return home_; }
  const std::string& cache() const { return cache_; }
  const std::string& driver_log() const { return driver_log_; }

  // What the cache folder holds now. Not observed if the program removed it.
  v1::CacheEvidence CacheEvidenceNow() const;
  // What the driver wrote, first and last `limit` bytes.
  v1::CapturedOutput DriverLogNow(uint64_t limit) const;

 private:
  RunFolder() = default;
  std::string home_;
  std::string cache_;
  std::string driver_log_;
  // Opened before the program starts, so that it cannot put others there.
  UniqueFd folder_fd_;
  UniqueFd cache_fd_;
};

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_RUN_FOLDER_H_
