// The LZ4 block format, as far as liblz4 does not check it. Pure.

#ifndef TWINPATH_INSPECT_LZ4_BLOCK_H_
#define TWINPATH_INSPECT_LZ4_BLOCK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace twinpath::inspect {

// DATA_LOSS where a match of `stored` has offset 0, which the format calls
// invalid: the library copies for it what memory held before. A block that is
// cut is left to the library.
absl::Status CheckLz4Offsets(absl::string_view stored);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_LZ4_BLOCK_H_
