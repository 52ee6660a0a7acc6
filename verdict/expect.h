// Mismatch 7: what a release declares about its artifact, against what the
// files hold. Pure functions without I/O; safe to call from any thread.

#ifndef TWINPATH_VERDICT_EXPECT_H_
#define TWINPATH_VERDICT_EXPECT_H_

#include <vector>

#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/report.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::verdict {

// Everything in `expectation` that `report` does not show: TP407 a declared
// target, TP408 a kernel or one of its targets, TP409 a PTX ISA outside the
// range. Where the report is incomplete (a file that could not be read to its
// end, kernels not listed) an absent thing may be in the unread part: the
// finding is then TP232. All are errors: none lets a sweep pass.
//
// Targets must be present exactly, suffix included. Relocatable images count
// when the host code registers them (the driver links them at load); link
// leftovers never do. A pattern must match at least one kernel, and every
// kernel it matches must have every target named.
std::vector<v1::Finding> CheckExpectation(const v1::Expectation& expectation,
                                          const v1::ArtifactReport& report);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_EXPECT_H_
