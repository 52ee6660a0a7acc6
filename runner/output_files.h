// The files an entry names, as its run left them in its working folder. The
// program may have put there what it likes; reading follows no link, opens
// nothing but regular files and is bounded in size and time.

#ifndef TWINPATH_RUNNER_OUTPUT_FILES_H_
#define TWINPATH_RUNNER_OUTPUT_FILES_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {

struct OutputFileLimits {
  // First and last bytes kept of each file.
  uint64_t kept_bytes = 64 << 10;
  // Bytes kept of all files together. Files behind it have their digest alone.
  uint64_t kept_in_all = 512 << 10;
  // A file larger than this is not read: hashing it takes time.
  uint64_t largest_bytes = uint64_t{4} << 30;
  // For all files together.
  absl::Duration time = absl::Seconds(60);
};

// Returns one row for each of the entry's files, in its order. `home_name` is
// the working folder's name in `work_directory`, which the program cannot have
// replaced; what is below it, home itself included, it can have. A row has its
// content, or a problem: "is missing", "is a symbolic link", "is a folder",
// "lies behind a symbolic link"; "could not be read: ..." is none of the
// program's doing.
google::protobuf::RepeatedPtrField<v1::OutputFile> CollectOutputFiles(
    const v1::Entry& entry, const std::string& work_directory,
    const std::string& home_name, const OutputFileLimits& limits = {});

// Fills in the files of a run that was started and whose working folder is
// "home" in its work folder. `kept_bytes` as for its streams.
void AddOutputFiles(const v1::RunRequest& request, uint64_t kept_bytes,
                    v1::Observation& observation);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_OUTPUT_FILES_H_
