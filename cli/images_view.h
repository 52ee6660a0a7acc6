// What an entry of kind IMAGES showed on one GPU: a row for images alike in
// file, target, prediction and answer, then those that need a look, one by one.
// Everything shown stands in the ImageLoadReport, so the JSON says the same.
// Pure functions; thread-safe.

#ifndef TWINPATH_CLI_IMAGES_VIEW_H_
#define TWINPATH_CLI_IMAGES_VIEW_H_

#include <string>

#include "cli/cell_view.h"
#include "cli/view_options.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

std::string RenderImageLoads(const v1::ImageLoadReport& loads,
                             const ViewOptions& options);

// The cell of a sweep's matrix: "images 448 of 448", or what is wrong.
CellView ViewImagesCell(const v1::Cell& cell);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_IMAGES_VIEW_H_
