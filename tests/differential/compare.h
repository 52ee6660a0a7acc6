// Compares a report with cuobjdump's listing, image by image in file order. A
// difference is explained by a rule with a name, or it is an error. A rule
// names the images that it explains one by one and is computed from the
// report, so that none can hide an image more:
//
//   outside-sections       fatbins in other sections than .nv_fatbin and
//                          __nv_relfatbin: not listed. They are copied into a
//                          .fatbin file, and compared there.
//   bare-image             cubins, packed cubins and PTX outside any fatbin:
//                          not listed. Put into a fatbin, and compared.
//   relocatable-needs-all  without -all only .nv_fatbin is listed where it has
//                          images: with it they are, and are compared.
//   cuobjdump-refuses      "Invalid ELF" at an image: it ends there. The images
//                          behind it are copied and compared; those at which
//                          it ends again are counted here and not compared.

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
