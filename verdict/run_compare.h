// Compares what two runs of an entry printed and the files they left, and one
// run with the reference its release holds, in the way the entry states: byte
// for byte, or word by word with numbers within a tolerance. Equal bytes are
// equal in any case. Pure functions; thread-safe.

#ifndef TWINPATH_VERDICT_RUN_COMPARE_H_
#define TWINPATH_VERDICT_RUN_COMPARE_H_

#include <optional>
#include <string>
#include <vector>

#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/release.pb.h"
#include "verdict/numbers.h"

namespace twinpath::verdict {

// PartDifference::part of standard output; others index expected_files.
inline constexpr int kStandardOutput = -1;

// One part of two results that is not known to be equal.
struct PartDifference {
  int part = kStandardOutput;
  // Known to differ; else it cannot be told, and `why` says why.
  bool differs = false;
  // For people, without anything of a host: "standard output differs",
  // "file out.txt was cut, so its numbers cannot be compared".
  std::string why;
  // Where, if the texts were kept so far.
  std::optional<WordDifference> place;
  // Byte for byte they differ, and with every number left out they would not.
  bool only_numbers = false;
};

// Whether results of the entry are compared at all.
bool IsCompared(const v1::Entry& entry);

// Whether the entry itself says how it is compared. Then a difference counts
// although both results meet the rules of the entry, or vary by themselves.
bool StatesComparison(const v1::Entry& entry);

// Whether a rule of the entry judges the part by itself.
bool HasRule(const v1::Entry& entry, int part);

// The parts that differ or cannot be compared: standard output first, then the
// files in the entry's order. Numbers of `seen` are judged against `expected`.
// Empty for an entry that is not compared. A file neither run has for the same
// reason is no difference; output or content that was not recorded is not
// empty, and cannot be compared.
std::vector<PartDifference> CompareRuns(const v1::Entry& entry,
                                        const v1::Observation& expected,
                                        const v1::Observation& seen);

// The same for one part alone: none or one.
std::vector<PartDifference> CompareRunsIn(const v1::Entry& entry, int part,
                                          const v1::Observation& expected,
                                          const v1::Observation& seen);

// The same against the entry's reference. Files the reference does not hold
// cannot be compared. Empty for an entry without reference.
std::vector<PartDifference> CompareWithReference(const v1::Entry& entry,
                                                 const v1::Observation& seen);

// Whether any part is known to differ.
bool AnyDiffers(const std::vector<PartDifference>& parts);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_RUN_COMPARE_H_
