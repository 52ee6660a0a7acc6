// What a CUDA error number says about compatibility: the one place where
// diagnosis and verdicts look it up. Names, texts, causes and actions are words
// and stand in tables/errors.yaml; a test keeps both sets of numbers equal.
// Pure; thread-safe.

#ifndef TWINPATH_COMPAT_CUDA_ERROR_H_
#define TWINPATH_COMPAT_CUDA_ERROR_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace twinpath::compat {

enum class ErrorKind {
  // A number the table does not have.
  kUnknown,
  // Code for the GPU was not there or not accepted: load, link, JIT, look-up.
  kImage,
  // The host's set-up: driver, its libraries, visibility, MPS.
  kSetup,
  // A passing state of host or device: memory, busy, ECC, NVLink, fabric.
  kState,
  // A kernel had started.
  kExecution,
  // The program's own call was wrong, or the feature is not there.
  kCall,
  // Not an error: work is not finished, or what was asked for is so already.
  kNone,
};

ErrorKind KindOfError(uint32_t error);

// Whether the error decides what a run's failure means, before others that may
// follow from it: images and the host's set-up.
bool IsDecisiveError(uint32_t error);

// Whether a program may well expect this failure of a load and go on: image
// errors of relocatable code that cannot be linked.
bool IsMildImageError(uint32_t error);

// Whether two numbers are the same fault: equal, or 98 and 209, which are the
// runtime's and the driver's word for a kernel without image.
bool IsSameError(uint32_t a, uint32_t b);

// Driver calls that start a kernel, bring code in, or ask for a kernel.
bool IsLaunchCall(absl::string_view call);
bool IsLoadCall(absl::string_view call);
// Calls whose failure is how programs ask whether something exists.
bool IsLookupCall(absl::string_view call);

// Whether a line "Returning E (..) from CALL" of a driver log stands in the
// logs of healthy runs as well: 201 at start, 600, look-ups.
bool IsHarmlessLine(uint32_t error, absl::string_view call);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_CUDA_ERROR_H_
