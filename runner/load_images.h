// All images of a list given to the driver: each final image alone, as it lies
// in its file; relocatable ones through the driver's linker, because only the
// link is a test of them (docs/gpu-runs.md): their variables get their places
// there, and names are found in other pieces.
//
// The pieces of one file and target are linked together first, the best of each
// fatbin; then with pieces of the other kind (PTX, machine code) from fatbins
// that have none of this kind; then each alone. What is refused alone for a
// missing name is completed by pieces that are not in the file.

#ifndef TWINPATH_RUNNER_LOAD_IMAGES_H_
#define TWINPATH_RUNNER_LOAD_IMAGES_H_

#include <functional>

#include "runner/load_list.h"
#include "runner/load_workers.h"

namespace twinpath::runner {

// `answered` is told each image's answer once, in any order, `id` its position
// in the list, from one thread at a time. Images without one found no time.
// `options.answered` and `most_image_bytes` are set here.
LoadOutcome LoadImages(const LoadList& list, LoadWorkers options,
                       const std::function<void(const LoadAnswer&)>& answered);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_LOAD_IMAGES_H_
