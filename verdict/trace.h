// What traced repeats prove beside the runs they repeat. Their fields are
// reported by the process under test (docs/traces.md): they can take a proof
// away or name whose kernel failed, and prove only what the cell's own runs
// have shown too.
//
// Pure functions; thread-safe.

#ifndef TWINPATH_VERDICT_TRACE_H_
#define TWINPATH_VERDICT_TRACE_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/release.pb.h"
#include "verdict/path_status.h"

namespace twinpath::verdict {

// Whether the entry asks for a trace: by rule, or by kernels that must launch.
bool NeedsTrace(const v1::Entry& entry);

// The traced run of the path, the proof's where there is no other; nullptr:
// none.
const v1::Observation* TracedRun(const v1::CellResult& result, v1::Path path);

// Weighs the traced run of `path` against what `evaluation` says of the path's
// own runs:
//   proven   a refused launch is a failure (TP308); no launch at all is
//            inconclusive (TP308), unless the files bring no device code and
//            the entry's output was checked; on ptx-jit kernels that came from
//            machine code are named (TP334), and where all of them did nothing
//            is proven (TP309); on plain the files whose kernels were compiled
//            by surprise are named (TP314). A traced run that ended in another
//            way proves nothing (TP331).
//   failed   names the file that owns the kernel that was refused (TP333).
void ApplyTrace(const v1::Entry& entry, v1::Path path,
                const v1::CellResult& result,
                const v1::PathPrediction* prediction,
                PathEvaluation& evaluation);

// A claim about a whole cell.
struct TraceClaim {
  // A failure; else inconclusive.
  bool failure = false;
  v1::Reason reason;
};

// What keeps an entry that needs a trace from passing: a trace that is missing,
// did not start or lost records (TP330), ended in another way (TP331), or shows
// that a kernel which must launch did not (TP332). Empty where it needs none.
std::vector<TraceClaim> JudgeNeededTrace(const v1::Entry& entry,
                                         const v1::CellResult& result);

// What the files of a trace are called, equal on hosts whose folders differ. A
// set of the artifact's names and no search for each file: a hostile host may
// send very many of both. Refers to a trace that outlives it; thread-safe.
class TracedNames {
 public:
  explicit TracedNames(const v1::Trace& trace);

  // Whether `file` is a file of the artifact that was opened.
  bool Holds(absl::string_view file) const;

  // "libcublas.so.13" for a path, a name in the artifact as it is.
  std::string Of(const std::string& file) const;

 private:
  absl::flat_hash_set<absl::string_view> names_;
};

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_TRACE_H_
