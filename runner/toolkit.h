// CUDA toolkits on this host: each nvcc's version and the targets it knows.

#ifndef TWINPATH_RUNNER_TOOLKIT_H_
#define TWINPATH_RUNNER_TOOLKIT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::runner {

// Folders that hold bin/nvcc: from PATH, CUDA_HOME and CUDA_PATH of
// `environment`, and `root`/usr/local/cuda*. Links are resolved, each folder
// appears once.
std::vector<std::string> FindToolkits(
    const std::string& root, const std::vector<std::string>& environment);

// Asks the nvcc of one folder, each question in a child of its own with
// `deadline`.
v1::Toolkit AskToolkit(const std::string& folder, absl::Duration deadline);

// "13.0.88" from the text of `nvcc --version`; "" if it is not there.
std::string NvccVersionOf(absl::string_view text);
// Targets from the text of `nvcc --list-gpu-code`.
std::vector<v1::Target> TargetsOf(absl::string_view text);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_TOOLKIT_H_
