#include "compat/prepared.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "compat/target.h"

namespace twinpath::compat::internal {
namespace {

// Biggest kernel-less link stub seen is 1.4 KB; the smallest cubin with a
// kernel is above 2 KB. Only used where kernels were not read.
constexpr uint64_t kStubBytes = 2048;

// Entry flag of machine code that carries a copy of its .nv.compat section
// (docs/formats/device-code.md).
constexpr uint64_t kFlagCompatNote = 0x1000000;

// In the names of libcudadevrt's kernels, from CUDA 12 on.
constexpr absl::string_view kDeviceRuntime = "_cuda_device_runtime_cu_";

// Numbers the kernel names of one file.
class KernelNumbers {
 public:
  uint32_t NumberOf(absl::string_view name) {
    const auto [it, inserted] =
        numbers_.try_emplace(name, static_cast<uint32_t>(names_.size()));
    if (inserted) names_.push_back(name);
    return it->second;
  }
  std::vector<absl::string_view> Take() { return std::move(names_); }

 private:
  absl::flat_hash_map<absl::string_view, uint32_t> numbers_;
  std::vector<absl::string_view> names_;
};

void SortUnique(std::vector<uint32_t>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

ImageView ViewOf(const v1::Image& image, KernelNumbers& numbers) {
  ImageView view;
  view.index = image.index();
  view.kind = image.kind();
  view.kind_number = image.kind_number();
  view.target = image.target();
  view.ptx_isa = TwoPart::From(image.ptx_isa());
  view.zstd = image.compression() == v1::COMPRESSION_ZSTD;
  view.opaque = image.compression() == v1::COMPRESSION_OPAQUE;
  view.payload_target = image.payload_target();
  // A payload for another target was read well; that is its problem.
  view.unreadable =
      view.opaque || (!image.problem().empty() && view.payload_target == 0);
  view.compat_note = (image.flags() & kFlagCompatNote) != 0;
  if (view.sass()) view.toolkit_major = image.producer().toolkit().major();
  view.kernels_read = image.kernels_read();
  view.kernels.reserve(static_cast<size_t>(image.kernels_size()));
  for (const v1::Kernel& kernel : image.kernels()) {
    view.kernels.push_back(numbers.NumberOf(kernel.name()));
  }
  SortUnique(view.kernels);
  return view;
}

// A fatbin whose machine code and PTX were read and hold no kernel. LTO-IR is
// never read, so it says nothing either way.
bool KnownKernelLess(const FatbinView& fatbin) {
  // A cubin that stands alone is what its user names; one found inside a host
  // file is like any other image.
  if (fatbin.damaged || (fatbin.bare && !fatbin.self_loaded())) return false;
  bool any = false;
  for (const ImageView& image : fatbin.images) {
    if (!image.sass() && !image.ptx()) continue;
    any = true;
    if (!image.kernels_read || !image.kernels.empty()) return false;
  }
  return any || fatbin.images.empty();
}

// The link stub where kernels were not read: small, and reached by a wrapper of
// version 2.
bool LooksLikeStub(const v1::Fatbin& fatbin,
                   const absl::flat_hash_set<uint64_t>& version2) {
  if (fatbin.damaged() || !version2.contains(fatbin.offset())) return false;
  for (const v1::Image& image : fatbin.images()) {
    if (image.kind() != v1::IMAGE_KIND_SASS || image.kernels_read()) {
      return false;
    }
    const uint64_t bytes = image.expanded_bytes() != 0 ? image.expanded_bytes()
                                                       : image.stored_bytes();
    if (bytes == 0 || bytes > kStubBytes) return false;
  }
  return true;
}

void Describe(FatbinView& fatbin) {
  std::set<uint32_t> numbers;
  fatbin.all_suffixed = !fatbin.images.empty();
  for (const ImageView& image : fatbin.images) {
    if (image.target.suffix() != v1::TARGET_SUFFIX_ARCH &&
        image.target.suffix() != v1::TARGET_SUFFIX_FAMILY) {
      fatbin.all_suffixed = false;
    }
    if (image.sass()) numbers.insert(image.target.number());
    fatbin.kernels.insert(fatbin.kernels.end(), image.kernels.begin(),
                          image.kernels.end());
  }
  fatbin.one_target = numbers.size() <= 1;
  SortUnique(fatbin.kernels);
}

// All a driver's choice can depend on, as bytes that are equal for equal
// fatbins. Each value ends with a separator, so that none runs into the next.
std::string ShapeKey(const FatbinView& fatbin) {
  std::string key = absl::StrCat(fatbin.bare, ",", fatbin.damaged, ",",
                                 fatbin.registration, ";");
  for (const ImageView& image : fatbin.images) {
    absl::StrAppend(&key, image.kind, ",", image.kind_number, ",",
                    image.target.number(), ",", image.target.suffix(), ",");
    absl::StrAppend(&key, image.ptx_isa.major, ".", image.ptx_isa.minor, ",",
                    image.payload_target, ",", image.toolkit_major, ",");
    absl::StrAppend(&key, image.zstd, image.unreadable, image.opaque,
                    image.compat_note, image.kernels_read, ";");
  }
  return key;
}

// Gives every distinct key a number, in order of appearance.
template <typename Key>
class Interner {
 public:
  // The number, and whether it is new.
  std::pair<uint32_t, bool> Number(Key key) {
    const auto [it, inserted] = numbers_.try_emplace(
        std::move(key), static_cast<uint32_t>(numbers_.size()));
    return {it->second, inserted};
  }

 private:
  std::map<Key, uint32_t> numbers_;
};

void FindShapes(FileView& file) {
  Interner<std::string> shapes;
  for (uint32_t i = 0; i < file.fatbins.size(); ++i) {
    const auto [number, is_new] = shapes.Number(ShapeKey(file.fatbins[i]));
    file.fatbins[i].shape = number;
    if (is_new) file.shapes.push_back(i);
  }
}

void FindKernelClasses(FileView& file) {
  std::vector<std::vector<KernelClass::Place>> places(file.kernel_names.size());
  for (const FatbinView& fatbin : file.fatbins) {
    for (const uint32_t kernel : fatbin.kernels) {
      KernelClass::Place place{fatbin.shape, {}};
      for (uint32_t i = 0; i < fatbin.images.size(); ++i) {
        const ImageView& image = fatbin.images[i];
        if (image.kernels_read &&
            !std::binary_search(image.kernels.begin(), image.kernels.end(),
                                kernel)) {
          place.missing.push_back(i);
        }
      }
      places[kernel].push_back(std::move(place));
    }
  }
  Interner<std::vector<KernelClass::Place>> classes;
  file.kernel_class.reserve(places.size());
  for (std::vector<KernelClass::Place>& of_kernel : places) {
    std::sort(of_kernel.begin(), of_kernel.end());
    of_kernel.erase(std::unique(of_kernel.begin(), of_kernel.end()),
                    of_kernel.end());
    const auto [number, is_new] = classes.Number(of_kernel);
    file.kernel_class.push_back(number);
    if (is_new) file.kernel_classes.push_back({std::move(of_kernel), 0});
    ++file.kernel_classes[number].kernels;
  }
}

void FindClasses(FileView& file) {
  Interner<std::vector<uint32_t>> classes;
  for (uint32_t i = 0; i < file.fatbins.size(); ++i) {
    FatbinView& fatbin = file.fatbins[i];
    std::vector<uint32_t> kernel_classes;
    for (const uint32_t kernel : fatbin.kernels) {
      kernel_classes.push_back(file.kernel_class[kernel]);
    }
    SortUnique(kernel_classes);
    std::vector<uint32_t> key = kernel_classes;
    key.push_back(fatbin.shape);
    const auto [number, is_new] = classes.Number(std::move(key));
    fatbin.group = number;
    if (is_new) {
      file.classes.push_back({fatbin.shape, std::move(kernel_classes), 0, i});
    }
    ++file.classes[number].fatbins;
  }
}

// Groups fatbins and kernels that no host can tell apart.
void Group(FileView& file) {
  FindShapes(file);
  FindKernelClasses(file);
  FindClasses(file);
  file.kernels_by_name.resize(file.kernel_names.size());
  std::iota(file.kernels_by_name.begin(), file.kernels_by_name.end(), 0u);
  std::sort(file.kernels_by_name.begin(), file.kernels_by_name.end(),
            [&file](uint32_t a, uint32_t b) {
              return file.kernel_names[a] < file.kernel_names[b];
            });
}

// Fills what is said about all images of a file.
void DescribeFile(FileView& file) {
  // Ordered as people read them: machine code, PTX, the rest, by number.
  std::set<std::pair<int, std::pair<uint32_t, std::string>>> held;
  bool only_default = true;
  for (const FatbinView& fatbin : file.fatbins) {
    for (const ImageView& image : fatbin.images) {
      file.any_ptx |= image.ptx();
      file.any_sass |= image.sass();
      only_default &=
          image.target.number() == 75 && (image.ptx() || image.sass());
      if (!image.kernels_read && (image.ptx() || image.sass())) {
        file.kernels_complete = false;
      }
      const int rank = image.sass() ? 0 : image.ptx() ? 1 : 2;
      const std::string name =
          image.kind == v1::IMAGE_KIND_OTHER
              ? absl::StrCat("kind 0x", absl::Hex(image.kind_number))
              : TargetName(image.kind, image.target);
      held.insert({rank, {image.target.number(), name}});
    }
    file.kernels_complete &= !fatbin.damaged;
  }
  file.only_default_target = only_default && file.any_ptx && file.any_sass;
  std::vector<std::string> names;
  for (const auto& [rank, rest] : held) names.push_back(rest.second);
  file.held = absl::StrJoin(names, ", ");
}

// A piece of libcudadevrt as a device link takes it.
bool IsDeviceRuntime(const v1::Fatbin& fatbin) {
  return std::any_of(fatbin.images().begin(), fatbin.images().end(),
                     [](const v1::Image& image) {
                       return image.kind() == v1::IMAGE_KIND_RELOCATABLE_SASS &&
                              std::any_of(image.kernels().begin(),
                                          image.kernels().end(),
                                          [](const v1::Kernel& kernel) {
                                            return absl::StrContains(
                                                kernel.name(), kDeviceRuntime);
                                          });
                     });
}

FileView ViewOf(const v1::FileReport& report, Take take) {
  FileView file;
  file.report = &report;
  file.vendor = IsVendorLibrary(BaseName(report.name()));
  absl::flat_hash_set<uint64_t> version2;
  for (const v1::Wrapper& wrapper : report.wrappers()) {
    if (wrapper.version() == 2 && wrapper.resolved()) {
      version2.insert(wrapper.fatbin_offset());
    }
    if (!wrapper.resolved() && file.dangling == nullptr) {
      file.dangling = &wrapper;
    }
  }
  KernelNumbers numbers;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    const bool all = take == Take::kAll;
    if (!all && fatbin.registration() == v1::REGISTRATION_LEFT_OVER) {
      ++file.left_over;
      continue;
    }
    if (!all && LooksLikeStub(fatbin, version2)) {
      ++file.kernel_less;
      continue;
    }
    FatbinView view;
    view.index = fatbin.index();
    view.offset = fatbin.offset();
    view.bare = fatbin.bare();
    view.damaged = fatbin.damaged();
    view.registration = fatbin.registration();
    view.images.reserve(static_cast<size_t>(fatbin.images_size()));
    for (const v1::Image& image : fatbin.images()) {
      view.images.push_back(ViewOf(image, numbers));
    }
    if (!all && KnownKernelLess(view)) {
      ++file.kernel_less;
      continue;
    }
    Describe(view);
    if (!all && IsDeviceRuntime(fatbin)) {
      file.device_runtimes.push_back(std::move(view));
      continue;
    }
    file.fatbins.push_back(std::move(view));
  }
  file.kernel_names = numbers.Take();
  Group(file);
  DescribeFile(file);
  return file;
}

}  // namespace

std::optional<uint32_t> FileView::FindKernel(absl::string_view kernel) const {
  const auto it =
      std::lower_bound(kernels_by_name.begin(), kernels_by_name.end(), kernel,
                       [this](uint32_t number, absl::string_view wanted) {
                         return kernel_names[number] < wanted;
                       });
  if (it == kernels_by_name.end() || kernel_names[*it] != kernel) {
    return std::nullopt;
  }
  return *it;
}

bool IsVendorLibrary(absl::string_view base_name) {
  for (const absl::string_view prefix :
       {"libcublas", "libcudnn", "libcufft", "libcusparse", "libcusolver",
        "libcurand", "libnccl", "libnpp", "libnvjpeg", "libcutensor",
        "libcusparseLt", "libcudss", "libnvinfer"}) {
    if (absl::StartsWith(base_name, prefix)) return true;
  }
  return false;
}

Prepared::Prepared(const v1::ArtifactReport& report, Take take) {
  files_.reserve(static_cast<size_t>(report.files_size()));
  for (const v1::FileReport& file : report.files()) {
    files_.push_back(ViewOf(file, take));
  }
}

}  // namespace twinpath::compat::internal
