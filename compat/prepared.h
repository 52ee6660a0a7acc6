// Prepared: a report brought into the shape predictions need, once for all
// hosts: fatbins that count, kernels as numbers, what each image is. A file of
// thousands of fatbins has a few dozen distinct ones: what the driver decides
// on is kept once (shapes), and fatbins and kernels that no host can tell apart
// are grouped (classes), so that a prediction costs by what differs, not by the
// file's size.
//
// Does not count: relocatable images that nothing registers (left over),
// fatbins without a kernel (the device-link stub of every executable, files
// that only hold device functions), and the device runtime's own. Immutable
// after construction; thread-safe.

#ifndef TWINPATH_COMPAT_PREPARED_H_
#define TWINPATH_COMPAT_PREPARED_H_

#include <cstdint>
#include <optional>
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
  // Payload obfuscated (fatbinary's own scheme).
  bool opaque = false;
  // Flag bit 24 of the entry, which loses a tie between equal machine code.
  bool compat_note = false;
  // CUDA major of the toolkit that made machine code, as it says itself; 0: it
  // does not.
  uint32_t toolkit_major = 0;
  // Target number the payload states where the entry says another; else 0.
  uint32_t payload_target = 0;
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
  // Position in FileView::shapes and in FileView::classes.
  uint32_t shape = 0;
  uint32_t group = 0;
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

// Kernels that lie alike in fatbins of the same shapes.
struct KernelClass {
  // Where it is to be found: a fatbin's shape, and the positions of the images
  // that were read and do not hold it.
  struct Place {
    uint32_t shape = 0;
    std::vector<uint32_t> missing;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  std::vector<Place> places;
  uint32_t kernels = 0;
};

// Fatbins of one shape that hold kernels of the same classes.
struct FatbinClass {
  uint32_t shape = 0;
  // Positions in FileView::kernel_classes, ascending.
  std::vector<uint32_t> kernel_classes;
  uint32_t fatbins = 0;
  // The first of them, in file order.
  uint32_t first = 0;
};

struct FileView {
  const v1::FileReport* report = nullptr;
  // Fatbins that count.
  std::vector<FatbinView> fatbins;
  // Position in `fatbins` of the first fatbin of each shape.
  std::vector<uint32_t> shapes;
  std::vector<FatbinClass> classes;
  // Names of kernels by number, and the class of each.
  std::vector<absl::string_view> kernel_names;
  std::vector<uint32_t> kernel_class;
  std::vector<KernelClass> kernel_classes;
  // Numbers of the kernels, by name.
  std::vector<uint32_t> kernels_by_name;
  // Relocatable pieces of libcudadevrt, the device runtime of programs that
  // launch kernels from kernels: linked with the program's own, never launched
  // by themselves, so they do not count.
  std::vector<FatbinView> device_runtimes;
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
  const FatbinView& shape(uint32_t number) const {
    return fatbins[shapes[number]];
  }
  // Number of a kernel; nullopt: no image of the file holds it.
  std::optional<uint32_t> FindKernel(absl::string_view kernel) const;
};

// Which fatbins a Prepared takes.
enum class Take {
  // Those that count in a prediction.
  kCounting,
  // All, for comparing image by image with a driver.
  kAll,
};

class Prepared {
 public:
  explicit Prepared(const v1::ArtifactReport& report,
                    Take take = Take::kCounting);
  const std::vector<FileView>& files() const { return files_; }

 private:
  std::vector<FileView> files_;
};

// Whether a base name is one of NVIDIA's own CUDA libraries.
bool IsVendorLibrary(absl::string_view base_name);

}  // namespace twinpath::compat::internal

#endif  // TWINPATH_COMPAT_PREPARED_H_
