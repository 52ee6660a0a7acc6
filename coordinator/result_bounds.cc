#include "coordinator/result_bounds.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "coordinator/dispatch.h"

namespace twinpath::coordinator {
namespace {

// Agents start each path once, repeat it for the proof and the trace and native
// where a difference may be its own (runner/sequence.h), and report what was
// interrupted.
constexpr int kMaxObservations = 64;
// Twice and more what a runner keeps of a trace (runner/trace_records.h).
constexpr int kMaxObjects = 4096;
constexpr int kMaxModules = 4096;
constexpr int kMaxKernels = 8192;
constexpr int kMaxCoverage = 4096;
constexpr int kMaxOutputFiles = 256;
constexpr int kMaxImageGroups = 20'000;
// As ImageLoadReport.images says.
constexpr int kMaxImages = 1000;
constexpr int kMaxProblems = 200;
constexpr int kMaxToolchains = 32;
constexpr int kMaxSteps = 32;
constexpr int kMaxToolchainRuns = 16;

class Cutter {
 public:
  template <typename List>
  void Cut(absl::string_view what, int most, List& list) {
    if (list.size() <= most) return;
    int& longest = cut_[what];
    longest = std::max(longest, list.size());
    list.DeleteSubrange(most, list.size() - most);
  }

  void Cut(v1::Observation& run) {
    Cut("output files", kMaxOutputFiles, *run.mutable_files());
    if (!run.has_trace()) return;
    v1::Trace& trace = *run.mutable_trace();
    Cut("traced objects", kMaxObjects, *trace.mutable_objects());
    Cut("traced modules", kMaxModules, *trace.mutable_modules());
    Cut("traced kernels", kMaxKernels, *trace.mutable_kernels());
    Cut("files with coverage", kMaxCoverage, *trace.mutable_coverage());
  }

  bool empty() const { return cut_.empty(); }
  // "70 runs, 5000 traced objects".
  std::string Text() const {
    std::vector<std::string> parts;
    for (const auto& [what, size] : cut_) {
      parts.push_back(absl::StrCat(size, " ", what));
    }
    return absl::StrJoin(parts, ", ");
  }

 private:
  // Longest list of each kind that was cut.
  std::map<absl::string_view, int> cut_;
};

}  // namespace

bool CutOversized(v1::CellResult& result) {
  Cutter cutter;
  cutter.Cut("runs", kMaxObservations, *result.mutable_observations());
  for (v1::Observation& run : *result.mutable_observations()) cutter.Cut(run);
  cutter.Cut("problems", kMaxProblems, *result.mutable_problems());
  if (result.has_image_loads()) {
    v1::ImageLoadReport& loads = *result.mutable_image_loads();
    cutter.Cut("groups of images", kMaxImageGroups, *loads.mutable_groups());
    cutter.Cut("images", kMaxImages, *loads.mutable_images());
    cutter.Cut("problems", kMaxProblems, *loads.mutable_problems());
  }
  cutter.Cut("toolchains", kMaxToolchains, *result.mutable_toolchain());
  for (v1::ToolchainCheck& check : *result.mutable_toolchain()) {
    cutter.Cut("steps of a toolchain", kMaxSteps, *check.mutable_steps());
    cutter.Cut("runs of a toolchain", kMaxToolchainRuns, *check.mutable_runs());
    for (v1::Observation& run : *check.mutable_runs()) cutter.Cut(run);
  }
  if (cutter.empty()) return false;
  result.set_complete(false);
  *result.add_problems() = MakeCellReason(
      "TP418", absl::StrCat("the result lists more than any agent does and was "
                            "cut: ",
                            cutter.Text()));
  // First, where the problems of a result are read.
  for (int i = result.problems_size() - 1; i > 0; --i) {
    result.mutable_problems()->SwapElements(i, i - 1);
  }
  return true;
}

}  // namespace twinpath::coordinator
