// One thing to give to the driver, and how it gets its bytes out of a file. A
// job is a line of text, so that the processes that pass it on agree by
// reading.

#ifndef TWINPATH_RUNNER_LOAD_JOB_H_
#define TWINPATH_RUNNER_LOAD_JOB_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::runner {

struct LoadJob {
  enum class Form {
    // A whole fatbin, as it lies in the file.
    kFatbin,
    // One entry, header and payload as they lie in the file, in a fatbin of its
    // own.
    kEntry,
    // The decoded payload of an entry, without a fatbin.
    kPayload,
    // A bare image, decoded.
    kBare,
  };
  uint32_t id = 0;
  Form form = Form::kEntry;
  // Place of the fatbin, the entry's header or the bare image.
  uint64_t offset = 0;
  // Bytes there (of an entry: those of its payload).
  uint64_t bytes = 0;
  uint64_t expanded = 0;
  v1::Compression compression = v1::COMPRESSION_NONE;
  // PTX; else machine code or something unknown.
  bool ptx = false;
  // Target number; 0: none.
  uint32_t number = 0;

  // Ends with a line feed.
  std::string Line() const;
  static absl::StatusOr<LoadJob> Parse(absl::string_view line);
};

// The job of an image of a file's report, entry or bare as it lies there.
LoadJob JobOf(const v1::Fatbin& fatbin, const v1::Image& image);

// The bytes to load, with a NUL behind them (PTX is text). RESOURCE_EXHAUSTED
// above 1 GiB, before and after decoding.
absl::StatusOr<std::string> BytesOf(int fd, const LoadJob& job);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_LOAD_JOB_H_
