// What one file does on one GPU: decisions of its fatbins put together to a
// prediction for the file and its kernels.

#ifndef TWINPATH_COMPAT_FILE_PREDICTION_H_
#define TWINPATH_COMPAT_FILE_PREDICTION_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "compat/host_check.h"
#include "compat/predict.h"
#include "compat/prepared.h"
#include "compat/tables.h"
#include "twinpath/v1/prediction.pb.h"

namespace twinpath::compat::internal {

// Predicts a file. `found_needed` receives the needed kernels that some image
// of this file holds.
v1::FilePrediction PredictFile(const FileView& file, const HostView& host,
                               const Tables& tables,
                               const PredictOptions& options,
                               absl::flat_hash_set<std::string>& found_needed);

}  // namespace twinpath::compat::internal

#endif  // TWINPATH_COMPAT_FILE_PREDICTION_H_
