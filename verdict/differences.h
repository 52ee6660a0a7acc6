// Where the results of a cell differ, in words and numbers, for people who look
// at one cell. Unlike the details of reasons this holds what programs printed.
// Pure functions; thread-safe.

#ifndef TWINPATH_VERDICT_DIFFERENCES_H_
#define TWINPATH_VERDICT_DIFFERENCES_H_

#include <string>
#include <vector>

#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/sweep.pb.h"
#include "verdict/numbers.h"

namespace twinpath::verdict {

struct Difference {
  // What is compared: "native", "ptx-jit".
  std::string seen;
  // With what: "what is expected", "native", "the reference".
  std::string against;
  // "standard output", "file out.txt".
  std::string part;
  WordDifference place;
};

// The first difference of each part: of each path from what the entry expects
// byte for byte or by numbers, of ptx-jit from native, of each path from the
// reference. Those whose place is in what was kept.
std::vector<Difference> DifferencesOf(const v1::Entry& entry,
                                      const v1::CellResult& result);

// The first difference of each part of the native results of two cells of one
// entry; `against` is left empty.
std::vector<Difference> DifferencesBetween(const v1::Entry& entry,
                                           const v1::CellResult& expected,
                                           const v1::CellResult& seen);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_DIFFERENCES_H_
