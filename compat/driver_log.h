// The driver's log (CUDA_LOG_FILE): the errors it records, and which of several
// errors decides. The log is foreign: any bytes, any length.
//
// Records, not lines: the driver cuts a long record and then writes the next
// one behind it without a line feed (seen on R580 with a long kernel name).
//
// Pure functions; thread-safe. A reader is not.

#ifndef TWINPATH_COMPAT_DRIVER_LOG_H_
#define TWINPATH_COMPAT_DRIVER_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

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

// Reads a log piece by piece and keeps the kernel that a record names for the
// error behind it.
class DriverLogReader {
 public:
  // Errors of the next piece, at most `most`, in the order they were written.
  // Harmless ones (201 at start, symbol look-ups) are left out.
  std::vector<CudaErrorSeen> Read(absl::string_view piece, size_t most);

 private:
  std::string kernel_;
};

// Errors of a whole log, the last 1000.
std::vector<CudaErrorSeen> ErrorsInDriverLog(absl::string_view log);

// The error that decides: the last one of an image or of the host's set-up;
// failing that, the first that a kernel died of; failing that, the last one.
// nullptr for an empty list.
const CudaErrorSeen* DecisiveError(const std::vector<CudaErrorSeen>& errors);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_DRIVER_LOG_H_
