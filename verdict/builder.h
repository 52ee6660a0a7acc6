// Collects reasons by what they do to a verdict. Internal to verdict/.

#ifndef TWINPATH_VERDICT_BUILDER_H_
#define TWINPATH_VERDICT_BUILDER_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::verdict {

class VerdictBuilder {
 public:
  // The verdict is FAIL.
  void Fail(v1::Reason reason);
  // No pass without what the reason misses.
  void Inconclusive(v1::Reason reason);
  // Listed; FAIL under a strict policy.
  void Warn(v1::Reason reason);
  // Listed; changes nothing.
  void Note(v1::Reason reason);
  // Something required was shown. Without a call of this there is no pass.
  void Proven() { proven_ = true; }

  // The verdict, reasons in the order fail, inconclusive, warnings, notes, each
  // once. A pass begins with TP420. FAIL before INCONCLUSIVE before PASS; a
  // builder that nothing was proven to is INCONCLUSIVE with TP418.
  v1::Verdict Build(bool strict, absl::string_view pass_detail) const;

  // The reasons as findings on one cell, with the severity they had here: a
  // failure ERROR, a warning WARNING, a missing piece what its code says. Notes
  // are left out.
  std::vector<v1::Finding> Findings(const v1::Cell& cell) const;

 private:
  std::vector<v1::Reason> fail_;
  std::vector<v1::Reason> inconclusive_;
  std::vector<v1::Reason> warn_;
  std::vector<v1::Reason> note_;
  bool proven_ = false;
};

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_BUILDER_H_
