// What of the code a GPU can use, for `inspect --target`: kernels and fatbins
// that hold nothing for it, by design (`specialised`) or not (`hole`). A kernel
// that another image serves there, such as sm_80 code on an 8.6 GPU or PTX, is
// neither. Pure functions from reports to messages and text.

#ifndef TWINPATH_CLI_COVERAGE_VIEW_H_
#define TWINPATH_CLI_COVERAGE_VIEW_H_

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

// The same for programs, one message a word; none without kernels. `report`:
// the file they are of; null for a collection, which names no gaps.
std::vector<v1::TargetCoverage> CoverageOf(
    const std::vector<inspect::KernelCoverage>& kernels, absl::string_view name,
    const v1::FileReport* report, const TargetWords& words,
    const compat::Tables* tables);

// "coverage  sm_90: 300 kernels, 40 more from other targets; nothing for 10 (8
// specialised, 2 holes)", one line a word; below it what the fatbins hold,
// where `report` is not null. "" without words, and where no kernel was read.
// `tables` may be null: then only a word's own target serves it.
std::string RenderCoverage(const std::vector<inspect::KernelCoverage>& kernels,
                           const v1::FileReport* report,
                           const TargetWords& words,
                           const compat::Tables* tables,
                           const ViewOptions& options);

// The kernels without code for a word's GPU, one line each. `match` may be
// null: all.
std::string RenderKernelGaps(
    const std::vector<inspect::KernelCoverage>& kernels,
    const TargetWords& words, const compat::Tables* tables,
    const re2::RE2* match, const ViewOptions& options);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_COVERAGE_VIEW_H_
