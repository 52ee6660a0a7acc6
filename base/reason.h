// Reason codes: the one source of truth for code, name, group, severity, text
// and remedy. Codes are stable: a code is never reused and never changes its
// meaning. docs/reasons/ has one page each, checked against this table.

#ifndef TWINPATH_BASE_REASON_H_
#define TWINPATH_BASE_REASON_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace twinpath {

enum class ReasonGroup {
  kHost,
  // What a file or package is.
  kArtifact,
  // What it will do on a GPU of a host.
  kPrediction,
  kRun,
  kFleet,
  kEvidence,
};
enum class ReasonSeverity { kNote, kWarning, kError };

struct ReasonInfo {
  // "TP204".
  absl::string_view code;
  // "ptx-newer-than-driver".
  absl::string_view name;
  ReasonGroup group;
  ReasonSeverity severity;
  // One sentence: what it means.
  absl::string_view text;
  // One sentence: what to do.
  absl::string_view remedy;
};

// All codes, sorted.
absl::Span<const ReasonInfo> AllReasons();

// The row for a code ("TP204") or a name ("ptx-newer-than-driver"); nullptr if
// there is none. Case does not matter.
const ReasonInfo* FindReason(absl::string_view code_or_name);

// "note", "warning", "error".
absl::string_view SeverityName(ReasonSeverity severity);
// "host", "artifact", "prediction", "run", "fleet", "evidence".
absl::string_view GroupName(ReasonGroup group);

}  // namespace twinpath

#endif  // TWINPATH_BASE_REASON_H_
