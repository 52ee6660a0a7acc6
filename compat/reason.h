// Reasons as messages: makes a v1::Reason from the table of base/reason.h and
// prints it. Pure functions; thread-safe.

#ifndef TWINPATH_COMPAT_REASON_H_
#define TWINPATH_COMPAT_REASON_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "twinpath/v1/common.pb.h"

namespace twinpath::compat {

// Makes a reason. `code` must stand in the table (aborts otherwise: a bug).
v1::Reason MakeReason(absl::string_view code, absl::string_view detail,
                      absl::string_view fix = "", uint32_t cuda_error = 0);

// Severity of the reason's code; ERROR for a code this version does not know.
v1::Severity SeverityOf(const v1::Reason& reason);

// "TP204 ptx-newer-than-driver: detail" with foreign bytes made printable.
std::string DescribeReason(const v1::Reason& reason);

// The fix of this case, or the code's general remedy.
std::string FixOf(const v1::Reason& reason);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_REASON_H_
