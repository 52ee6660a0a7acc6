#include "inspect/image.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace twinpath::inspect {
namespace {

v1::ImageKind KindOfEntry(uint16_t kind, bool relocatable_section) {
  switch (kind) {
    case kEntryPtx:
      return relocatable_section ? v1::IMAGE_KIND_RELOCATABLE_PTX
                                 : v1::IMAGE_KIND_PTX;
    case kEntryElf:
      return relocatable_section ? v1::IMAGE_KIND_RELOCATABLE_SASS
                                 : v1::IMAGE_KIND_SASS;
    case kEntryLtoIr:
      return v1::IMAGE_KIND_LTO_IR;
    case kEntryRelocatablePtx:
      return v1::IMAGE_KIND_RELOCATABLE_PTX;
    default:
      return v1::IMAGE_KIND_OTHER;
  }
}

v1::TargetSuffix SuffixOfLetter(char letter) {
  switch (letter) {
    case 'a':
      return v1::TARGET_SUFFIX_ARCH;
    case 'f':
      return v1::TARGET_SUFFIX_FAMILY;
    default:
      return v1::TARGET_SUFFIX_NONE;
  }
}

// Sets the target where the entry does not state it. A bare image's target is
// unset before.
void ApplyTarget(uint32_t number, char suffix, v1::Image& image) {
  v1::Target& target = *image.mutable_target();
  if (target.number() == 0) target.set_number(number);
  if (target.suffix() == v1::TARGET_SUFFIX_UNSPECIFIED ||
      (target.suffix() == v1::TARGET_SUFFIX_NONE && suffix != 0)) {
    target.set_suffix(SuffixOfLetter(suffix));
  }
  if (number != 0 && target.number() != number) {
    image.set_payload_target(number);
    SetProblem(image, absl::StrCat("the entry says target ", target.number(),
                                   ", its payload says ", number));
  }
}

constexpr char kNoRoomForKernels[] =
    "kernels left out: the report has reached its cap";

}  // namespace

bool IsSass(const v1::Image& image) {
  return image.kind() == v1::IMAGE_KIND_SASS ||
         image.kind() == v1::IMAGE_KIND_RELOCATABLE_SASS;
}
bool IsPtx(const v1::Image& image) {
  return image.kind() == v1::IMAGE_KIND_PTX ||
         image.kind() == v1::IMAGE_KIND_RELOCATABLE_PTX;
}

void SetProblem(v1::Image& image, absl::string_view problem) {
  if (image.problem().empty()) image.set_problem(std::string(problem));
}

std::string FlagHint(const v1::Image& image) {
  const uint64_t unknown = image.flags() & ~kKnownFlags;
  if (unknown == 0) return "";
  return absl::StrFormat(" (flags 0x%x: this version does not know 0x%x)",
                         image.flags(), unknown);
}

void SetStatusProblem(v1::Image& image, const absl::Status& status) {
  SetProblem(image, absl::StrCat(status.message(), FlagHint(image)));
}

void DescribeEntry(const FatbinEntry& entry, bool relocatable_section,
                   v1::Image& image) {
  image.set_kind(KindOfEntry(entry.kind, relocatable_section));
  image.set_kind_number(entry.kind);
  image.mutable_target()->set_number(entry.arch);
  image.mutable_target()->set_suffix(SuffixOfFlags(entry.flags));
  if (IsPtx(image)) {
    image.mutable_ptx_isa()->set_major(entry.version_major);
    image.mutable_ptx_isa()->set_minor(entry.version_minor);
  }
  image.set_offset(entry.offset);
  image.set_stored_bytes(entry.payload_bytes);
  image.set_compression(CompressionOfFlags(entry.flags));
  image.set_expanded_bytes(image.compression() == v1::COMPRESSION_NONE
                               ? entry.payload_bytes
                               : entry.decompressed_bytes);
  image.set_flags(entry.flags);
  if (!entry.name.empty()) image.set_name(entry.name);
  if (!entry.options.empty()) {
    image.mutable_producer()->set_options(entry.options);
  }
  if (image.kind() == v1::IMAGE_KIND_OTHER) {
    SetProblem(image,
               absl::StrFormat("entry kind 0x%x: this version does not know it",
                               entry.kind));
  }
  if (image.compression() == v1::COMPRESSION_OPAQUE &&
      image.kind() != v1::IMAGE_KIND_LTO_IR) {
    SetProblem(image, absl::StrFormat("opaque payload (flags 0x%x): only the "
                                      "producer's tools read it",
                                      entry.flags));
  }
  if (image.compression() != v1::COMPRESSION_NONE &&
      image.compression() != v1::COMPRESSION_OPAQUE &&
      (entry.compressed_bytes == 0 ||
       entry.compressed_bytes > entry.payload_bytes)) {
    SetProblem(image, absl::StrCat("its header says ", entry.compressed_bytes,
                                   " compressed bytes in a payload of ",
                                   entry.payload_bytes));
  }
}

void ApplyCubin(Cubin cubin, bool kernels, ReportBudget& budget,
                v1::Image& image) {
  image.set_kind(cubin.capsule_only  ? v1::IMAGE_KIND_OTHER
                 : cubin.relocatable ? v1::IMAGE_KIND_RELOCATABLE_SASS
                                     : v1::IMAGE_KIND_SASS);
  if (cubin.capsule_only) {
    SetProblem(image, "capsule code that still has to be finalised");
  }
  ApplyTarget(cubin.target, cubin.suffix, image);
  if (cubin.virtual_architecture && *cubin.virtual_architecture != 0) {
    image.set_virtual_architecture(*cubin.virtual_architecture);
  }
  // Foreign bytes in proto strings have to be ASCII; tools write nothing else.
  const auto clean = [](std::string text) {
    for (char& c : text) {
      if (c < ' ' || c > '~') c = '?';
    }
    text.resize(std::min<size_t>(text.size(), 256));
    return text;
  };
  if (!cubin.tool.empty()) {
    image.mutable_producer()->set_tool(clean(cubin.tool));
    image.mutable_producer()->set_tool_version(clean(cubin.tool_version));
  }
  if (!cubin.options.empty() && cubin.options.size() <= (16 << 10) &&
      budget.Take(cubin.options.size())) {
    image.mutable_producer()->set_options(cubin.options);
  }
  if (cubin.toolkit_major != 0) {
    v1::Version& toolkit = *image.mutable_producer()->mutable_toolkit();
    toolkit.set_major(cubin.toolkit_major);
    toolkit.set_minor(cubin.toolkit_minor);
  }
  if (!cubin.problem.empty()) SetProblem(image, cubin.problem);
  if (!kernels) return;
  uint64_t cost = 0;
  for (const CubinKernel& kernel : cubin.kernels) {
    cost += ReportBudget::kKernelCost + kernel.name.size();
  }
  if (!budget.Take(cost)) {
    SetProblem(image, kNoRoomForKernels);
    return;
  }
  image.mutable_kernels()->Reserve(static_cast<int>(cubin.kernels.size()));
  for (CubinKernel& kernel : cubin.kernels) {
    v1::Kernel& out = *image.add_kernels();
    out.set_name(std::move(kernel.name));
    if (kernel.registers) out.set_registers(*kernel.registers);
    if (kernel.shared_bytes) out.set_shared_bytes(*kernel.shared_bytes);
    if (kernel.max_threads) out.set_max_threads(*kernel.max_threads);
  }
  image.set_kernels_read(true);
}

void ApplyPtx(const PtxModule& module, bool kernels, ReportBudget& budget,
              v1::Image& image) {
  if (module.isa_major != 0) {
    image.mutable_ptx_isa()->set_major(module.isa_major);
    image.mutable_ptx_isa()->set_minor(module.isa_minor);
  }
  ApplyTarget(module.target, module.suffix, image);
  if (!module.problem.empty()) SetProblem(image, module.problem);
  if (!kernels) return;
  uint64_t cost = 0;
  for (const PtxKernel& kernel : module.kernels) {
    cost += ReportBudget::kKernelCost + kernel.name.size();
  }
  if (!budget.Take(cost)) {
    SetProblem(image, kNoRoomForKernels);
    return;
  }
  for (const PtxKernel& kernel : module.kernels) {
    v1::Kernel& out = *image.add_kernels();
    out.set_name(std::string(kernel.name));
    if (kernel.max_threads) out.set_max_threads(*kernel.max_threads);
  }
  image.set_kernels_read(true);
}

}  // namespace twinpath::inspect
