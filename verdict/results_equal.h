// Whether two complete results of one cell say the same. A second result of a
// cell is kept and compared; a difference is the finding TP410
// unstable-result. Pure; safe to call from any thread.

#ifndef TWINPATH_VERDICT_RESULTS_EQUAL_H_
#define TWINPATH_VERDICT_RESULTS_EQUAL_H_

#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/release.pb.h"

namespace twinpath::verdict {

// Returns whether `a` and `b` agree: the same paths with the same ending, exit
// code, signal, decisive CUDA error, standard output and files, and the same
// answer to whether anything was compiled. Ids, times, durations, standard
// error, other traces and paths that did not run in either (skipped,
// interrupted) do not count. Output and files are compared as `entry` states
// (run_compare.h); where it states nothing, and has a rule that lets the bytes
// vary, meeting that rule is compared in their place, and parts that vary
// between runs of the same code in both results are left out. What cannot be
// compared is not equal. Images: how many of a file, kind and target ended how.
// Toolchains: a toolkit and GPU, whether it holds and the reasons of its steps.
// Where `entry` needs a trace: what its verdict goes by, that is whether
// kernels were launched or refused and which of those that must launch.
bool ResultsEqual(const v1::CellResult& a, const v1::CellResult& b,
                  const v1::Entry* entry = nullptr);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_RESULTS_EQUAL_H_
