// What twinpath-load is to do: the images of some files, with where they lie.
// Made from the inspector's report, passed as lines of text in a file.

#ifndef TWINPATH_RUNNER_LOAD_LIST_H_
#define TWINPATH_RUNNER_LOAD_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runner/load_job.h"
#include "twinpath/v1/common.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::runner {

// Most images of one list.
inline constexpr size_t kMostImages = 1'000'000;

struct LoadImage {
  // Position in LoadList::files.
  uint32_t file = 0;
  // Index in the file's report.
  uint32_t fatbin = 0;
  bool relocatable = false;
  v1::TargetSuffix suffix = v1::TARGET_SUFFIX_NONE;
  // Its id is the image's position in LoadList::images.
  LoadJob job;

  // Whether a device of this compute capability (as a number) runs the machine
  // code or compiles the PTX, by the rules of the CUDA Programming Guide,
  // appendix on compute capabilities. Only what costs much is decided by it:
  // everything is tried.
  bool Fits(uint32_t device) const;
};

struct LoadList {
  // Time in all.
  absl::Duration time = absl::Minutes(15);
  int workers = 4;
  // Device memory that one image may need.
  uint64_t memory_bytes = 0;
  // For one image that compiles.
  absl::Duration compile_limit = absl::Minutes(5);
  std::vector<std::string> files;
  std::vector<LoadImage> images;

  // Adds the images of a file; those of damaged fatbins are left out, since
  // what lies there is a guess.
  void Add(const std::string& path, const v1::FileReport& report);

  std::string Text() const;
  static absl::StatusOr<LoadList> Parse(absl::string_view text);
};

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_LOAD_LIST_H_
