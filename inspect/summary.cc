#include "inspect/summary.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/target_name.h"

namespace twinpath::inspect {
namespace {

char SuffixLetter(v1::TargetSuffix suffix) {
  switch (suffix) {
    case v1::TARGET_SUFFIX_ARCH:
      return 'a';
    case v1::TARGET_SUFFIX_FAMILY:
      return 'f';
    default:
      return 0;
  }
}

std::string Name(v1::ImageKind kind, uint32_t number, v1::TargetSuffix suffix,
                 uint32_t kind_number) {
  const char letter = SuffixLetter(suffix);
  switch (kind) {
    case v1::IMAGE_KIND_SASS:
    case v1::IMAGE_KIND_RELOCATABLE_SASS:
      return FormatTarget("sm", number, letter);
    case v1::IMAGE_KIND_PTX:
    case v1::IMAGE_KIND_RELOCATABLE_PTX:
      return FormatTarget("compute", number, letter);
    case v1::IMAGE_KIND_LTO_IR:
      return FormatTarget("lto", number, letter);
    default:
      return absl::StrCat("kind_", kind_number, "_",
                          FormatTarget("sm", number, letter));
  }
}

bool Counts(const v1::Fatbin& fatbin) {
  return fatbin.registration() != v1::REGISTRATION_LEFT_OVER;
}

// Whether an image is known to hold no kernels: what device link makes for a
// target that no object was compiled for. It starts nothing there.
bool IsKernelLess(const v1::Image& image) {
  return image.kernels_read() && image.kernels().empty();
}

// Whether a fatbin is known to hold no kernels at all.
bool HasNoKernels(const v1::Fatbin& fatbin) {
  return std::all_of(fatbin.images().begin(), fatbin.images().end(),
                     IsKernelLess);
}

bool IsSass(v1::ImageKind kind) {
  return kind == v1::IMAGE_KIND_SASS || kind == v1::IMAGE_KIND_RELOCATABLE_SASS;
}

bool IsRelocatable(v1::ImageKind kind) {
  return kind == v1::IMAGE_KIND_RELOCATABLE_SASS ||
         kind == v1::IMAGE_KIND_RELOCATABLE_PTX;
}

bool IsLinked(const v1::FileReport& report) {
  return report.kind() == v1::FILE_KIND_ELF_EXECUTABLE ||
         report.kind() == v1::FILE_KIND_ELF_SHARED;
}

// A piece of libcudadevrt, which device link adds to programs that launch
// kernels from kernels.
bool IsDeviceRuntime(const v1::Fatbin& fatbin) {
  constexpr absl::string_view kPart = "_cuda_device_runtime_cu_";
  for (const v1::Image& image : fatbin.images()) {
    for (const v1::Kernel& kernel : image.kernels()) {
      if (IsRelocatable(image.kind()) &&
          absl::StrContains(kernel.name(), kPart)) {
        return true;
      }
    }
  }
  return false;
}

bool IsSpecific(v1::TargetSuffix suffix) {
  return suffix == v1::TARGET_SUFFIX_ARCH || suffix == v1::TARGET_SUFFIX_FAMILY;
}

// Whether some image is loaded as it is or after compiling. Others are linked
// first, for whatever GPU is there.
bool AnyLoads(const v1::Fatbin& fatbin) {
  return std::any_of(fatbin.images().begin(), fatbin.images().end(),
                     [](const v1::Image& image) {
                       return image.kind() == v1::IMAGE_KIND_SASS ||
                              image.kind() == v1::IMAGE_KIND_PTX ||
                              image.kind() == v1::IMAGE_KIND_RELOCATABLE_SASS ||
                              image.kind() == v1::IMAGE_KIND_RELOCATABLE_PTX;
                     });
}

// All machine code of the fatbin is for one architecture or family by design.
bool OnlySpecific(const v1::Fatbin& fatbin) {
  bool any = false;
  for (const v1::Image& image : fatbin.images()) {
    if (!IsSass(image.kind())) continue;
    any = true;
    if (!IsSpecific(image.target().suffix())) return false;
  }
  return any;
}

}  // namespace

ImageTarget TargetOf(const v1::Image& image) {
  return {image.kind(), image.target().number(), image.target().suffix()};
}

std::string TargetName(const ImageTarget& target) {
  return Name(target.kind, target.number, target.suffix, 0);
}

std::string TargetName(const v1::Image& image) {
  return Name(image.kind(), image.target().number(), image.target().suffix(),
              image.kind_number());
}

std::vector<TargetCount> CountTargets(const v1::FileReport& report) {
  std::map<ImageTarget, TargetCount> counts;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      TargetCount& count = counts[TargetOf(image)];
      count.target = TargetOf(image);
      ++count.images;
      count.kernels += static_cast<uint64_t>(image.kernels_size());
      count.stored_bytes += image.stored_bytes();
      count.expanded_bytes += image.expanded_bytes();
    }
  }
  std::vector<TargetCount> result;
  for (const auto& [target, count] : counts) result.push_back(count);
  return result;
}

std::set<ImageTarget> LoadableTargets(const v1::FileReport& report) {
  const bool linked = IsLinked(report);
  std::set<ImageTarget> targets;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    if (!Counts(fatbin)) continue;
    const bool links_at_load =
        fatbin.registration() == v1::REGISTRATION_REGISTERED &&
        !IsDeviceRuntime(fatbin);
    for (const v1::Image& image : fatbin.images()) {
      if (linked && (IsKernelLess(image) ||
                     (IsRelocatable(image.kind()) && !links_at_load))) {
        continue;
      }
      targets.insert(TargetOf(image));
    }
  }
  return targets;
}

std::vector<ImageTarget> LinkedAtLoad(const v1::FileReport& report) {
  std::vector<ImageTarget> alone;
  if (!IsLinked(report)) return alone;
  const std::set<ImageTarget> targets = LoadableTargets(report);
  for (const ImageTarget& target : targets) {
    if (!IsRelocatable(target.kind)) continue;
    ImageTarget linked = target;
    linked.kind =
        IsSass(target.kind) ? v1::IMAGE_KIND_SASS : v1::IMAGE_KIND_PTX;
    if (targets.count(linked) == 0) alone.push_back(target);
  }
  return alone;
}

uint64_t CountImages(const v1::FileReport& report) {
  uint64_t count = 0;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    count += static_cast<uint64_t>(fatbin.images_size());
  }
  return count;
}

std::vector<KernelCoverage> CoverKernels(
    const std::vector<const v1::FileReport*>& reports) {
  absl::flat_hash_map<std::string, std::set<ImageTarget>> targets;
  for (const v1::FileReport* report : reports) {
    for (const v1::Fatbin& fatbin : report->fatbins()) {
      if (!Counts(fatbin)) continue;
      for (const v1::Image& image : fatbin.images()) {
        for (const v1::Kernel& kernel : image.kernels()) {
          targets[kernel.name()].insert(TargetOf(image));
        }
      }
    }
  }
  std::vector<KernelCoverage> result;
  result.reserve(targets.size());
  for (const auto& [name, set] : targets) {
    result.push_back({name, {set.begin(), set.end()}});
  }
  std::sort(result.begin(), result.end(),
            [](const KernelCoverage& a, const KernelCoverage& b) {
              return a.name < b.name;
            });
  return result;
}

std::vector<Gap> FindGaps(const v1::FileReport& report, const ImageFits& fits) {
  std::vector<const v1::Fatbin*> without;
  absl::flat_hash_set<absl::string_view> served;
  bool any = false;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    if (!Counts(fatbin) || !AnyLoads(fatbin) || HasNoKernels(fatbin)) {
      continue;
    }
    bool fatbin_fits = false;
    for (const v1::Image& image : fatbin.images()) {
      if (IsKernelLess(image) || !fits(image)) continue;
      fatbin_fits = true;
      for (const v1::Kernel& kernel : image.kernels()) {
        served.insert(kernel.name());
      }
    }
    any |= fatbin_fits;
    if (!fatbin_fits) without.push_back(&fatbin);
  }
  std::vector<Gap> gaps;
  if (!any) return gaps;
  for (const v1::Fatbin* fatbin : without) {
    bool all_served = true;
    bool any_kernel = false;
    for (const v1::Image& image : fatbin->images()) {
      for (const v1::Kernel& kernel : image.kernels()) {
        any_kernel = true;
        all_served &= served.contains(kernel.name());
      }
    }
    const bool specialised =
        OnlySpecific(*fatbin) || (any_kernel && all_served);
    gaps.push_back({fatbin->index(),
                    specialised ? GapKind::kSpecialised : GapKind::kHole});
  }
  return gaps;
}

std::vector<KernelGap> FindKernelGaps(
    const std::vector<KernelCoverage>& kernels, const TargetFits& fits) {
  std::vector<KernelGap> gaps;
  bool any = false;
  for (const KernelCoverage& kernel : kernels) {
    if (std::any_of(kernel.targets.begin(), kernel.targets.end(), fits)) {
      any = true;
      continue;
    }
    bool any_sass = false;
    bool only_specific = true;
    for (const ImageTarget& target : kernel.targets) {
      if (!IsSass(target.kind)) continue;
      any_sass = true;
      only_specific &= IsSpecific(target.suffix);
    }
    gaps.push_back({kernel, any_sass && only_specific ? GapKind::kSpecialised
                                                      : GapKind::kHole});
  }
  if (!any) gaps.clear();
  return gaps;
}

}  // namespace twinpath::inspect
