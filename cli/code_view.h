// Device code for people: targets with counts, kernels, images. What a filter
// leaves out is not listed. Pure functions from reports to text.

#ifndef TWINPATH_CLI_CODE_VIEW_H_
#define TWINPATH_CLI_CODE_VIEW_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/target_word.h"
#include "inspect/summary.h"
#include "twinpath/v1/report.pb.h"

namespace re2 {
class RE2;
}  // namespace re2

namespace twinpath::cli {

struct ViewOptions;

// What of the code is listed, and how much of it.
struct CodeFilter {
  // Empty: all.
  TargetWords targets;
  // Kernels whose mangled or demangled name it is found in; images with such a
  // kernel, or in whose own name it is found. Null: all.
  const re2::RE2* match = nullptr;
  // Registers, shared memory, threads of kernels; producer of images.
  bool details = false;
  // Demangled names below the mangled ones.
  bool demangle = false;
};

// Images by target, over one file or many.
class TargetTotals {
 public:
  // Counts the images that `targets` selects.
  void Add(const v1::FileReport& report, const TargetWords& targets);
  bool empty() const { return counts_.empty(); }
  // Names of the targets, in order: "sm_90", "compute_90".
  std::vector<std::string> Names() const;
  // A table; `files` adds the number of files that have the target, and gives
  // what is not loaded as it is (relocatable code, LTO-IR) one line a kind.
  std::string Render(bool files, const ViewOptions& options) const;

 private:
  struct Count {
    inspect::TargetCount images;
    std::set<std::pair<uint32_t, uint32_t>> ptx_isas;
    uint32_t files = 0;
  };
  std::map<inspect::ImageTarget, Count> counts_;
  bool kernels_read_ = false;
};

// "SASS", "PTX", "relocatable SASS", ...
absl::string_view ImageKindText(v1::ImageKind kind);

// Kernel and the targets that have it, one line a kernel; with details one line
// more for each image. "" where kernels were not read.
std::string RenderKernels(const v1::FileReport& report,
                          const CodeFilter& filter, const ViewOptions& options);
// One line an image.
std::string RenderImages(const v1::FileReport& report, const CodeFilter& filter,
                         const ViewOptions& options);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_CODE_VIEW_H_
