#include "inspect/inspect.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/digest.h"
#include "base/status.h"
#include "inspect/bare.h"
#include "inspect/byte_source.h"
#include "inspect/cubin.h"
#include "inspect/demangle.h"
#include "inspect/device_link.h"
#include "inspect/driver_note.h"
#include "inspect/dynamic.h"
#include "inspect/elf_view.h"
#include "inspect/fatbin.h"
#include "inspect/fatbin_queue.h"
#include "inspect/file_kind.h"
#include "inspect/host_names.h"
#include "inspect/image.h"
#include "inspect/offload.h"
#include "inspect/ptx.h"
#include "inspect/report_budget.h"
#include "inspect/runtime.h"
#include "inspect/scan.h"
#include "inspect/wrapper.h"

namespace twinpath::inspect {
namespace {

constexpr char kFinalSection[] = ".nv_fatbin";
constexpr char kRelocatableSection[] = "__nv_relfatbin";
constexpr char kUpxMark[] = "UPX!";
constexpr size_t kUpxHeadBytes = 4096;
constexpr uint64_t kTailBytes = 4096;
// A kernel-less image of the device link stands in nearly every linked file and
// tells the linking toolkit; it is read in list mode too, where it is small.
constexpr uint64_t kStubBytes = 64 << 10;
constexpr size_t kMaxProblems = 200;
// Most entries of a fatbin inside an offload bundle; compilers write a dozen.
constexpr uint64_t kMaxBundleEntries = 4096;
// Enough to see what an offload bundle's entry is.
constexpr uint64_t kEntryHead = 4096;
// LLVM bitcode, raw and wrapped, and NVIDIA's container of it.
constexpr char kBitcodeMark[] = "BC\xC0\xDE";
constexpr char kLtoIrMark[] = "\xED\x43\x4E\x7F";

bool IsRelocatable(const v1::Image& image) {
  return image.kind() == v1::IMAGE_KIND_RELOCATABLE_SASS ||
         image.kind() == v1::IMAGE_KIND_RELOCATABLE_PTX;
}
bool IsFinal(const v1::Image& image) {
  return image.kind() == v1::IMAGE_KIND_SASS ||
         image.kind() == v1::IMAGE_KIND_PTX;
}

// What an architecture's name says, "sm_90a"; 0 if it is none.
struct ParsedTarget {
  uint32_t number = 0;
  v1::TargetSuffix suffix = v1::TARGET_SUFFIX_NONE;
};

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

class Inspection {
 public:
  Inspection(const ByteSource& source, const InspectOptions& options,
             ReportBudget& budget, v1::FileReport& report,
             const FatbinSink& early)
      : source_(source),
        options_(options),
        report_(report),
        budget_(budget),
        early_(early) {}

  absl::Status Run() {
    report_.set_size_bytes(source_.size());
    report_.set_kernels_read(options_.kernels);
    TWINPATH_ASSIGN_OR_RETURN(const std::string head,
                              ReadUpTo(source_, 0, kHeadBytes));
    const ContentKind content = KindOfContent(head);
    report_.set_kind(content.kind);
    if (content.elf) return RunElf(head);
    const std::vector<ScanRange> whole = {{0, source_.size(), false}};
    switch (content.kind) {
      case v1::FILE_KIND_FATBIN:
        TWINPATH_RETURN_IF_ERROR(Scan(whole, nullptr, false));
        break;
      case v1::FILE_KIND_PTX:
        WholeFile(kEntryPtx);
        break;
      case v1::FILE_KIND_LTO_IR:
        WholeFile(kEntryLtoIr);
        break;
      case v1::FILE_KIND_ARCHIVE:
        Problem("TP232", absl::StrCat("a ", content.archive,
                                      ": its members are not opened"));
        if (!content.plain_members) return absl::OkStatus();
        TWINPATH_RETURN_IF_ERROR(Scan(whole, nullptr, false));
        break;
      case v1::FILE_KIND_TEXT:
        return LookForPayload(head);
      default:
        TWINPATH_RETURN_IF_ERROR(Scan(whole, nullptr, false));
        break;
    }
    return Finish();
  }

 private:
  void Problem(absl::string_view code, absl::string_view detail) {
    if (static_cast<size_t>(report_.problems_size()) >= kMaxProblems) return;
    v1::Reason& reason = *report_.add_problems();
    reason.set_code(std::string(code));
    reason.set_detail(std::string(detail));
  }

  // ELF files: host code, device code, or something foreign.
  absl::Status RunElf(absl::string_view head) {
    absl::StatusOr<ElfView> opened = ElfView::Open(source_);
    if (!opened.ok()) {
      if (absl::IsUnimplemented(opened.status())) {
        return RunForeignElf(head, opened.status().message());
      }
      if (!absl::IsDataLoss(opened.status())) return opened.status();
      report_.set_kind(v1::FILE_KIND_DAMAGED_ELF);
      Problem("TP233", opened.status().message());
      return absl::OkStatus();
    }
    const ElfView& elf = *opened;
    if (elf.machine() == kElfMachineCuda) {
      BareCubin(elf);
      return Finish();
    }
    TWINPATH_ASSIGN_OR_RETURN(const DynamicTable dynamic,
                              ReadDynamic(source_, elf));
    TWINPATH_RETURN_IF_ERROR(HostFacts(elf, dynamic));
    const bool is_cudart = absl::StartsWith(dynamic.soname, "libcudart.so");
    const std::vector<ScanRange> ranges = ScanRanges(elf, source_.size());
    TWINPATH_RETURN_IF_ERROR(Scan(ranges, &elf, !is_cudart));
    TWINPATH_RETURN_IF_ERROR(Wrappers(elf));
    TWINPATH_RETURN_IF_ERROR(LookForPacker(elf, head));
    TWINPATH_RETURN_IF_ERROR(Finish());
    SetCudart(dynamic, report_);
    AddClampedImages(report_);
    return FindUnnamedKernels(source_, ranges, report_);
  }

  // 32-bit or big-endian: the host half is not read, the bytes are.
  absl::Status RunForeignElf(absl::string_view head, absl::string_view what) {
    report_.set_kind(v1::FILE_KIND_OTHER);
    if (head.size() > 20) {
      report_.mutable_elf()->set_cpu_architecture(v1::CPU_ARCHITECTURE_OTHER);
    }
    Problem("TP232", absl::StrCat(what, ": its host half is not read"));
    TWINPATH_RETURN_IF_ERROR(Scan({{0, source_.size(), true}}, nullptr, false));
    return Finish();
  }

  absl::Status HostFacts(const ElfView& elf, const DynamicTable& dynamic) {
    v1::ElfFacts& facts = *report_.mutable_elf();
    facts.set_machine(elf.machine());
    facts.set_cpu_architecture(
        elf.machine() == kElfMachineX86_64    ? v1::CPU_ARCHITECTURE_X86_64
        : elf.machine() == kElfMachineAarch64 ? v1::CPU_ARCHITECTURE_AARCH64
                                              : v1::CPU_ARCHITECTURE_OTHER);
    TWINPATH_ASSIGN_OR_RETURN(const std::string interpreter,
                              ReadInterpreter(source_, elf));
    if (!interpreter.empty()) facts.set_interpreter(interpreter);
    if (!dynamic.soname.empty()) facts.set_soname(dynamic.soname);
    for (const std::string& needed : dynamic.needed) facts.add_needed(needed);
    for (absl::string_view part :
         absl::StrSplit(dynamic.rpath, ':', absl::SkipEmpty())) {
      facts.add_rpath(std::string(part));
    }
    for (absl::string_view part :
         absl::StrSplit(dynamic.runpath, ':', absl::SkipEmpty())) {
      facts.add_runpath(std::string(part));
    }
    if (dynamic.soname == "libcuda.so.1") {
      TWINPATH_ASSIGN_OR_RETURN(auto note, ReadForwardCompat(source_, elf));
      if (note) *facts.mutable_forward_compat() = *std::move(note);
    }
    AddRuntimeCompilers(dynamic, report_);

    switch (elf.type()) {
      case kElfTypeRel:
        report_.set_kind(v1::FILE_KIND_ELF_OBJECT);
        break;
      case kElfTypeExec:
        report_.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
        break;
      case kElfTypeDyn:
        report_.set_kind(
            dynamic.pie || (!interpreter.empty() && dynamic.soname.empty())
                ? v1::FILE_KIND_ELF_EXECUTABLE
                : v1::FILE_KIND_ELF_SHARED);
        break;
      default:
        report_.set_kind(v1::FILE_KIND_OTHER);
        break;
    }
    if (std::string damage = elf.Damage(source_.size()); !damage.empty()) {
      report_.set_kind(v1::FILE_KIND_DAMAGED_ELF);
      Problem("TP233", damage);
    } else if (!dynamic.problem.empty()) {
      Problem("TP232", dynamic.problem);
    }
    return absl::OkStatus();
  }

  // Finds the fatbins of the ranges and puts them into the report.
  absl::Status Scan(const std::vector<ScanRange>& ranges, const ElfView* elf,
                    bool look_for_cudart) {
    CudartSink on_cudart;
    if (look_for_cudart) {
      on_cudart = [this] {
        static_cudart_.store(true, std::memory_order_relaxed);
      };
    }
    absl::Status nested;
    const absl::Status scanned = ScanForCode(
        source_, ranges,
        [&](const Finding& finding) {
          if (finding.fatbin) return AddFatbin(*finding.fatbin, elf);
          if (finding.bare) return AddBareImage(*finding.bare, elf);
          nested = AddBundle(*finding.bundle, elf);
          return nested.ok() && scan_complete_;
        },
        on_cudart);
    const absl::Status& status = nested.ok() ? scanned : nested;
    if (absl::IsResourceExhausted(status) || absl::IsDataLoss(status)) {
      scan_complete_ = false;
      Problem("TP232", absl::StrCat("the search for device code ended early: ",
                                    status.message()));
      return absl::OkStatus();
    }
    return status;
  }

  // Returns false when the report is full.
  bool AddFatbin(const FatbinWalk& walk, const ElfView* elf) {
    uint64_t cost = ReportBudget::kFatbinCost + walk.problem.size();
    for (const FatbinEntry& entry : walk.entries) {
      cost +=
          ReportBudget::kImageCost + entry.name.size() + entry.options.size();
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
      Problem("TP229", absl::StrCat("fatbin at offset ", walk.offset, ": ",
                                    walk.problem));
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

  // The section that holds `offset`, as a label; "" if none is known.
  static absl::string_view LabelAt(uint64_t offset, const ElfView* elf) {
    const ElfSection* const section =
        elf != nullptr ? elf->SectionAtOffset(offset) : nullptr;
    return section != nullptr ? section->name.substr(0, 128) : "";
  }

  // Starts a fatbin's message; nullptr when the report is full.
  v1::Fatbin* StartFatbin(uint64_t offset, absl::string_view label,
                          uint64_t cost) {
    if (!budget_.Take(cost + label.size())) {
      scan_complete_ = false;
      Problem("TP232",
              absl::StrCat("the report has reached its cap at the "
                           "device code at offset ",
                           offset, "; it and what lies behind are left out"));
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

  // Returns false when the report is full. A target of 0 is not known yet.
  bool AddBareImage(const BareImage& bare, const ElfView* elf,
                    ParsedTarget target = {}, bool foreign = false) {
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
    if (bare.header && !options_.kernels && !options_.image_digests) {
      ApplyCubin(*bare.header, false, budget_, image);
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

  // The entries of an offload bundle, each by its own kind.
  absl::Status AddBundle(const OffloadBundle& bundle, const ElfView* elf) {
    if (!bundle.problem.empty()) {
      Problem("TP232", absl::StrCat("the offload bundle at offset ",
                                    bundle.offset, ": ", bundle.problem));
    }
    for (const OffloadEntry& entry : bundle.entries) {
      if (!scan_complete_) break;
      TWINPATH_RETURN_IF_ERROR(AddBundleEntry(entry, elf));
    }
    return absl::OkStatus();
  }

  absl::Status AddBundleEntry(const OffloadEntry& entry, const ElfView* elf) {
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

  // A file that is one image, whatever its length.
  void WholeFile(uint16_t kind) {
    AddBareImage({.offset = 0,
                  .stored = source_.size(),
                  .expanded = source_.size(),
                  .kind = kind},
                 nullptr);
  }

  // A file that is one cubin. Its header is always read: nothing else tells
  // the target.
  void BareCubin(const ElfView& elf) {
    report_.set_kind(v1::FILE_KIND_CUBIN);
    if (const std::string& damage = elf.section_problem(); !damage.empty()) {
      Problem("TP233", damage);
    }
    WholeFile(kEntryElf);
  }

  absl::Status Wrappers(const ElfView& elf) {
    absl::flat_hash_set<uint64_t> offsets;
    for (const v1::Fatbin& fatbin : report_.fatbins()) {
      if (!fatbin.bare()) offsets.insert(fatbin.offset());
    }
    absl::StatusOr<std::vector<WrapperRecord>> wrappers =
        FindWrappers(source_, elf, offsets);
    if (!wrappers.ok()) {
      Problem("TP232", absl::StrCat("the fatbin wrappers cannot be read: ",
                                    wrappers.status().message()));
      return absl::OkStatus();
    }
    wrappers_apply_ = elf.type() != kElfTypeRel;
    for (const WrapperRecord& record : *wrappers) {
      const bool resolved = record.target && offsets.contains(*record.target);
      if (record.target && resolved) registered_.insert(*record.target);
      // It may point at one that was not listed; that is no fault of the file.
      if (!resolved && !scan_complete_) continue;
      if (!resolved) {
        Problem("TP230",
                absl::StrCat(
                    "the wrapper at offset ", record.offset,
                    record.target
                        ? absl::StrCat(" points at offset ", *record.target,
                                       ", where no fatbin starts")
                        : " points outside the file"));
      }
      if (!budget_.Take(ReportBudget::kWrapperCost)) {
        Problem("TP232", "the report has reached its cap at the wrappers");
        break;
      }
      v1::Wrapper& wrapper = *report_.add_wrappers();
      wrapper.set_offset(record.offset);
      wrapper.set_version(record.version);
      if (record.target) wrapper.set_fatbin_offset(*record.target);
      wrapper.set_resolved(resolved);
    }
    return absl::OkStatus();
  }

  // UPX removes the section table and leaves its mark near the start and near
  // the end.
  absl::Status LookForPacker(const ElfView& elf, absl::string_view head) {
    if (!elf.sections().empty() || report_.fatbins_size() > 0) {
      return absl::OkStatus();
    }
    const uint64_t tail_at =
        source_.size() - std::min(source_.size(), kTailBytes);
    TWINPATH_ASSIGN_OR_RETURN(const std::string tail,
                              ReadUpTo(source_, tail_at, kTailBytes));
    if (absl::StrContains(head.substr(0, kUpxHeadBytes), kUpxMark) ||
        absl::StrContains(tail, kUpxMark)) {
      report_.set_kind(v1::FILE_KIND_PACKED);
      Problem("TP215", "packed by UPX: unpack it, or run it, to judge it");
    }
    return absl::OkStatus();
  }

  // A script with a binary behind it unpacks itself.
  absl::Status LookForPayload(absl::string_view head) {
    if (!absl::StartsWith(head, "#!")) return absl::OkStatus();
    const uint64_t tail_at =
        source_.size() - std::min(source_.size(), kTailBytes);
    TWINPATH_ASSIGN_OR_RETURN(const std::string tail,
                              ReadUpTo(source_, tail_at, kTailBytes));
    if (LooksLikeText(head) && LooksLikeText(tail)) return absl::OkStatus();
    report_.set_kind(v1::FILE_KIND_PACKED);
    Problem("TP215",
            "a script with binary data behind it: unpack it, or run it, to "
            "judge it");
    return absl::OkStatus();
  }

  // Reads payloads, then settles what depends on them.
  absl::Status Finish() {
    const std::function<void(v1::Fatbin&)> settle = [this](v1::Fatbin& fatbin) {
      Settle(fatbin);
    };
    FatbinQueue queue(*report_.mutable_fatbins(), settle, early_);
    for (const Payload& payload : payloads_) queue.Expect(payload.fatbin);
    PayloadReader(source_, options_, budget_)
        .ReadAll(payloads_, [&queue](const Payload& payload) {
          queue.Done(payload.fatbin);
        });
    queue.Finish();
    payloads_.clear();
    if (budget_.exhausted()) {
      Problem("TP232",
              "the report has reached its cap; kernels of some images "
              "are left out (see the images' problems)");
    }
    if (report_.has_elf() && static_cudart_) {
      report_.mutable_elf()->set_static_cudart(true);
    }
    return absl::OkStatus();
  }

  // A fatbin whose images are read. The wrappers are known.
  void Settle(v1::Fatbin& fatbin) const {
    for (v1::Image& image : *fatbin.mutable_images()) {
      // A bare image that could not be read.
      if (image.target().suffix() == v1::TARGET_SUFFIX_UNSPECIFIED) {
        image.mutable_target()->set_suffix(v1::TARGET_SUFFIX_NONE);
      }
    }
    MarkRelocatable(fatbin);
    if (fatbin.registration() == v1::REGISTRATION_UNSPECIFIED) {
      fatbin.set_registration(RegistrationOf(fatbin));
    }
  }

  // PTX beside machine code that still has to be linked is for linking too.
  static void MarkRelocatable(v1::Fatbin& fatbin) {
    bool relocatable = false;
    for (const v1::Image& image : fatbin.images()) {
      if (image.kind() == v1::IMAGE_KIND_SASS) return;
      relocatable |= image.kind() == v1::IMAGE_KIND_RELOCATABLE_SASS;
    }
    if (!relocatable) return;
    for (v1::Image& image : *fatbin.mutable_images()) {
      if (image.kind() == v1::IMAGE_KIND_PTX) {
        image.set_kind(v1::IMAGE_KIND_RELOCATABLE_PTX);
      }
    }
  }

  v1::Registration RegistrationOf(const v1::Fatbin& fatbin) const {
    if (!wrappers_apply_) return v1::REGISTRATION_NOT_APPLICABLE;
    // No wrapper leads to a bare image: who keeps one loads it.
    if (fatbin.bare()) return v1::REGISTRATION_SELF_LOADED;
    if (registered_.contains(fatbin.offset())) {
      return v1::REGISTRATION_REGISTERED;
    }
    // Link inputs that lie where the compiler puts them are left over; those
    // that a library keeps elsewhere it links by itself, with nvJitLink.
    const bool by_compiler =
        fatbin.section().empty() || fatbin.relocatable_section();
    bool any_final = false;
    bool any_relocatable = false;
    for (const v1::Image& image : fatbin.images()) {
      any_final |= IsFinal(image);
      any_relocatable |= IsRelocatable(image);
    }
    return by_compiler && any_relocatable && !any_final
               ? v1::REGISTRATION_LEFT_OVER
               : v1::REGISTRATION_SELF_LOADED;
  }

  const ByteSource& source_;
  const InspectOptions& options_;
  v1::FileReport& report_;
  ReportBudget& budget_;
  const FatbinSink& early_;
  std::vector<Payload> payloads_;
  absl::flat_hash_set<uint64_t> registered_;
  uint32_t image_count_ = 0;
  bool wrappers_apply_ = false;
  // Every fatbin of the file is in the report.
  bool scan_complete_ = true;
  // A fatbin of the section for final code has been seen.
  bool seen_final_ = false;
  std::atomic<bool> static_cudart_{false};
};

}  // namespace

absl::Status InspectSource(const ByteSource& source,
                           const InspectOptions& options, ReportBudget& budget,
                           v1::FileReport& report, const FatbinSink& early) {
  // Names are added to kernels in the end.
  static const auto& none = *new FatbinSink;
  TWINPATH_RETURN_IF_ERROR(Inspection(source, options, budget, report,
                                      options.demangle ? none : early)
                               .Run());
  if (options.demangle) DemangleKernels(budget, report);
  if (options.digest) {
    TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest, Sha256OfSource(source));
    report.mutable_digest()->set_sha256(digest.Raw());
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::FileReport> InspectDescriptor(
    int fd, absl::string_view name, const InspectOptions& options) {
  v1::FileReport report;
  report.set_name(std::string(name));
  TWINPATH_ASSIGN_OR_RETURN_CTX(const FileSource source, FileSource::Open(fd),
                                std::string(name));
  ReportBudget budget(kMaxReportBytes);
  TWINPATH_RETURN_IF_ERROR_CTX(InspectSource(source, options, budget, report),
                               std::string(name));
  return report;
}

}  // namespace twinpath::inspect
