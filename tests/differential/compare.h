// Compares a report with cuobjdump's listing, image by image in file order. A
// difference is explained by a named rule of the product
// (runner/witness_rules.h), or it is an error. Where the product counts what a
// rule explains, this test looks at each such image by itself:
//
//   outside-sections       copied into a .fatbin file, and compared there.
//   bare-image             put into a fatbin, and compared.
//   relocatable-needs-all  listed with -all, and compared; without it there are
//                          the final images alone.
//   cuobjdump-refuses      The images behind the one at which it ends are
//   copied
//                          and compared; those at which it ends again are
//                          counted here and not compared.

#ifndef TWINPATH_TESTS_DIFFERENTIAL_COMPARE_H_
#define TWINPATH_TESTS_DIFFERENTIAL_COMPARE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::differential {

struct Comparison {
  // Images: in our report, in cuobjdump's listing of the file itself.
  uint64_t ours = 0;
  uint64_t theirs = 0;
  // Images found equal one by one, also those it was shown elsewhere.
  uint64_t compared = 0;
  // Kernels of the images compared.
  uint64_t kernels = 0;
  // Images by rule.
  std::map<std::string, uint64_t> rules;
  // Differences that no rule explains; at most 20.
  std::vector<std::string> unexplained;
};

// Compares; `path` is the file that `report` describes, kernels and producers
// read. Scratch files go to `scratch`. Fails only where cuobjdump or a file
// could not be read.
absl::Status Compare(const std::string& path, const v1::FileReport& report,
                     const std::string& scratch, Comparison& comparison);

}  // namespace twinpath::differential

#endif  // TWINPATH_TESTS_DIFFERENTIAL_COMPARE_H_
