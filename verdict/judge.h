// From evidence and policy to a verdict: for a cell, a host, a sweep.
//
// Precedence everywhere: fail, then inconclusive, then pass. Pass needs
// positive evidence for everything required; a missing, skipped, unknown,
// simulated or unspecified piece never passes. Pure functions without I/O; safe
// to call from any thread.

#ifndef TWINPATH_VERDICT_JUDGE_H_
#define TWINPATH_VERDICT_JUDGE_H_

#include "base/exit_code.h"
#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/report.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::verdict {

// Judges one cell by its own result and predictions.
//   FAIL          a required path was seen to fail; a kernel that must launch
//                 was not launched (TP332); or the host is simulated,
//                 answered, and the model predicts a failure of a required path
//                 (TP421): useful, and never a false green.
//   INCONCLUSIVE  no complete result; a required path not proven; a prediction
//                 contradicted by what was observed (TP401); a trace that the
//                 entry needs is missing (TP330); simulated (TP414).
//   PASS          every required path proven (TP420). With no required path at
//                 least one optional path must be proven.
// A failed optional path and every other warning is listed; with policy.strict
// it makes FAIL. The verdict's statement stays empty.
v1::Verdict JudgeCell(const v1::Cell& cell, const v1::Entry& entry,
                      const v1::Policy& policy);

// Judges a whole sweep from sweep.spec, cells and state: fills the verdict of
// each cell, hosts, findings (grouped), missing_hosts (names of hosts without
// any cell are kept) and the verdict with its exact statement. Idempotent.
// Set state and end_time first: a sweep that is RUNNING or of unspecified state
// never passes, and its missing_hosts are left alone. `report` is the report of
// the sweep's artifact.
void JudgeSweep(v1::Sweep& sweep, const v1::ArtifactReport& report);

// The rule for `path`; UNSPECIFIED counts as REQUIRED.
v1::PathRule RuleFor(const v1::Policy& policy, v1::Path path);

// The process exit code for a verdict (docs/exit-codes.md): PASS 0, FAIL 1,
// INCONCLUSIVE, STALE and unspecified 3; 4 where the deadline came and no host
// had answered.
ExitCode ExitCodeOf(const v1::Verdict& verdict);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_JUDGE_H_
