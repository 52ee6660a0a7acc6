// The sweep as people read it: the matrix, the reasons and fixes of what is not
// green, findings, missing hosts and the gate's word. Everything shown stands
// in the Sweep message, so the JSON says the same.
//
// Pure functions; thread-safe.

#ifndef TWINPATH_CLI_SWEEP_VIEW_H_
#define TWINPATH_CLI_SWEEP_VIEW_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cli/console.h"
#include "cli/view_options.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

// Reasons and fixes of the cells that did not pass, equal ones once.
std::string RenderReasons(const v1::Sweep& sweep, const ViewOptions& options);

// Findings that are not a cell's own reasons, and missing hosts.
std::string RenderFindings(const v1::Sweep& sweep, const ViewOptions& options);

// The word, the statement, the decisive reasons.
std::string RenderVerdict(const v1::Sweep& sweep, const ViewOptions& options);

// The matrix and all of the above with a head line.
std::string RenderSweep(const v1::Sweep& sweep, const ViewOptions& options);

// "pass", "fail", "inconclusive", "stale", "not judged".
absl::string_view VerdictWord(v1::VerdictKind kind);
Style VerdictStyle(v1::VerdictKind kind);
// "running", "done", "deadline", "cancelled".
absl::string_view StateWord(v1::SweepState state);

// "cells 12/54 pass 3 fail 4 other 5" for progress.
std::string ProgressLine(const v1::Sweep& sweep);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_SWEEP_VIEW_H_
