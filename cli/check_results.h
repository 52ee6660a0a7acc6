// What `twinpath check` is told about results: numbers within a tolerance,
// files the program leaves, how runs are compared, a reference to compare with
// or to write. The same as the keys of an entry in a sweep file.

#ifndef TWINPATH_CLI_CHECK_RESULTS_H_
#define TWINPATH_CLI_CHECK_RESULTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/console.h"
#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

struct CheckResultOptions {
  // File with the text whose numbers standard output must have.
  std::string expect_numbers;
  // "", "exact", "numbers", "off".
  std::string compare;
  // Of expect_numbers and of compare. Empty: 0.
  std::string absolute;
  std::string relative;
  bool nan_equals_nan = false;
  // Files the program leaves in its working folder.
  std::vector<std::string> files;
  // Reference file to compare with.
  std::string reference;
  // Where to write a reference.
  std::string save_reference;
};

// Puts the options into `entry`. INVALID_ARGUMENT names the flag.
absl::Status AddResultRules(const CheckResultOptions& options,
                            v1::Entry& entry);

// Writes the reference if one is asked for, and says so. Any other answer than
// OK is an error of the command.
absl::Status SaveReference(const CheckResultOptions& options,
                           const v1::Sweep& sweep, Console& console);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_CHECK_RESULTS_H_
