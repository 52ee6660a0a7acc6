// Compares things that should agree: prediction and observation (1), the two
// paths on one host (2), two hosts of one class (3), the files on a host and
// those dispatched (5). docs/verdict.md has the whole table.
//
// Pure functions without I/O; safe to call from any thread.

#ifndef TWINPATH_VERDICT_COMPARE_H_
#define TWINPATH_VERDICT_COMPARE_H_

#include <vector>

#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::verdict {

// All mismatches of a sweep's decided cells, grouped. Only complete results of
// real hosts are compared. Cells with class_digest unset are not compared with
// other hosts.
std::vector<v1::Finding> CompareCells(const v1::Sweep& sweep);

// Mismatch 1 for one cell, TP401 each: what was observed that the prediction
// excludes. UNKNOWN excludes nothing, an inconclusive run contradicts nothing,
// and a program that fails without a CUDA error about loading says nothing
// about the model.
std::vector<v1::Reason> Contradictions(const v1::Cell& cell,
                                       const v1::Entry& entry);

// Mismatch 2 for one cell, TP402: native and ptx-jit both ended as expected and
// printed different output. Severity: ERROR where both paths are required and
// the output is not known to vary by itself; WARNING else, which is where the
// release declares a rule that both outputs meet, or where two machine code
// runs (native, and plain without a compiled file) already differ. Empty: no
// difference.
std::vector<v1::Finding> ComparePaths(const v1::Cell& cell,
                                      const v1::Entry& entry,
                                      const v1::Policy& policy);

// Mismatch 5 for one cell. TP405: a file on the host has another digest than
// the manifest, or is not in it. TP418: the host stated no digest for a file.
std::vector<v1::Reason> CompareStaged(const v1::Cell& cell,
                                      const v1::Artifact& artifact);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_COMPARE_H_
