// Summaries of reports: images by target, kernels by target, fatbins that hold
// nothing for a GPU. Pure functions over a report; thread-safe.

#ifndef TWINPATH_INSPECT_SUMMARY_H_
#define TWINPATH_INSPECT_SUMMARY_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "twinpath/v1/common.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Kind and target of an image; what coverage is counted by. Ordered by kind,
// number, suffix.
struct ImageTarget {
  v1::ImageKind kind = v1::IMAGE_KIND_UNSPECIFIED;
  uint32_t number = 0;
  v1::TargetSuffix suffix = v1::TARGET_SUFFIX_NONE;

  friend bool operator==(const ImageTarget&, const ImageTarget&) = default;
  friend auto operator<=>(const ImageTarget&, const ImageTarget&) = default;
};

// Returns kind and target of an image.
ImageTarget TargetOf(const v1::Image& image);

// Returns the name of a target by the kind of code: "sm_120a" (SASS),
// "compute_90" (PTX), "lto_75" (LTO-IR), "kind_32_sm_90" (unknown kinds).
std::string TargetName(const ImageTarget& target);
std::string TargetName(const v1::Image& image);

// Images of one target in a file.
struct TargetCount {
  ImageTarget target;
  uint32_t images = 0;
  // Kernels in them; 0 where kernels were not read.
  uint64_t kernels = 0;
  uint64_t stored_bytes = 0;
  uint64_t expanded_bytes = 0;
};

// Returns the counts, ordered by target. Left-over images are counted too.
std::vector<TargetCount> CountTargets(const v1::FileReport& report);

// Returns the targets of what the driver can load kernels from. In files before
// their link (objects, archives' members, bare images) that is every image that
// counts. In linked files images without kernels start nothing; relocatable
// images are there where the host code registers them, for then the driver
// links them at load (measured: docs/gpu-runs.md), and where they are no piece
// of the device runtime, which never runs by itself. Left-over images never
// count.
std::set<ImageTarget> LoadableTargets(const v1::FileReport& report);

// Returns those of them that no final image of a linked file is there for: they
// are served by the driver's link at load alone. Ordered.
std::vector<ImageTarget> LinkedAtLoad(const v1::FileReport& report);

// Number of images in all fatbins of a file.
uint64_t CountImages(const v1::FileReport& report);

// One kernel and the targets it is there for.
struct KernelCoverage {
  // Mangled name.
  std::string name;
  // Ordered, without repeats.
  std::vector<ImageTarget> targets;
};

// Returns kernel x target over one report or several (an artifact), ordered by
// name. Empty where kernels were not read. Left-over images do not count, nor
// do linked images without kernels.
std::vector<KernelCoverage> CoverKernels(
    const std::vector<const v1::FileReport*>& reports);

// Whether an image can run on the GPU in question, as the caller's rules say.
using ImageFits = std::function<bool(const v1::Image&)>;

enum class GapKind {
  // The fatbin's machine code is architecture- or family-specific, or the
  // file's other fatbins hold all its kernels for the GPU: by design.
  kSpecialised,
  // The file's other fatbins serve the GPU and this one does not.
  kHole,
};

// A fatbin with nothing for a GPU that other fatbins of the file serve.
struct Gap {
  // Fatbin.index.
  uint32_t fatbin = 0;
  GapKind kind = GapKind::kHole;
};

// Returns the gaps of a file for one GPU. Fatbins without kernels (the stub of
// a device link), left-over ones and those of LTO-IR alone are no gaps; an
// image without kernels serves nothing. None where no fatbin of the file serves
// the GPU: then the file fails there as a whole.
std::vector<Gap> FindGaps(const v1::FileReport& report, const ImageFits& fits);

// Whether code for a target can run on the GPU in question.
using TargetFits = std::function<bool(const ImageTarget&)>;

// A kernel that nothing serves on a GPU.
struct KernelGap {
  KernelCoverage kernel;
  // kSpecialised: all its machine code is architecture- or family-specific.
  GapKind kind = GapKind::kHole;
};

// Returns those of `kernels` that no image serves on a GPU that others of them
// can use, ordered as they are. None where no kernel is served.
std::vector<KernelGap> FindKernelGaps(
    const std::vector<KernelCoverage>& kernels, const TargetFits& fits);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_SUMMARY_H_
