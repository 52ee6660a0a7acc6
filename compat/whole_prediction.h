// What files do together on one GPU and path, from what each of them does: an
// artifact, or the files of an entry.

#ifndef TWINPATH_COMPAT_WHOLE_PREDICTION_H_
#define TWINPATH_COMPAT_WHOLE_PREDICTION_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "compat/prepared.h"
#include "twinpath/v1/prediction.pb.h"

namespace twinpath::compat::internal {

// Puts files together to a whole: the worst member speaks and is named; the
// others' errors and warnings follow. `fatbins`: how many count in each file.
// `path` is a
// place in kPaths. `first_decides`: the first one is the program, without which
// nothing starts.
v1::PathPrediction Whole(const std::vector<v1::FilePrediction>& files,
                         const std::vector<size_t>& fatbins, bool first_decides,
                         size_t path);

// Adds to a ptx-jit prediction that loads NVIDIA's libraries that the files
// need and that are not among them: they come from the host, and what they do
// under forced compilation is not known here.
void AddVendorLibraries(const std::vector<const FileView*>& files,
                        v1::PathPrediction& path);

// Adds the needed kernels that no file holds: those not among `found`.
void AddMissingKernels(const std::vector<const FileView*>& files,
                       const std::vector<std::string>& needed,
                       const absl::flat_hash_set<std::string>& found,
                       v1::PathPrediction& path);

}  // namespace twinpath::compat::internal

#endif  // TWINPATH_COMPAT_WHOLE_PREDICTION_H_
