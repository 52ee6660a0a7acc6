// Diagnose: from what a run left behind (exit, signal, output, driver log) to
// reasons, the decisive one first. The driver log counts more than the output,
// and the last error in it more than earlier ones; lines that every healthy
// start writes are ignored. Pure functions; thread-safe.

#ifndef TWINPATH_COMPAT_DIAGNOSE_H_
#define TWINPATH_COMPAT_DIAGNOSE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compat/tables.h"
#include "twinpath/v1/observation.pb.h"

namespace twinpath::compat {

// A CUDA error met in a text.
struct CudaErrorSeen {
  uint32_t code = 0;
  // "CUDA_ERROR_NO_BINARY_FOR_GPU" or the text that matched.
  std::string name;
  // Driver call that returned it; empty if the text does not say.
  std::string call;
  // Kernel a line just before it names; empty if none.
  std::string kernel;
};

// Errors a driver log (CUDA_LOG_FILE) records, in the order they were written.
// Harmless ones (201 at start, symbol look-ups) are left out.
std::vector<CudaErrorSeen> ErrorsInDriverLog(absl::string_view log);

// Errors named in a program's output by number, name or error text.
std::vector<CudaErrorSeen> ErrorsInOutput(absl::string_view output,
                                          const Tables& tables);

// The error that decides: the last image, JIT or device error; failing that,
// the last one. nullptr for an empty list.
const CudaErrorSeen* DecisiveError(const std::vector<CudaErrorSeen>& errors);

// Reasons of a run, decisive first. Empty for a run that ended with exit code 0
// and no error. An error in the driver log beside exit code 0 is TP308.
std::vector<v1::Reason> Diagnose(const v1::Observation& observation);
std::vector<v1::Reason> Diagnose(const v1::Observation& observation,
                                 const Tables& tables);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_DIAGNOSE_H_
