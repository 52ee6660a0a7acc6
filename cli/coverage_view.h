// What of the code a GPU can use, for `inspect --target`: kernels and fatbins
// that hold nothing for it, by design (`specialised`) or not (`hole`). A kernel
// that another image serves there, such as sm_80 code on an 8.6 GPU or PTX, is
// neither. Pure functions from reports to messages and text.

#ifndef TWINPATH_CLI_COVERAGE_VIEW_H_
#define TWINPATH_CLI_COVERAGE_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/target_word.h"
#include "cli/view_options.h"
#include "compat/tables.h"
#include "inspect/summary.h"
#include "twinpath/v1/cli.pb.h"
#include "twinpath/v1/report.pb.h"

namespace re2 {
class RE2;
}  // namespace re2

namespace twinpath::cli {

// The same for programs, one message a word; none where no kernel was read.
// `tables` may be null: then only a word's own target serves it.
std::vector<v1::TargetCoverage> CoverageOf(const v1::FileReport& report,
                                           const TargetWords& words,
                                           const compat::Tables* tables);

// "coverage  sm_90: 300 kernels, 40 more from other targets; nothing for 10 (8
// specialised, 2 holes); nothing in 3 fatbins (3 holes)", one line a word. ""
// without words, and where no kernel was read.
std::string RenderCoverage(const v1::FileReport& report,
                           const TargetWords& words,
                           const compat::Tables* tables,
                           const ViewOptions& options);

// Folders and packages: the sums over their files. Each file registers its own
// kernels, so that one file's code never serves another's kernel of that name.
// Not thread-safe.
class CoverageTotals {
 public:
  CoverageTotals(const TargetWords& words, const compat::Tables* tables)
      : words_(words), tables_(tables) {}

  // Returns the file's own.
  std::vector<v1::TargetCoverage> Add(const v1::FileReport& report);
  // For programs; `name` is that of the whole.
  std::vector<v1::TargetCoverage> Messages(absl::string_view name) const;
  // As RenderCoverage, and how many files have nothing for the GPU.
  std::string Render(const ViewOptions& options) const;

 private:
  // Of one word.
  struct Total {
    v1::TargetCoverage sum;
    uint64_t fatbins_specialised = 0;
    uint64_t fatbin_holes = 0;
    // With kernels, and those of them of which nothing is served.
    uint64_t files = 0;
    uint64_t files_without = 0;
  };
  TargetWords words_;
  const compat::Tables* tables_;
  std::vector<Total> totals_;
};

// The kernels without code for a word's GPU, one line each. `match` may be
// null: all.
std::string RenderKernelGaps(
    const std::vector<inspect::KernelCoverage>& kernels,
    const TargetWords& words, const compat::Tables* tables,
    const re2::RE2* match, const ViewOptions& options);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_COVERAGE_VIEW_H_
