#include "inspect/inspect.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/status.h"
#include "inspect/bare.h"
#include "inspect/byte_source.h"
#include "inspect/collect.h"
#include "inspect/demangle.h"
#include "inspect/device_link.h"
#include "inspect/dynamic.h"
#include "inspect/elf_view.h"
#include "inspect/fatbin.h"
#include "inspect/fatbin_queue.h"
#include "inspect/file_kind.h"
#include "inspect/host_facts.h"
#include "inspect/host_names.h"
#include "inspect/packed.h"
#include "inspect/payload.h"
#include "inspect/registration.h"
#include "inspect/report_budget.h"
#include "inspect/report_problem.h"
#include "inspect/runtime.h"
#include "inspect/scan.h"

namespace twinpath::inspect {
namespace {

class Inspection {
 public:
  Inspection(const ByteSource& source, const InspectOptions& options,
             ReportBudget& budget, v1::FileReport& report,
             const FatbinSink& early)
      : source_(source),
        options_(options),
        report_(report),
        budget_(budget),
        early_(early),
        code_(source, options, budget, report) {}

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
        TWINPATH_RETURN_IF_ERROR(WholePtx());
        break;
      case v1::FILE_KIND_LTO_IR:
        code_.AddFirst(kEntryLtoIr, source_.size());
        break;
      case v1::FILE_KIND_ARCHIVE:
        Problem("TP232", absl::StrCat("a ", content.archive,
                                      ": its members are not opened"));
        if (!content.plain_members) return absl::OkStatus();
        TWINPATH_RETURN_IF_ERROR(Scan(whole, nullptr, false));
        break;
      case v1::FILE_KIND_TEXT:
        return LookForPayload(source_, head, report_);
      default:
        TWINPATH_RETURN_IF_ERROR(Scan(whole, nullptr, false));
        break;
    }
    return Finish();
  }

 private:
  void Problem(absl::string_view code, absl::string_view detail) {
    AddProblem(code, detail, report_);
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
      TWINPATH_RETURN_IF_ERROR(BareCubin(elf));
      return Finish();
    }
    TWINPATH_ASSIGN_OR_RETURN(const DynamicTable dynamic,
                              ReadDynamic(source_, elf));
    TWINPATH_RETURN_IF_ERROR(AddHostFacts(source_, elf, dynamic, report_));
    const bool is_cudart = absl::StartsWith(dynamic.soname, "libcudart.so");
    const std::vector<ScanRange> ranges = ScanRanges(elf, source_.size());
    TWINPATH_RETURN_IF_ERROR(Scan(ranges, &elf, !is_cudart));
    TWINPATH_RETURN_IF_ERROR(
        registration_.Read(source_, elf, code_.complete(), budget_, report_));
    TWINPATH_RETURN_IF_ERROR(LookForPacker(source_, elf, head, report_));
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
          if (finding.fatbin) return code_.AddFatbin(*finding.fatbin, elf);
          if (finding.bare) return code_.AddBareImage(*finding.bare, elf);
          nested = code_.AddBundle(*finding.bundle, elf);
          return nested.ok() && code_.complete();
        },
        on_cudart, PrefixOptionsOf(options_, true));
    const absl::Status& status = nested.ok() ? scanned : nested;
    if (absl::IsResourceExhausted(status) || absl::IsDataLoss(status)) {
      code_.set_incomplete();
      Problem("TP232", absl::StrCat("the search for device code ended early: ",
                                    status.message()));
      return absl::OkStatus();
    }
    return status;
  }

  // A file that begins with a cubin. Its header is always read: nothing else
  // tells the target. What stands behind it is searched.
  absl::Status BareCubin(const ElfView& elf) {
    report_.set_kind(v1::FILE_KIND_CUBIN);
    if (const std::string& damage = elf.section_problem(); !damage.empty()) {
      Problem("TP233", damage);
    }
    ProbeBudget looking;
    TWINPATH_ASSIGN_OR_RETURN(const std::optional<BareImage> cubin,
                              ProbeCubin(source_, 0, source_.size(), looking));
    if (cubin && cubin->problem.empty() && cubin->stored < source_.size()) {
      return Scan({{0, source_.size(), false}}, nullptr, false);
    }
    code_.AddFirst(kEntryElf, source_.size());
    return absl::OkStatus();
  }

  // A file that begins with PTX text, which ends at its first NUL. What stands
  // behind the text is searched: from the first byte on that is none, and a
  // little before, because most of what packs code begins with such bytes.
  absl::Status WholePtx() {
    constexpr uint64_t kWindow = 1 << 20;
    constexpr uint64_t kBefore = 64;
    const uint64_t size = source_.size();
    uint64_t text = size;
    uint64_t nul = size;
    for (uint64_t at = 0; at < size && nul == size; at += kWindow) {
      TWINPATH_ASSIGN_OR_RETURN(const std::string window,
                                ReadUpTo(source_, at, kWindow));
      if (text == size) {
        const auto other =
            std::find_if_not(window.begin(), window.end(), IsTextByte);
        if (other != window.end()) {
          text = at + static_cast<uint64_t>(other - window.begin());
        }
      }
      const size_t end = window.find('\0');
      if (end != std::string::npos) nul = at + end;
    }
    code_.AddFirst(kEntryPtx, nul);
    if (text == size) return absl::OkStatus();
    return Scan({{text - std::min(text, kBefore), size, false}}, nullptr,
                false);
  }

  // Reads payloads, then settles what depends on them.
  absl::Status Finish() {
    const std::function<void(v1::Fatbin&)> settle = [this](v1::Fatbin& fatbin) {
      registration_.Settle(fatbin);
    };
    FatbinQueue queue(*report_.mutable_fatbins(), settle, early_);
    for (const Payload& payload : code_.payloads())
      queue.Expect(payload.fatbin);
    PayloadReader(source_, options_, budget_)
        .ReadAll(code_.payloads(), [&queue](const Payload& payload) {
          queue.Done(payload.fatbin);
        });
    queue.Finish();
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

  const ByteSource& source_;
  const InspectOptions& options_;
  v1::FileReport& report_;
  ReportBudget& budget_;
  const FatbinSink& early_;
  CodeCollector code_;
  Registration registration_;
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
