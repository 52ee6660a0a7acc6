// The exact statement of a sweep's verdict: this artifact, these entries, these
// conditions, these paths, this time; and what it does not say. A success on
// one driver and device says nothing about another, and the PTX path is a
// compatibility path, not a promise for all drivers. Pure.

#ifndef TWINPATH_VERDICT_STATEMENT_H_
#define TWINPATH_VERDICT_STATEMENT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::verdict {

// Returns the statement for a judged sweep (cell verdicts and the verdict's
// kind are set), as lines of "name: value". Deterministic: equal sweeps give
// equal bytes. Foreign bytes are made printable. Equal cells of one class stand
// in one line, with their hosts named.
std::string StatementOf(const v1::Sweep& sweep);

// "pass", "fail", "inconclusive", "stale", "unspecified".
absl::string_view VerdictName(v1::VerdictKind kind);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_STATEMENT_H_
