// The entry of kind IMAGES in the child that runs entries: the inspector (a
// confined child) says what lies in the artifact's files, twinpath-load gives
// it to the driver, started and confined like a program of the artifact, and
// what that wrote is read back as hostile input. Predictions are not made here.

#ifndef TWINPATH_RUNNER_LOAD_RUN_H_
#define TWINPATH_RUNNER_LOAD_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runner/load_list.h"
#include "runner/program_runner.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/report.pb.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {

// Most time such an entry takes: its timeout, or 15 minutes.
absl::Duration ImagesTimeLimit(const v1::Entry& entry);

// Runs the entry on the first GPU of the request: the files that the entry
// covers, or all where it names none; jit_timeout is the limit of one image
// that compiles. `run` starts twinpath-load. The answer has an observation,
// whose path says nothing, and every image.
v1::RunResponse RunImagesEntry(const v1::RunRequest& request,
                               const ProgramRunner& run);

// The image of a list: where it stands in the reports.
struct ListedImage {
  const v1::FileReport* file = nullptr;
  const v1::Fatbin* fatbin = nullptr;
  const v1::Image* image = nullptr;
  // As ImageLoad.image counts.
  uint32_t number = 0;
};

// In the order of LoadList::Add over `reports`.
std::vector<ListedImage> ImagesOf(const std::vector<v1::FileReport>& reports);

// Reads what twinpath-load wrote; what is no such line is passed over. Every
// image is in the report, those without an answer as not tried.
v1::ImageLoadReport ReadLoadResult(absl::string_view text,
                                   const std::vector<ListedImage>& images);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_LOAD_RUN_H_
