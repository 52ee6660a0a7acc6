// Judges what a run printed against what its entry expects.

#ifndef TWINPATH_VERDICT_OUTPUT_H_
#define TWINPATH_VERDICT_OUTPUT_H_

#include <string>

#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/release.pb.h"

namespace twinpath::verdict {

enum class OutputMatch {
  // The entry expects nothing of its output.
  kNotJudged,
  kMatches,
  kDiffers,
  // Cannot be told: not recorded, cut where it matters, or an expression that
  // does not compile.
  kUnknown,
};

struct OutputJudgement {
  OutputMatch match = OutputMatch::kUnknown;
  // One clause for people; empty for kNotJudged and kMatches. Holds no output.
  std::string why;
};

// Judges standard output of `observation`. An exact rule is judged by digest
// where output was cut; contains and pattern are looked for in each kept piece,
// and only output kept in full can be said not to hold them.
OutputJudgement JudgeOutput(const v1::Entry& entry,
                            const v1::Observation& observation);

// Whether bytes are missing between head and tail.
bool IsCut(const v1::CapturedOutput& output);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_OUTPUT_H_
