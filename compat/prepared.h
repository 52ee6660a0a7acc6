// Prepared: a report brought into the shape predictions need, once for all
// hosts: fatbins that count, kernels as numbers, what each image is.
//
// Does not count: relocatable images that nothing registers (left over), and
// fatbins without a kernel (the device-link stub of every executable, files
// that only hold device functions). Immutable after construction; thread-safe.

#ifndef TWINPATH_COMPAT_PREPARED_H_
#define TWINPATH_COMPAT_PREPARED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compat/tables.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat::internal {

struct ImageView {
  uint32_t index = 0;
  v1::ImageKind kind = v1::IMAGE_KIND_UNSPECIFIED;
  uint32_t kind_number = 0;
  v1::Target target;
  TwoPart ptx_isa;
  bool zstd = false;
  // Payload opaque or not decodable: chosen by its header, outcome unknown.
  bool unreadable = false;
  bool kernels_read = false;
  // Sorted numbers of its kernels in the file.
  std::vector<uint32_t> kernels;

  bool sass() const {
    return kind == v1::IMAGE_KIND_SASS ||
           kind == v1::IMAGE_KIND_RELOCATABLE_SASS;
  }
  bool ptx() const {
    return kind == v1::IMAGE_KIND_PTX || kind == v1::IMAGE_KIND_RELOCATABLE_PTX;
  }
  bool relocatable() const {
    return kind == v1::IMAGE_KIND_RELOCATABLE_SASS ||
           kind == v1::IMAGE_KIND_RELOCATABLE_PTX;
  }
};

struct FatbinView {
  uint32_t index = 0;
  uint64_t offset = 0;
  bool bare = false;
  bool damaged = false;
  v1::Registration registration = v1::REGISTRATION_UNSPECIFIED;
  std::vector<ImageView> images;
  // Kernels of any image; empty when they were not read.
  std::vector<uint32_t> kernels;
  // Whether every image is architecture- or family-specific.
  bool all_suffixed = false;
  // Whether all machine code is for one target number.
  bool one_target = false;

  bool self_loaded() const {
    return registration == v1::REGISTRATION_SELF_LOADED;
  }
};

struct FileView {
  const v1::FileReport* report = nullptr;
  // Fatbins that count.
  std::vector<FatbinView> fatbins;
  // Names of kernels by number, and the positions in `fatbins` that hold each.
  std::vector<absl::string_view> kernel_names;
  std::vector<std::vector<uint32_t>> kernel_fatbins;
  uint32_t left_over = 0;
  uint32_t kernel_less = 0;
  // First wrapper that points at no fatbin; nullptr: none.
  const v1::Wrapper* dangling = nullptr;
  bool any_ptx = false;
  bool any_sass = false;
  // Only sm_75 and compute_75: what nvcc 13 makes when no target is stated.
  bool only_default_target = false;
  // "sm_75, sm_80, compute_80", for messages.
  std::string held;
  // A library of the CUDA toolkit (cuBLAS, cuDNN, ...), by name.
  bool vendor = false;
  // All kernels of all counting fatbins were read.
  bool kernels_complete = true;

  absl::string_view name() const { return report->name(); }
};

class Prepared {
 public:
  explicit Prepared(const v1::ArtifactReport& report);
  const std::vector<FileView>& files() const { return files_; }

 private:
  std::vector<FileView> files_;
};

// Whether a base name is one of NVIDIA's own CUDA libraries.
bool IsVendorLibrary(absl::string_view base_name);

}  // namespace twinpath::compat::internal

#endif  // TWINPATH_COMPAT_PREPARED_H_
