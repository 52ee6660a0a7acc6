// The readers of untrusted bytes, each as a function of bytes. libFuzzer
// (fuzz_main.cc, preset `fuzz`) and the replay test of the ordinary build run
// the same functions. A function returns for every input, within memory bounds,
// and ends the process where a promise of the reader does not hold.

#ifndef TWINPATH_TESTS_FUZZ_TARGETS_H_
#define TWINPATH_TESTS_FUZZ_TARGETS_H_

#include <vector>

#include "absl/strings/string_view.h"

namespace twinpath::fuzz {

struct Target {
  absl::string_view name;
  void (*run)(absl::string_view bytes);
};

// All of them. Names are folders of seeds/ and regressions/.
const std::vector<Target>& Targets();

// Says `what` on standard error and ends the process, unless `holds`.
void Require(bool holds, const char* what);

}  // namespace twinpath::fuzz

#endif  // TWINPATH_TESTS_FUZZ_TARGETS_H_
