// Which of a report's problems mean that something was not read. The others are
// findings about what was read: nothing is missing from the report for them.

#ifndef TWINPATH_BASE_UNREAD_H_
#define TWINPATH_BASE_UNREAD_H_

#include "absl/strings/string_view.h"

namespace twinpath {

// Whether a problem with this code leaves something of the file unread, so that
// what the report lacks may still be in the file. Unknown codes do.
inline bool LeavesUnread(absl::string_view code) {
  for (absl::string_view finding : {"TP234", "TP236", "TP237", "TP238", "TP239",
                                    "TP240", "TP241", "TP242"}) {
    if (code == finding) return false;
  }
  return true;
}

// The first of `problems` (v1::Reason) that leaves something unread; nullptr if
// none does.
template <typename Problems>
auto FirstUnread(const Problems& problems) -> decltype(&*problems.begin()) {
  for (const auto& problem : problems) {
    if (LeavesUnread(problem.code())) return &problem;
  }
  return nullptr;
}

}  // namespace twinpath

#endif  // TWINPATH_BASE_UNREAD_H_
