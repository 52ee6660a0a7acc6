// What `twinpath inspect` shows of a file: a summary first, then on request
// every kernel or every image. Pure functions; thread-safe.

#ifndef TWINPATH_CLI_REPORT_VIEW_H_
#define TWINPATH_CLI_REPORT_VIEW_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cli/matrix.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::cli {

// "ELF shared library", "fatbin", "text", ...
absl::string_view FileKindText(v1::FileKind kind);
// "x86-64", "aarch64", "other", "unknown".
absl::string_view CpuText(v1::CpuArchitecture cpu);

// Host half, code by target, problems of one file.
std::string RenderFileSummary(const v1::FileReport& report,
                              const ViewOptions& options);
// Kernel and the targets that have it, one line a kernel.
std::string RenderKernels(const v1::FileReport& report,
                          const ViewOptions& options);
// One line an image.
std::string RenderImages(const v1::FileReport& report,
                         const ViewOptions& options);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_REPORT_VIEW_H_
