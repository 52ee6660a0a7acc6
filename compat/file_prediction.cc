#include "compat/file_prediction.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "compat/fix.h"
#include "compat/image_rules.h"
#include "compat/reason.h"
#include "compat/target.h"

namespace twinpath::compat::internal {
namespace {

// The better answer for a user, for choosing among fatbins with one kernel.
int Rank(v1::Outcome outcome) {
  switch (outcome) {
    case v1::OUTCOME_NATIVE:
      return 3;
    case v1::OUTCOME_JIT:
      return 2;
    case v1::OUTCOME_UNKNOWN:
      return 1;
    default:
      return 0;
  }
}

std::string DeviceName(const HostView& host) {
  return absl::StrCat(host.gpu_name.empty() ? "this GPU" : host.gpu_name, " (",
                      CapabilityName(host.device), ")");
}

// Puts the decisions of one file together.
class FileJudge {
 public:
  FileJudge(const FileView& file, const HostView& host, const Tables& tables,
            const PredictOptions& options)
      : file_(file), host_(host), tables_(tables), options_(options) {}

  v1::FilePrediction Run(absl::flat_hash_set<std::string>& found_needed) {
    prediction_.set_name(file_.report->name());
    for (const v1::Path path : kPaths) {
      prediction_.add_paths()->set_path(path);
    }
    if (!HostHalf()) {
      DecideFatbins();
      DecideKernels();
      for (size_t path = 0; path < 3; ++path) JudgePath(path);
      ListGaps();
      ListKernels();
      ListImages();
    }
    for (const std::string& needed : options_.needed_kernels) {
      for (const absl::string_view name : file_.kernel_names) {
        if (name == needed) found_needed.insert(needed);
      }
    }
    return std::move(prediction_);
  }

 private:
  v1::PathPrediction& Path(size_t path) {
    return *prediction_.mutable_paths(static_cast<int>(path));
  }

  void SetAll(v1::Outcome outcome, const v1::Reason& reason,
              absl::string_view settled_by = "") {
    for (size_t path = 0; path < 3; ++path) {
      Path(path).set_outcome(outcome);
      *Path(path).add_reasons() = reason;
      Path(path).set_settled_by(std::string(settled_by));
    }
  }

  // The command that shows what a file does.
  std::string RunIt() const {
    return absl::StrCat("twinpath check ", Printable(file_.name()),
                        " on a host with ", DeviceName(host_));
  }

  // What is decided before any device code is looked at. Returns whether it is.
  bool HostHalf() {
    const v1::FileReport& report = *file_.report;
    const bool has_code = !file_.fatbins.empty();
    if (report.has_elf() && CpuMismatch(report.elf())) return true;
    if (report.kind() == v1::FILE_KIND_PACKED) {
      SetAll(v1::OUTCOME_UNKNOWN, MakeReason("TP215", "packed executable"),
             RunIt());
      return true;
    }
    if (report.kind() == v1::FILE_KIND_DAMAGED_ELF) {
      SetAll(v1::OUTCOME_UNKNOWN,
             MakeReason("TP233", ProblemText("the ELF file is damaged")),
             RunIt());
      return true;
    }
    const bool cuda_host =
        report.has_elf() && report.elf().cudart().major() > 0;
    if ((has_code || cuda_host) && host_.blocker) {
      SetAll(host_.blocker->outcome, host_.blocker->reason,
             host_.blocker->settled_by);
      return true;
    }
    if (cuda_host && RuntimeTooNew(report.elf())) return true;
    if (has_code && host_.cpu == v1::CPU_ARCHITECTURE_UNSPECIFIED &&
        report.has_elf()) {
      SetAll(v1::OUTCOME_UNKNOWN,
             MakeReason("TP119", "the facts hold no CPU architecture"),
             "uname -m");
      return true;
    }
    if (file_.dangling != nullptr &&
        report.kind() != v1::FILE_KIND_ELF_OBJECT) {
      SetAll(v1::OUTCOME_FAILS,
             MakeReason(
                 "TP230",
                 absl::StrCat("the wrapper at offset ",
                              file_.dangling->offset(), " points at no fatbin"),
                 "", 200));
      return true;
    }
    return !has_code && WithoutCode();
  }

  bool CpuMismatch(const v1::ElfFacts& elf) {
    if (host_.cpu == v1::CPU_ARCHITECTURE_UNSPECIFIED ||
        elf.cpu_architecture() == v1::CPU_ARCHITECTURE_UNSPECIFIED ||
        elf.cpu_architecture() == host_.cpu) {
      return false;
    }
    SetAll(v1::OUTCOME_FAILS,
           MakeReason(
               "TP208",
               absl::StrCat("the file is for ", CpuName(elf.cpu_architecture()),
                            ", the host is ", CpuName(host_.cpu)),
               absl::StrCat("build the file for ", CpuName(host_.cpu))));
    return true;
  }

  bool RuntimeTooNew(const v1::ElfFacts& elf) {
    const TwoPart runtime = TwoPart::From(elf.cudart());
    if (!host_.cuda || runtime.major <= host_.cuda->major) return false;
    const std::string driver = tables_.MinimumDriver(runtime.major);
    std::string fix =
        absl::StrCat("build with CUDA ", host_.cuda->major, " or older");
    const GpuRow* gpu = tables_.FindGpu(host_.device);
    const auto parsed = DriverVersion::Parse(driver);
    if (parsed && (gpu == nullptr || !gpu->driver_last ||
                   parsed->branch() <= *gpu->driver_last)) {
      fix = absl::StrCat("driver ", driver, " or later; or ", fix);
    }
    SetAll(v1::OUTCOME_FAILS,
           MakeReason(
               "TP207",
               absl::StrCat("CUDA runtime ", runtime.major,
                            elf.static_cudart() ? " (linked statically)" : "",
                            ", driver CUDA ", host_.cuda->ToString()),
               fix, 35));
    return true;
  }

  // A file without device code that counts.
  bool WithoutCode() {
    const v1::FileReport& report = *file_.report;
    if (report.kind() == v1::FILE_KIND_ARCHIVE) {
      SetAll(v1::OUTCOME_UNKNOWN,
             MakeReason("TP232", "an archive this version does not open"),
             absl::StrCat("unpack ", Printable(file_.name()),
                          " and inspect what it holds"));
      return true;
    }
    if (report.runtime_compilers_size() > 0 && !IsCompilerItself()) {
      SetAll(v1::OUTCOME_UNKNOWN, MakeReason("TP214", CompilerText()), RunIt());
      return true;
    }
    if (report.problems_size() > 0) {
      SetAll(v1::OUTCOME_UNKNOWN,
             MakeReason("TP232", ProblemText("the file was not read whole")),
             RunIt());
      return true;
    }
    std::string detail = "no device code";
    if (file_.left_over > 0) {
      detail = absl::StrCat("only ", file_.left_over,
                            " left-over relocatable fatbins");
    } else if (file_.kernel_less > 0) {
      detail = "device code without kernels";
    }
    SetAll(v1::OUTCOME_NO_DEVICE_CODE, MakeReason("TP223", detail));
    return true;
  }

  // libnvrtc.so names itself as the evidence: what it compiles belongs to its
  // users, which are judged by themselves.
  bool IsCompilerItself() const {
    for (const v1::RuntimeCompiler& compiler :
         file_.report->runtime_compilers()) {
      const absl::string_view name = file_.name();
      if (!compiler.evidence().empty() &&
          name.find(compiler.evidence()) != absl::string_view::npos) {
        return true;
      }
    }
    return false;
  }

  std::string CompilerText() const {
    std::vector<std::string> names;
    for (const v1::RuntimeCompiler& compiler :
         file_.report->runtime_compilers()) {
      names.push_back(
          absl::StrCat(compiler.name(), " (", compiler.evidence(), ")"));
    }
    return absl::StrCat("uses ", absl::StrJoin(names, ", "));
  }

  std::string ProblemText(absl::string_view fallback) const {
    if (file_.report->problems_size() == 0) return std::string(fallback);
    const std::string& detail = file_.report->problems(0).detail();
    return detail.empty() ? std::string(fallback) : detail;
  }

  void DecideFatbins() {
    decisions_.reserve(file_.fatbins.size());
    for (const FatbinView& fatbin : file_.fatbins) {
      decisions_.push_back(DecideFatbin(fatbin, host_, tables_));
    }
  }

  // A fatbin's decision for one of its kernels: an image chosen without the
  // kernel is of no use to it.
  Decision ForKernel(uint32_t fatbin, size_t path, uint32_t kernel) const {
    Decision decision = decisions_[fatbin][path];
    if (decision.loads() && decision.image->kernels_read &&
        !std::binary_search(decision.image->kernels.begin(),
                            decision.image->kernels.end(), kernel)) {
      decision = {v1::OUTCOME_FAILS, Cause::kNoImage, 500, decision.image};
    }
    return decision;
  }

  // Per kernel and path the best of its fatbins; a fatbin whose kernels all
  // have cover elsewhere is covered.
  void DecideKernels() {
    kernels_.resize(file_.kernel_names.size());
    for (uint32_t kernel = 0; kernel < kernels_.size(); ++kernel) {
      for (size_t path = 0; path < 3; ++path) {
        bool first = true;
        for (const uint32_t fatbin : file_.kernel_fatbins[kernel]) {
          const Decision decision = ForKernel(fatbin, path, kernel);
          if (first ||
              Rank(decision.outcome) > Rank(kernels_[kernel][path].outcome)) {
            kernels_[kernel][path] = decision;
          }
          first = false;
        }
      }
    }
  }

  // Whether every kernel of a fatbin does at least as well in other fatbins as
  // `rank` asks.
  bool Covered(uint32_t fatbin, size_t path, int rank) const {
    const FatbinView& view = file_.fatbins[fatbin];
    if (view.kernels.empty()) return false;
    return std::all_of(view.kernels.begin(), view.kernels.end(),
                       [&](uint32_t kernel) {
                         return Rank(kernels_[kernel][path].outcome) >= rank;
                       });
  }

  struct Tally {
    uint32_t native = 0;
    uint32_t jit = 0;
    // Registered fatbins that compile, no machine code elsewhere for them.
    uint32_t jit_needed = 0;
    uint32_t unknown = 0;
    uint32_t fails = 0;
    // Do not load, and no other fatbin covers their kernels.
    uint32_t gaps = 0;
    uint32_t holes = 0;
  };

  Tally Count(size_t path) const {
    Tally tally;
    for (uint32_t i = 0; i < decisions_.size(); ++i) {
      const Decision& decision = decisions_[i][path];
      switch (decision.outcome) {
        case v1::OUTCOME_NATIVE:
          ++tally.native;
          break;
        case v1::OUTCOME_JIT:
          ++tally.jit;
          if (!file_.fatbins[i].self_loaded() && !Covered(i, path, 3)) {
            ++tally.jit_needed;
          }
          break;
        case v1::OUTCOME_UNKNOWN:
          ++tally.unknown;
          if (!Covered(i, path, 2)) ++tally.gaps;
          break;
        default:
          ++tally.fails;
          if (!Covered(i, path, 2)) {
            ++tally.gaps;
            if (IsHole(i, path)) ++tally.holes;
          }
      }
    }
    return tally;
  }

  // A gap that looks like a mistake: the fatbin is not made for particular
  // GPUs, and most of the file's other fatbins serve this one.
  bool IsHole(uint32_t fatbin, size_t path) const {
    const FatbinView& view = file_.fatbins[fatbin];
    if (view.all_suffixed || view.self_loaded() || Covered(fatbin, path, 2)) {
      return false;
    }
    size_t loads = 0;
    size_t one_target = 0;
    for (size_t i = 0; i < decisions_.size(); ++i) {
      loads += decisions_[i][path].loads() ? 1 : 0;
      one_target += file_.fatbins[i].one_target ? 1 : 0;
    }
    // Libraries that keep one fatbin a GPU generation.
    if (view.one_target && one_target * 4 >= decisions_.size() &&
        decisions_.size() >= 8) {
      return false;
    }
    return loads * 2 >= decisions_.size();
  }

  void JudgePath(size_t path) {
    v1::PathPrediction& result = Path(path);
    if (NeededKernelMissing(path)) return;
    const Tally tally = Count(path);
    const uint32_t loads = tally.native + tally.jit;
    if (loads == 0 || tally.unknown > loads) {
      NothingLoads(path, tally);
    } else if (path == kPtxJit) {
      result.set_outcome(tally.jit > 0 ? v1::OUTCOME_JIT : v1::OUTCOME_NATIVE);
    } else {
      const bool jit = tally.jit_needed > 0 || tally.native == 0;
      result.set_outcome(jit ? v1::OUTCOME_JIT : v1::OUTCOME_NATIVE);
    }
    if (result.outcome() == v1::OUTCOME_NATIVE ||
        result.outcome() == v1::OUTCOME_JIT) {
      result.set_gaps(tally.gaps);
      DescribeSuccess(path, tally);
      DescribeUnknownPart(path, tally);
    }
    DescribeFile(path, tally);
  }

  bool NeededKernelMissing(size_t path) {
    for (const std::string& needed : options_.needed_kernels) {
      for (uint32_t kernel = 0; kernel < kernels_.size(); ++kernel) {
        if (file_.kernel_names[kernel] != needed) continue;
        const Decision& decision = kernels_[kernel][path];
        if (decision.loads()) continue;
        v1::PathPrediction& result = Path(path);
        result.set_outcome(decision.outcome);
        if (decision.outcome == v1::OUTCOME_UNKNOWN) {
          *result.add_reasons() = Explain(decision, path);
          result.set_settled_by(RunIt());
        } else {
          *result.add_reasons() =
              MakeReason("TP227",
                         absl::StrCat("kernel ", needed, " has no image for ",
                                      DeviceName(host_)),
                         FixFor(decision, kPaths[path], host_, tables_),
                         decision.cuda_error);
          *result.add_reasons() = Explain(decision, path);
        }
        return true;
      }
    }
    return false;
  }

  // No fatbin loads, or most cannot be known: the commonest decision speaks.
  void NothingLoads(size_t path, const Tally& tally) {
    v1::PathPrediction& result = Path(path);
    const bool unknown = tally.unknown > 0;
    const v1::Outcome outcome =
        unknown ? v1::OUTCOME_UNKNOWN : v1::OUTCOME_FAILS;
    std::map<std::pair<Cause, uint32_t>, std::pair<uint32_t, const Decision*>>
        votes;
    const Decision* most = nullptr;
    uint32_t best = 0;
    for (const Decisions& decisions : decisions_) {
      const Decision& decision = decisions[path];
      if (decision.outcome != outcome) continue;
      auto& [count, first] = votes[{decision.cause, decision.cuda_error}];
      if (count == 0) first = &decision;
      if (++count > best) {
        best = count;
        most = first;
      }
    }
    result.set_outcome(outcome);
    *result.add_reasons() = Explain(*most, path);
    if (unknown) result.set_settled_by(SettledBy(*most));
  }

  std::string SettledBy(const Decision& decision) const {
    switch (decision.cause) {
      case Cause::kJitLibraryUnknown:
        return "ldconfig -p | grep libnvidia-ptxjitcompiler";
      case Cause::kCeilingUnknown:
        return "twinpath check on the host: the probe measures the PTX ISA "
               "ceiling";
      default:
        return RunIt();
    }
  }

  // One reason for a decision that is no success.
  v1::Reason Explain(const Decision& decision, size_t path) const {
    std::string detail;
    const std::string target =
        decision.image == nullptr
            ? ""
            : TargetName(decision.image->kind, decision.image->target);
    switch (decision.cause) {
      case Cause::kPtxNewerThanDriver:
      case Cause::kCeilingUnknown:
        detail = absl::StrCat(
            target, " is PTX ISA ", decision.image->ptx_isa.ToString(),
            "; the driver compiles up to ", host_.ptx_ceiling.ToString(),
            host_.ceiling_measured ? " (measured)"
            : host_.cuda ? absl::StrCat(" (CUDA ", host_.cuda->ToString(), ")")
                         : "");
        if (decision.cause == Cause::kCeilingUnknown) {
          absl::StrAppend(&detail, " at least");
        }
        break;
      case Cause::kPtxInvalid:
        detail = absl::StrCat("PTX ISA ", decision.image->ptx_isa.ToString(),
                              " does not know the target ", target);
        break;
      case Cause::kJitDisabled:
        detail = absl::StrCat("only ", target, " fits ", DeviceName(host_));
        break;
      case Cause::kCompression:
        detail = absl::StrCat(target,
                              " is compressed with zstd; the driver is CUDA ",
                              host_.cuda ? host_.cuda->ToString() : "unknown");
        break;
      case Cause::kTegra:
        detail = absl::StrCat(target, " on ", DeviceName(host_),
                              ": across the Tegra border nothing is promised");
        break;
      case Cause::kUnknownKind:
        detail =
            decision.image->kind == v1::IMAGE_KIND_OTHER
                ? absl::StrCat("image kind 0x",
                               absl::Hex(decision.image->kind_number))
                : absl::StrCat("the payload of ", target, " could not be read");
        break;
      case Cause::kJitLibraryMissing:
        detail = absl::StrCat(target,
                              " needs libnvidia-ptxjitcompiler.so.1, which the "
                              "host lacks");
        break;
      case Cause::kJitLibraryUnknown:
        detail = absl::StrCat(target,
                              " needs libnvidia-ptxjitcompiler.so.1; the facts "
                              "do not say whether it is there");
        break;
      case Cause::kDamaged:
        detail = "a fatbin's entries are broken";
        break;
      default:
        detail = absl::StrCat("holds ", file_.held, "; nothing ",
                              path == kPtxJit ? "to compile " : "", "for ",
                              DeviceName(host_));
    }
    return MakeReason(CodeOf(decision.cause), detail,
                      FixFor(decision, kPaths[path], host_, tables_),
                      decision.cuda_error);
  }

  // "sm_90 x 221, sm_90a x 1376" of the images chosen with an outcome.
  std::string Chosen(size_t path, v1::Outcome outcome) const {
    std::map<std::string, uint32_t> counts;
    for (const Decisions& decisions : decisions_) {
      const Decision& decision = decisions[path];
      if (decision.outcome != outcome) continue;
      ++counts[TargetName(decision.image->kind, decision.image->target)];
    }
    std::vector<std::string> parts;
    for (const auto& [name, count] : counts) {
      parts.push_back(
          decisions_.size() == 1 ? name : absl::StrCat(name, " x ", count));
    }
    return absl::StrJoin(parts, ", ");
  }

  bool AnyChosenRelocatable(size_t path, v1::Outcome outcome) const {
    return std::any_of(decisions_.begin(), decisions_.end(),
                       [&](const Decisions& decisions) {
                         return decisions[path].outcome == outcome &&
                                decisions[path].image->relocatable();
                       });
  }

  void DescribeSuccess(size_t path, const Tally& tally) {
    v1::PathPrediction& result = Path(path);
    if (result.outcome() == v1::OUTCOME_JIT && path == kPlain) {
      *result.add_reasons() = MakeReason(
          "TP206",
          tally.native == 0
              ? absl::StrCat(Chosen(path, v1::OUTCOME_JIT), " is compiled for ",
                             DeviceName(host_))
              : absl::StrCat(tally.jit_needed, " of ", decisions_.size(),
                             " fatbins have no machine code for ",
                             DeviceName(host_)),
          absl::StrCat("add ", MachineCodeFlag(host_.device, tables_)));
    }
    if (tally.native > 0) {
      std::string detail = Chosen(path, v1::OUTCOME_NATIVE);
      if (path == kPtxJit) {
        absl::StrAppend(&detail,
                        ": given to the driver directly, forced JIT does not "
                        "reach it");
      }
      *result.add_reasons() = MakeReason("TP200", detail);
      if (AnyChosenRelocatable(path, v1::OUTCOME_NATIVE)) {
        *result.add_reasons() =
            MakeReason("TP217", "linked by the driver at load");
      }
    }
    if (tally.jit > 0) {
      *result.add_reasons() =
          MakeReason("TP235", Chosen(path, v1::OUTCOME_JIT));
      if (AnyChosenRelocatable(path, v1::OUTCOME_JIT)) {
        *result.add_reasons() =
            MakeReason("TP216", "linked and compiled by the driver at load");
      }
    }
    if (tally.gaps > 0) {
      const std::string counts = absl::StrCat(
          tally.gaps, " of ", decisions_.size(), " fatbins have nothing ",
          path == kPtxJit   ? "to compile "
          : path == kNative ? "native "
                            : "",
          "for ", DeviceName(host_));
      *result.add_reasons() =
          MakeReason(tally.holes > 0 && path != kPtxJit ? "TP221" : "TP220",
                     tally.holes > 0 && path != kPtxJit
                         ? absl::StrCat(counts, "; ", tally.holes,
                                        " look forgotten, the first at offset ",
                                        FirstHoleOffset(path))
                         : counts,
                     tally.holes > 0 && path != kPtxJit
                         ? absl::StrCat("build every object with ",
                                        MachineCodeFlag(host_.device, tables_))
                         : "");
    }
  }

  uint64_t FirstHoleOffset(size_t path) const {
    for (uint32_t i = 0; i < decisions_.size(); ++i) {
      if (!decisions_[i][path].loads() &&
          decisions_[i][path].outcome == v1::OUTCOME_FAILS && IsHole(i, path)) {
        return file_.fatbins[i].offset;
      }
    }
    return 0;
  }

  void DescribeUnknownPart(size_t path, const Tally& tally) {
    if (tally.unknown == 0) return;
    for (const Decisions& decisions : decisions_) {
      if (decisions[path].outcome != v1::OUTCOME_UNKNOWN) continue;
      v1::Reason reason = Explain(decisions[path], path);
      reason.set_detail(absl::StrCat(tally.unknown, " of ", decisions_.size(),
                                     " fatbins: ", reason.detail()));
      *Path(path).add_reasons() = std::move(reason);
      return;
    }
  }

  // What is to be said of the file itself.
  void DescribeFile(size_t path, const Tally& tally) {
    v1::PathPrediction& result = Path(path);
    const bool runs = result.outcome() == v1::OUTCOME_NATIVE ||
                      result.outcome() == v1::OUTCOME_JIT;
    if (file_.vendor && path == kPtxJit && (!runs || tally.gaps > 0)) {
      *result.add_reasons() = MakeReason(
          "TP222", absl::StrCat(tally.jit, " of ", decisions_.size(),
                                " fatbins have PTX for ", DeviceName(host_)));
    }
    if (file_.report->runtime_compilers_size() > 0) {
      *result.add_reasons() = MakeReason("TP214", CompilerText());
    }
    if (file_.report->problems_size() > 0) {
      // What was not read may be what is missing.
      if (result.outcome() == v1::OUTCOME_FAILS) {
        result.set_outcome(v1::OUTCOME_UNKNOWN);
        result.set_settled_by(RunIt());
        v1::Reason first =
            MakeReason("TP232", ProblemText("the file was not read whole"));
        result.mutable_reasons()->Add(std::move(first));
        result.mutable_reasons()->SwapElements(0, result.reasons_size() - 1);
      } else {
        *result.add_reasons() =
            MakeReason("TP232", ProblemText("the file was not read whole"));
      }
    }
    if (path != kPlain) return;
    if (file_.only_default_target && host_.device != 75) {
      *result.add_reasons() = MakeReason(
          "TP225",
          "holds sm_75 and compute_75 alone, what nvcc 13 makes when "
          "no target is stated",
          absl::StrCat("add ", MachineCodeFlag(host_.device, tables_)));
    }
    if (runs && !file_.any_ptx) {
      *result.add_reasons() =
          MakeReason("TP226", absl::StrCat("holds ", file_.held));
    }
    if (file_.left_over > 0) {
      *result.add_reasons() = MakeReason(
          "TP228", absl::StrCat(file_.left_over, " fatbins are left over"));
    }
  }

  void ListGaps() {
    // A file with nothing for this GPU has no gaps: it fails.
    const v1::Outcome outcome = Path(kPlain).outcome();
    if (outcome != v1::OUTCOME_NATIVE && outcome != v1::OUTCOME_JIT) return;
    for (uint32_t i = 0; i < decisions_.size(); ++i) {
      if (decisions_[i][kPlain].outcome != v1::OUTCOME_FAILS) continue;
      v1::Gap* gap = prediction_.add_gaps();
      gap->set_fatbin(file_.fatbins[i].index);
      gap->set_kind(IsHole(i, kPlain) ? v1::GAP_KIND_HOLE
                                      : v1::GAP_KIND_SPECIALISED);
    }
  }

  void ListKernels() {
    for (uint32_t kernel = 0; kernel < kernels_.size(); ++kernel) {
      bool differs = options_.all_kernels;
      for (size_t path = 0; path < 3; ++path) {
        differs |= kernels_[kernel][path].outcome != Path(path).outcome();
      }
      if (!differs) continue;
      if (!options_.all_kernels &&
          static_cast<size_t>(prediction_.kernels_size()) >=
              options_.max_kernels) {
        return;
      }
      v1::KernelPrediction* listed = prediction_.add_kernels();
      listed->set_kernel(std::string(file_.kernel_names[kernel]));
      AddPaths(kernels_[kernel], *listed->mutable_paths());
    }
  }

  void ListImages() {
    if (!options_.all_images) return;
    for (const FatbinView& fatbin : file_.fatbins) {
      for (const ImageView& image : fatbin.images) {
        v1::ImagePrediction* listed = prediction_.add_images();
        listed->set_image(image.index);
        AddPaths(DecideImage(fatbin, image, host_, tables_),
                 *listed->mutable_paths());
      }
    }
  }

  void AddPaths(const Decisions& decisions,
                google::protobuf::RepeatedPtrField<v1::PathPrediction>& out) {
    for (size_t path = 0; path < 3; ++path) {
      v1::PathPrediction* listed = out.Add();
      const Decision& decision = decisions[path];
      listed->set_path(kPaths[path]);
      listed->set_outcome(decision.outcome);
      if (decision.loads()) continue;
      v1::Reason* reason = listed->add_reasons();
      // Short: the file's own reasons hold the fix.
      reason->set_code(CodeOf(decision.cause));
      reason->set_cuda_error(decision.cuda_error);
      if (decision.image != nullptr) {
        reason->set_detail(
            TargetName(decision.image->kind, decision.image->target));
      }
      if (decision.outcome == v1::OUTCOME_UNKNOWN) {
        listed->set_settled_by(SettledBy(decision));
      }
    }
  }

  const FileView& file_;
  const HostView& host_;
  const Tables& tables_;
  const PredictOptions& options_;
  std::vector<Decisions> decisions_;
  std::vector<Decisions> kernels_;
  v1::FilePrediction prediction_;
};

}  // namespace

v1::FilePrediction PredictFile(const FileView& file, const HostView& host,
                               const Tables& tables,
                               const PredictOptions& options,
                               absl::flat_hash_set<std::string>& found_needed) {
  return FileJudge(file, host, tables, options).Run(found_needed);
}

}  // namespace twinpath::compat::internal
