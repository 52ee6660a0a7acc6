#include "compat/prepared.h"

#include <algorithm>
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
  view.unreadable =
      image.compression() == v1::COMPRESSION_OPAQUE || !image.problem().empty();
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

FileView ViewOf(const v1::FileReport& report) {
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
    if (fatbin.registration() == v1::REGISTRATION_LEFT_OVER) {
      ++file.left_over;
      continue;
    }
    if (LooksLikeStub(fatbin, version2)) {
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
    if (KnownKernelLess(view)) {
      ++file.kernel_less;
      continue;
    }
    Describe(view);
    file.fatbins.push_back(std::move(view));
  }
  file.kernel_names = numbers.Take();
  file.kernel_fatbins.resize(file.kernel_names.size());
  for (uint32_t i = 0; i < file.fatbins.size(); ++i) {
    for (const uint32_t kernel : file.fatbins[i].kernels) {
      file.kernel_fatbins[kernel].push_back(i);
    }
  }
  DescribeFile(file);
  return file;
}

}  // namespace

bool IsVendorLibrary(absl::string_view base_name) {
  for (const absl::string_view prefix :
       {"libcublas", "libcudnn", "libcufft", "libcusparse", "libcusolver",
        "libcurand", "libnccl", "libnpp", "libnvjpeg", "libcutensor",
        "libcusparseLt", "libcudss", "libnvinfer"}) {
    if (absl::StartsWith(base_name, prefix)) return true;
  }
  return false;
}

Prepared::Prepared(const v1::ArtifactReport& report) {
  files_.reserve(static_cast<size_t>(report.files_size()));
  for (const v1::FileReport& file : report.files()) {
    files_.push_back(ViewOf(file));
  }
}

}  // namespace twinpath::compat::internal
