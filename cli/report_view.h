// What `twinpath inspect` shows of a file: a summary first, then on request
// every kernel or every image. Pure functions; thread-safe.

#ifndef TWINPATH_CLI_REPORT_VIEW_H_
#define TWINPATH_CLI_REPORT_VIEW_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cli/target_word.h"
#include "cli/view_options.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::cli {

// "ELF shared library", "fatbin", "text", ...
absl::string_view FileKindText(v1::FileKind kind);
// "x86-64", "aarch64", "other", "unknown".
absl::string_view CpuText(v1::CpuArchitecture cpu);

// Host half, code by target, problems of one file; of a carrier, what it is and
// what was done with its members. `targets`: only these have a line.
std::string RenderFileSummary(const v1::FileReport& report,
                              const ViewOptions& options,
                              const TargetWords& targets = {});

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_REPORT_VIEW_H_
