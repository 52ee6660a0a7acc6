// Targets that files are expected to hold (`inspect --expect`). Pure;
// thread-safe.

#ifndef TWINPATH_CLI_EXPECT_H_
#define TWINPATH_CLI_EXPECT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/target_word.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::cli {

// What of the expected targets a file or a group of files holds.
class ExpectedTargets {
 public:
  explicit ExpectedTargets(const TargetWords& words)
      : words_(words), files_(words.size(), 0) {}

  // Counts a file and returns the names of the targets it lacks. Files without
  // device code are not counted and lack nothing. What cannot run gives no
  // target: left-over images; in linked files also those still to be linked and
  // those without kernels (the stub of a device link).
  std::vector<std::string> Add(const v1::FileReport& report);

  bool empty() const { return words_.empty(); }
  // Targets that no file added so far has.
  std::vector<std::string> Missing() const;
  // "sm_90 in 9 of 9 files, sm_121 in none".
  std::string Counts() const;
  // What is missing of `name` and what is there instead, for people: "app: no
  // image for sm_90; there is sm_90a". "" where nothing is missing.
  std::string Describe(absl::string_view name) const;

 private:
  TargetWords words_;
  // Files that have each word's target.
  std::vector<uint64_t> files_;
  uint64_t with_code_ = 0;
  std::vector<inspect::ImageTarget> there_;
};

// Whether the file holds device code: an image or a damaged fatbin.
bool HasCode(const v1::FileReport& report);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_EXPECT_H_
