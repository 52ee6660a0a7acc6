// A cell with its paths evaluated once, so that judging and comparing do not
// each do it again. Internal to verdict/.

#ifndef TWINPATH_VERDICT_EVALUATED_H_
#define TWINPATH_VERDICT_EVALUATED_H_

#include <array>
#include <vector>

#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/sweep.pb.h"
#include "verdict/path_status.h"
#include "verdict/repeats.h"

namespace twinpath::verdict {

inline constexpr std::array<v1::Path, 3> kPaths = {
    v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN};

// Refers to a cell and an entry that outlive it.
struct EvaluatedCell {
  const v1::Cell* cell = nullptr;
  // nullptr: the release has no entry of that name.
  const v1::Entry* entry = nullptr;
  // The host or the result is simulated.
  bool simulated = false;
  // A complete result is there.
  bool answered = false;
  // In the order of kPaths; meaningful when answered and entry is set.
  std::array<PathEvaluation, 3> paths;
  // Of an answer of an entry that does not state how it is compared; else
  // empty.
  Repeats repeats;

  const PathEvaluation& At(v1::Path path) const;
  // Whether this cell is evidence: a complete result of a real host.
  bool IsEvidence() const { return answered && !simulated && entry != nullptr; }
};

EvaluatedCell EvaluateCell(const v1::Cell& cell, const v1::Entry* entry);

// All cells of a sweep, each with its entry of the sweep's release.
std::vector<EvaluatedCell> EvaluateCells(const v1::Sweep& sweep);

// The pieces of CompareCells, on evaluated cells (see compare.h). Findings are
// not grouped yet: each names its own cells.
std::vector<v1::Reason> ContradictionsOf(const EvaluatedCell& cell);
std::vector<v1::Finding> ComparePathsOf(const EvaluatedCell& cell,
                                        const v1::Policy& policy);
std::vector<v1::Finding> CompareClasses(
    const std::vector<EvaluatedCell>& cells);

// A finding attached to one cell.
v1::Finding CellFinding(const v1::Cell& cell, v1::Reason reason,
                        v1::Severity severity, bool mismatch);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_EVALUATED_H_
