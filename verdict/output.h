// Judges what a run printed and the files it left against what its entry
// expects. Pure functions; thread-safe.

#ifndef TWINPATH_VERDICT_OUTPUT_H_
#define TWINPATH_VERDICT_OUTPUT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/release.pb.h"

namespace twinpath::verdict {

enum class OutputMatch {
  // The entry expects nothing.
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
  // The reason code for it: TP303, or TP338 for a file that is not there.
  absl::string_view code = "TP303";
};

// Judges everything the entry expects of the run's results: standard output,
// then each file. The worst decides: what differs, then what cannot be told.
// Files that only have to be there match nothing by being there: without any
// rule the judgement is kNotJudged.
OutputJudgement JudgeOutput(const v1::Entry& entry,
                            const v1::Observation& observation);

// Judges standard output alone. An exact rule is judged by digest where output
// was cut; contains and pattern are looked for in each kept piece, and only
// output kept in full can be said not to hold them; numbers of cut output can
// be said to differ and never to agree.
OutputJudgement JudgeStandardOutput(const v1::Entry& entry,
                                    const v1::Observation& observation);

// Judges one file of the entry by what the run left of it.
OutputJudgement JudgeFile(const v1::ExpectedFile& expected,
                          const v1::Observation& observation);

// The file `name` of an observation; nullptr if it has none.
const v1::OutputFile* FindFile(const v1::Observation& observation,
                               absl::string_view name);

// Whether bytes are missing between head and tail.
bool IsCut(const v1::CapturedOutput& output);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_OUTPUT_H_
