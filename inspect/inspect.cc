#include "inspect/inspect.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/digest.h"
#include "base/status.h"
#include "inspect/byte_source.h"
#include "inspect/cubin.h"
#include "inspect/dynamic.h"
#include "inspect/elf_view.h"
#include "inspect/fatbin.h"
#include "inspect/file_kind.h"
#include "inspect/image.h"
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

bool IsRelocatable(const v1::Image& image) {
  return image.kind() == v1::IMAGE_KIND_RELOCATABLE_SASS ||
         image.kind() == v1::IMAGE_KIND_RELOCATABLE_PTX;
}
bool IsFinal(const v1::Image& image) {
  return image.kind() == v1::IMAGE_KIND_SASS ||
         image.kind() == v1::IMAGE_KIND_PTX;
}

class Inspection {
 public:
  Inspection(const ByteSource& source, const InspectOptions& options,
             ReportBudget& budget, v1::FileReport& report)
      : source_(source), options_(options), report_(report), budget_(budget) {}

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
        BarePtx();
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
    TWINPATH_RETURN_IF_ERROR(
        Scan(ScanRanges(elf, source_.size()), &elf, !is_cudart));
    TWINPATH_RETURN_IF_ERROR(Wrappers(elf));
    TWINPATH_RETURN_IF_ERROR(LookForPacker(elf, head));
    TWINPATH_RETURN_IF_ERROR(Finish());
    SetCudart(dynamic, report_);
    return absl::OkStatus();
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
    std::function<void(uint64_t, absl::string_view)> on_window;
    if (look_for_cudart) {
      on_window = [this](uint64_t, absl::string_view bytes) {
        if (static_cudart_) return;
        static_cudart_ = ::memmem(bytes.data(), bytes.size(), kCudartText,
                                  sizeof(kCudartText) - 1) != nullptr;
      };
    }
    const absl::Status status = ScanForFatbins(
        source_, ranges,
        [this, elf](const FatbinWalk& walk) { return AddFatbin(walk, elf); },
        on_window);
    if (absl::IsResourceExhausted(status) || absl::IsDataLoss(status)) {
      scan_complete_ = false;
      Problem("TP232", absl::StrCat("the search for fatbins ended early: ",
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
    const ElfSection* const section =
        elf != nullptr ? elf->SectionAtOffset(walk.offset) : nullptr;
    const absl::string_view label =
        section != nullptr ? section->name.substr(0, 128) : "";
    if (!budget_.Take(cost + label.size())) {
      scan_complete_ = false;
      Problem("TP232", absl::StrCat("the report has reached its cap at the "
                                    "fatbin at offset ",
                                    walk.offset,
                                    "; it and what lies behind are left out"));
      return false;
    }
    v1::Fatbin& fatbin = *report_.add_fatbins();
    fatbin.set_index(static_cast<uint32_t>(report_.fatbins_size() - 1));
    fatbin.set_offset(walk.offset);
    fatbin.set_size_bytes(walk.size);
    for (const char c : label) {
      // A proto string has to be UTF-8.
      fatbin.mutable_section()->push_back(c >= ' ' && c <= '~' ? c : '?');
    }
    fatbin.set_relocatable_section(label == kRelocatableSection);
    if (walk.state == FatbinState::kDamaged) {
      fatbin.set_damaged(true);
      fatbin.set_problem(walk.problem);
      Problem("TP229", absl::StrCat("fatbin at offset ", walk.offset, ": ",
                                    walk.problem));
    }
    const bool label_tells =
        label == kFinalSection || label == kRelocatableSection;
    for (const FatbinEntry& entry : walk.entries) {
      v1::Image& image = *fatbin.add_images();
      image.set_index(image_count_++);
      DescribeEntry(entry, fatbin.relocatable_section(), image);
      Payload payload = PayloadOf(entry, image);
      if (options_.kernels || options_.image_digests) {
        payloads_.push_back(payload);
      } else if (image.kind_number() == kEntryElf) {
        payload.notes = label == kFinalSection && fatbin.index() == 0 &&
                        image.expanded_bytes() <= kStubBytes;
        payload.peek = !payload.notes;
        if (payload.notes || !label_tells ||
            image.compression() == v1::COMPRESSION_NONE) {
          payloads_.push_back(payload);
        }
      }
    }
    return true;
  }

  v1::Image& AddBare() {
    v1::Fatbin& fatbin = *report_.add_fatbins();
    fatbin.set_bare(true);
    fatbin.set_size_bytes(source_.size());
    v1::Image& image = *fatbin.add_images();
    image.set_index(image_count_++);
    image.set_stored_bytes(source_.size());
    image.set_expanded_bytes(source_.size());
    image.set_compression(v1::COMPRESSION_NONE);
    return image;
  }

  // A file that is one cubin. Its header is always read: nothing else tells
  // the target.
  void BareCubin(const ElfView& elf) {
    report_.set_kind(v1::FILE_KIND_CUBIN);
    v1::Image& image = AddBare();
    image.set_kind(v1::IMAGE_KIND_SASS);
    image.set_kind_number(kEntryElf);
    if (const std::string& damage = elf.section_problem(); !damage.empty()) {
      Problem("TP233", damage);
    }
    payloads_.push_back({.image = &image,
                         .stored = source_.size(),
                         .expanded = source_.size()});
  }

  void BarePtx() {
    v1::Image& image = AddBare();
    image.set_kind(v1::IMAGE_KIND_PTX);
    image.set_kind_number(kEntryPtx);
    payloads_.push_back({.image = &image,
                         .stored = source_.size(),
                         .expanded = source_.size()});
  }

  absl::Status Wrappers(const ElfView& elf) {
    absl::flat_hash_set<uint64_t> offsets;
    for (const v1::Fatbin& fatbin : report_.fatbins()) {
      offsets.insert(fatbin.offset());
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
    PayloadReader(source_, options_, budget_).ReadAll(payloads_);
    payloads_.clear();
    if (budget_.exhausted()) {
      Problem("TP232",
              "the report has reached its cap; kernels of some images "
              "are left out (see the images' problems)");
    }
    for (v1::Fatbin& fatbin : *report_.mutable_fatbins()) {
      for (v1::Image& image : *fatbin.mutable_images()) {
        // A bare image that could not be read.
        if (image.target().suffix() == v1::TARGET_SUFFIX_UNSPECIFIED) {
          image.mutable_target()->set_suffix(v1::TARGET_SUFFIX_NONE);
        }
      }
      MarkRelocatable(fatbin);
      fatbin.set_registration(RegistrationOf(fatbin));
    }
    if (report_.has_elf() && static_cudart_) {
      report_.mutable_elf()->set_static_cudart(true);
    }
    return absl::OkStatus();
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
  std::vector<Payload> payloads_;
  absl::flat_hash_set<uint64_t> registered_;
  uint32_t image_count_ = 0;
  bool wrappers_apply_ = false;
  // Every fatbin of the file is in the report.
  bool scan_complete_ = true;
  bool static_cudart_ = false;
};

}  // namespace

absl::Status InspectSource(const ByteSource& source,
                           const InspectOptions& options, ReportBudget& budget,
                           v1::FileReport& report) {
  TWINPATH_RETURN_IF_ERROR(Inspection(source, options, budget, report).Run());
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
