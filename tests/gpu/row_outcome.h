// One word for what a run of the check program did, as GPU tables print it:
// "PASS", "PASS jit" (plain run whose cache folder was filled), a CUDA error
// number, "silent 209" (success claimed, driver log says otherwise), "value
// 42", "exit 3", "timed_out".

#ifndef TWINPATH_TESTS_GPU_ROW_OUTCOME_H_
#define TWINPATH_TESTS_GPU_ROW_OUTCOME_H_

#include <string>

#include "absl/strings/string_view.h"
#include "twinpath/v1/observation.pb.h"

namespace twinpath::gpu {

std::string Outcome(const v1::Observation& run);

// The CUDA error of a run: from standard error, else from the driver's log. 0:
// none.
uint32_t CudaErrorOf(const v1::Observation& run);

// "\"text\"" for JSON, foreign bytes made printable.
std::string JsonQuoted(absl::string_view text);

}  // namespace twinpath::gpu

#endif  // TWINPATH_TESTS_GPU_ROW_OUTCOME_H_
