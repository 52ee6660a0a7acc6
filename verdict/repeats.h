// What runs of the same code on one host say about how the results of an entry
// vary by themselves: a time or an address that is printed is no difference of
// the code. Internal to verdict/. Pure functions; thread-safe.

#ifndef TWINPATH_VERDICT_REPEATS_H_
#define TWINPATH_VERDICT_REPEATS_H_

#include <set>
#include <utility>
#include <vector>

#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/release.pb.h"

namespace twinpath::verdict {

// The run of `path` that is neither a proof nor traced, the last of several;
// nullptr if there is none.
const v1::Observation* MainRun(const v1::CellResult& result, v1::Path path);

// Two runs of the same code that exited with the same code.
using RunPair = std::pair<const v1::Observation*, const v1::Observation*>;

// Refers to a result that outlives it.
struct Repeats {
  // The native run and each repeat of it, also a plain one that compiled
  // nothing; the ptx-jit run and each repeat. Traced runs tell nothing: a
  // tracer may change what a program prints.
  std::vector<RunPair> native;
  std::vector<RunPair> forced;
  // Parts (PartDifference::part) that a pair was compared in, in the way the
  // entry states, and those of them that differed in one. Of other parts it is
  // not known whether they vary.
  std::set<int> compared;
  std::set<int> varying;
};

Repeats RepeatsOf(const v1::Entry& entry, const v1::CellResult& result);

// What a part that differs byte for byte between two runs of different code
// says about the code.
enum class Blame {
  // Runs of the same code agree in it, so the code makes the difference.
  kCode,
  // It differs only where runs of the same code differ too, or in times.
  kRepeats,
  // It varies by itself, and differs elsewhere as well.
  kBeyondRepeats,
  // It varies by itself, and its words cannot be held against each other: not
  // all was kept, or runs of the same code print more or fewer of them.
  kUnaligned,
  // Runs of the same code agree in it, and it differs only in numbers that are
  // said to be times or rates: compiling takes time.
  kTimes,
  // No two runs of the same code were compared in it, or it varies and no two
  // of the native code were.
  kNoRepeat,
};

// `repeats` of the result that `native` and `forced` are of. What varies is
// what native runs show, where there are any: that forced ones vary where
// native ones do not may be the code's.
Blame BlameFor(const v1::Entry& entry, const Repeats& repeats, int part,
               const v1::Observation& native, const v1::Observation& forced);

// Whether a part that differs between runs `a` and `b` of one path, of two
// results, does so only where runs of the same code of one result differ. True
// as well where that cannot be seen: not all was kept, or each run of the code
// has more or fewer words.
bool VariesAsRepeatsDo(const v1::Entry& entry, int part,
                       const Repeats& repeats_a, const v1::Observation& a,
                       const Repeats& repeats_b, const v1::Observation& b);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_REPEATS_H_
