#include "inspect/collect.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "inspect/cubin.h"
#include "inspect/image.h"
#include "inspect/ptx.h"
#include "inspect/report_problem.h"

namespace twinpath::inspect {
namespace {

constexpr char kFinalSection[] = ".nv_fatbin";
constexpr char kRelocatableSection[] = "__nv_relfatbin";
// A kernel-less image of the device link stands in nearly every linked file and
// tells the linking toolkit; it is read in list mode too, where it is small.
constexpr uint64_t kStubBytes = 64 << 10;
// Most entries of a fatbin inside an offload bundle; compilers write a dozen.
constexpr uint64_t kMaxBundleEntries = 4096;
// Enough to see what an offload bundle's entry is.
constexpr uint64_t kEntryHead = 4096;
// LLVM bitcode, raw and wrapped, and NVIDIA's container of it.
constexpr char kBitcodeMark[] = "BC\xC0\xDE";
constexpr char kLtoIrMark[] = "\xED\x43\x4E\x7F";

ParsedTarget TargetOfArch(absl::string_view arch) {
  ParsedTarget target;
  if (!absl::ConsumePrefix(&arch, "sm_") &&
      !absl::ConsumePrefix(&arch, "compute_")) {
    return target;
  }
  if (absl::ConsumeSuffix(&arch, "a")) {
    target.suffix = v1::TARGET_SUFFIX_ARCH;
  } else if (absl::ConsumeSuffix(&arch, "f")) {
    target.suffix = v1::TARGET_SUFFIX_FAMILY;
  }
  if (!absl::SimpleAtoi(arch, &target.number)) target = {};
  return target;
}

// The section that holds `offset`, as a label; "" if none is known.
absl::string_view LabelAt(uint64_t offset, const ElfView* elf) {
  const ElfSection* const section =
      elf != nullptr ? elf->SectionAtOffset(offset) : nullptr;
  return section != nullptr ? section->name.substr(0, 128) : "";
}

}  // namespace

bool CodeCollector::AddFatbin(const FatbinWalk& walk, const ElfView* elf) {
  uint64_t cost = ReportBudget::kFatbinCost + walk.problem.size();
  for (const FatbinEntry& entry : walk.entries) {
    cost += ReportBudget::kImageCost + entry.name.size() + entry.options.size();
  }
  const absl::string_view label = LabelAt(walk.offset, elf);
  v1::Fatbin* const added = StartFatbin(walk.offset, label, cost);
  if (added == nullptr) return false;
  v1::Fatbin& fatbin = *added;
  fatbin.set_size_bytes(walk.size);
  fatbin.set_relocatable_section(label == kRelocatableSection);
  if (walk.state == FatbinState::kDamaged) {
    fatbin.set_damaged(true);
    fatbin.set_problem(walk.problem);
    AddProblem(
        "TP229",
        absl::StrCat("fatbin at offset ", walk.offset, ": ", walk.problem),
        report_);
  }
  const bool first_final = label == kFinalSection && !seen_final_;
  seen_final_ |= first_final;
  const bool label_tells =
      label == kFinalSection || label == kRelocatableSection;
  for (const FatbinEntry& entry : walk.entries) {
    v1::Image& image = *fatbin.add_images();
    image.set_index(image_count_++);
    DescribeEntry(entry, fatbin.relocatable_section(), image);
    Payload payload = PayloadOf(entry, image);
    payload.fatbin = fatbin.index();
    if (options_.kernels || options_.image_digests) {
      payloads_.push_back(payload);
    } else if (image.kind_number() == kEntryElf) {
      payload.notes = first_final && image.expanded_bytes() <= kStubBytes;
      payload.peek = !payload.notes;
      if (payload.notes || !label_tells ||
          image.compression() == v1::COMPRESSION_NONE) {
        payloads_.push_back(payload);
      }
    }
  }
  return true;
}

v1::Fatbin* CodeCollector::StartFatbin(uint64_t offset, absl::string_view label,
                                       uint64_t cost) {
  if (!budget_.Take(cost + label.size())) {
    complete_ = false;
    AddProblem("TP232",
               absl::StrCat("the report has reached its cap at the "
                            "device code at offset ",
                            offset, "; it and what lies behind are left out"),
               report_);
    return nullptr;
  }
  v1::Fatbin& fatbin = *report_.add_fatbins();
  fatbin.set_index(static_cast<uint32_t>(report_.fatbins_size() - 1));
  fatbin.set_offset(offset);
  for (const char c : label) {
    // A proto string has to be UTF-8.
    fatbin.mutable_section()->push_back(c >= ' ' && c <= '~' ? c : '?');
  }
  return &fatbin;
}

bool CodeCollector::AddBareImage(const BareImage& bare, const ElfView* elf,
                                 ParsedTarget target, bool foreign) {
  v1::Fatbin* const fatbin =
      StartFatbin(bare.offset, LabelAt(bare.offset, elf),
                  ReportBudget::kFatbinCost + ReportBudget::kImageCost +
                      bare.name.size() + bare.problem.size());
  if (fatbin == nullptr) return false;
  fatbin->set_bare(true);
  fatbin->set_size_bytes(bare.stored);
  if (foreign) fatbin->set_registration(v1::REGISTRATION_LEFT_OVER);
  v1::Image& image = *fatbin->add_images();
  image.set_index(image_count_++);
  image.set_kind(bare.kind == kEntryElf     ? v1::IMAGE_KIND_SASS
                 : bare.kind == kEntryPtx   ? v1::IMAGE_KIND_PTX
                 : bare.kind == kEntryLtoIr ? v1::IMAGE_KIND_LTO_IR
                                            : v1::IMAGE_KIND_OTHER);
  image.set_kind_number(bare.kind);
  image.set_offset(bare.offset);
  image.set_stored_bytes(bare.stored);
  image.set_expanded_bytes(bare.expanded);
  image.set_compression(bare.compression);
  if (target.number != 0) {
    image.mutable_target()->set_number(target.number);
    image.mutable_target()->set_suffix(target.suffix);
  }
  if (!bare.name.empty()) image.set_name(bare.name);
  if (!bare.problem.empty()) image.set_problem(bare.problem);
  if (bare.cubin && !options_.image_digests &&
      bare.expanded <= MaxImageBytes(options_)) {
    ApplyCubin(*bare.cubin, options_.kernels, budget_, image);
    return true;
  }
  payloads_.push_back({.image = &image,
                       .fatbin = fatbin->index(),
                       .offset = bare.offset,
                       .stored = bare.stored,
                       .expanded = bare.expanded,
                       .target_unknown = target.number == 0});
  return true;
}

absl::Status CodeCollector::AddBundle(const OffloadBundle& bundle,
                                      const ElfView* elf) {
  if (!bundle.problem.empty()) {
    AddProblem("TP232",
               absl::StrCat("the offload bundle at offset ", bundle.offset,
                            ": ", bundle.problem),
               report_);
  }
  for (const OffloadEntry& entry : bundle.entries) {
    if (!complete_) break;
    TWINPATH_RETURN_IF_ERROR(AddBundleEntry(entry, elf));
  }
  return absl::OkStatus();
}

absl::Status CodeCollector::AddBundleEntry(const OffloadEntry& entry,
                                           const ElfView* elf) {
  BareImage bare;
  bare.offset = entry.offset;
  bare.stored = entry.size;
  bare.expanded = entry.size;
  bare.name = entry.Describe();
  if (!entry.for_nvidia()) {
    bare.problem = absl::StrCat(bare.name, ": no code for NVIDIA's GPUs");
    AddBareImage(bare, elf, {}, true);
    return absl::OkStatus();
  }
  if (entry.image == OffloadImage::kFatbinary) {
    TWINPATH_ASSIGN_OR_RETURN(
        const FatbinWalk walk,
        WalkFatbin(source_, entry.offset, entry.offset + entry.size,
                   kMaxBundleEntries));
    if (walk.state != FatbinState::kNone) {
      AddFatbin(walk, elf);
      return absl::OkStatus();
    }
  }
  // What it is shows its beginning, not what the bundle calls it.
  TWINPATH_ASSIGN_OR_RETURN(
      std::string head,
      ReadUpTo(source_, entry.offset, std::min(entry.size, kEntryHead)));
  if (LooksLikeCubin(head)) {
    bare.kind = kEntryElf;
  } else if (LooksLikePtx(head)) {
    bare.kind = kEntryPtx;
  } else if (entry.image == OffloadImage::kBitcode ||
             absl::StartsWith(head, kBitcodeMark) ||
             absl::StartsWith(head, kLtoIrMark)) {
    bare.kind = kEntryLtoIr;
  } else {
    bare.problem =
        absl::StrCat(bare.name, ": its beginning is of no known kind");
  }
  AddBareImage(bare, elf, TargetOfArch(entry.arch));
  return absl::OkStatus();
}

void CodeCollector::AddFirst(uint16_t kind, uint64_t size) {
  AddBareImage({.offset = 0, .stored = size, .expanded = size, .kind = kind},
               nullptr);
}

}  // namespace twinpath::inspect
