#include "compat/file_prediction.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/unread.h"
#include "compat/file_decisions.h"
#include "compat/file_host_half.h"
#include "compat/fix.h"
#include "compat/image_rules.h"
#include "compat/reason.h"
#include "compat/target.h"

namespace twinpath::compat::internal {
namespace {

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
    if (!JudgeHostHalf(file_, host_, tables_, prediction_)) {
      decisions_.emplace(file_, host_, tables_);
      for (size_t path = 0; path < 3; ++path) JudgePath(path);
      ListGaps();
      ListKernels();
      ListImages();
    }
    for (const std::string& needed : options_.needed_kernels) {
      if (file_.FindKernel(needed)) found_needed.insert(needed);
    }
    return std::move(prediction_);
  }

 private:
  v1::PathPrediction& Path(size_t path) {
    return *prediction_.mutable_paths(static_cast<int>(path));
  }

  void JudgePath(size_t path) {
    v1::PathPrediction& result = Path(path);
    if (NeededKernelMissing(path)) return;
    const Tally& tally = decisions_->tally(path);
    if (tally.loads() == 0 || tally.unknown > tally.loads()) {
      NothingLoads(path, tally);
    } else if (LacksDeviceRuntime(path)) {
      DeviceRuntimeFails(path, tally);
    } else if (path == kPtxJit && CannotFollow()) {
      LibraryCannotFollow(tally);
    } else if (path == kPtxJit) {
      result.set_outcome(tally.jit > 0 ? v1::OUTCOME_JIT : v1::OUTCOME_NATIVE);
    } else {
      // Mixed: the greater part names the outcome, the reasons tell both.
      const bool jit = tally.jit_needed >= tally.native;
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

  // NVIDIA's libraries pick kernels by themselves: with PTX for a few of those
  // they have machine code for, a forced JIT run ends in the library's error.
  bool CannotFollow() const {
    return file_.vendor && decisions_->tally(kPtxJit).jit * 2 <
                               decisions_->tally(kNative).native;
  }

  // Registered relocatable code is linked as a whole. Where only its PTX can be
  // taken and the device runtime it calls has none, the link fails: measured.
  bool LacksDeviceRuntime(size_t path) const {
    const bool lacks = std::any_of(
        file_.device_runtimes.begin(), file_.device_runtimes.end(),
        [&](const FatbinView& runtime) {
          return DecideFatbin(runtime, host_, tables_)[path].outcome ==
                 v1::OUTCOME_FAILS;
        });
    return lacks && decisions_->tally(path).native == 0 &&
           std::all_of(decisions_->shapes().begin(), decisions_->shapes().end(),
                       [path](const Decisions& decisions) {
                         return !decisions[path].loads() ||
                                decisions[path].image->relocatable();
                       });
  }

  void DeviceRuntimeFails(size_t path, const Tally& tally) {
    v1::PathPrediction& result = Path(path);
    result.set_outcome(v1::OUTCOME_FAILS);
    *result.add_reasons() = MakeReason(
        CodeOf(Cause::kDeviceRuntime),
        absl::StrCat("the device runtime (libcudadevrt) in the file has no ",
                     path == kPtxJit ? "PTX" : "code", " for ",
                     DeviceName(host_), "; ", tally.jit,
                     " fatbins that are linked with it have"),
        "", 300);
  }

  void LibraryCannotFollow(const Tally& tally) {
    v1::PathPrediction& result = Path(kPtxJit);
    result.set_outcome(v1::OUTCOME_FAILS);
    // Some kernels would compile; which are launched is the library's choice.
    result.set_gaps(tally.gaps);
    *result.add_reasons() =
        MakeReason("TP202",
                   absl::StrCat(tally.gaps, " of ", file_.fatbins.size(),
                                " fatbins have no PTX for ", DeviceName(host_)),
                   "judge this library natively", 209);
  }

  bool NeededKernelMissing(size_t path) {
    for (const std::string& needed : options_.needed_kernels) {
      const std::optional<uint32_t> kernel = file_.FindKernel(needed);
      if (!kernel) continue;
      const Decision& decision = decisions_->kernel(*kernel)[path];
      if (decision.loads()) continue;
      v1::PathPrediction& result = Path(path);
      result.set_outcome(decision.outcome);
      if (decision.outcome == v1::OUTCOME_UNKNOWN) {
        *result.add_reasons() = Explain(decision, path);
        result.set_settled_by(RunIt(file_, host_));
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
    return false;
  }

  // No fatbin loads, or most cannot be known: the commonest decision speaks.
  void NothingLoads(size_t path, const Tally& tally) {
    v1::PathPrediction& result = Path(path);
    const bool unknown = tally.unknown > 0;
    result.set_outcome(unknown ? v1::OUTCOME_UNKNOWN : v1::OUTCOME_FAILS);
    const Decision& decision = *decisions_->Commonest(path, result.outcome());
    *result.add_reasons() = Explain(decision, path);
    if (unknown) result.set_settled_by(SettledBy(decision));
  }

  std::string SettledBy(const Decision& decision) const {
    switch (decision.cause) {
      case Cause::kJitLibraryUnknown:
        return "ldconfig -p | grep libnvidia-ptxjitcompiler";
      case Cause::kTileIr:
        return "ldconfig -p | grep libnvidia-tileiras";
      case Cause::kCeilingUnknown:
        return "twinpath check on the host: the probe measures the PTX ISA "
               "ceiling";
      default:
        return RunIt(file_, host_);
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
      case Cause::kTileIr:
        detail = absl::StrCat("only Tile IR could serve ", DeviceName(host_),
                              "; the driver is CUDA ",
                              host_.cuda ? host_.cuda->ToString() : "unknown");
        break;
      case Cause::kPayloadForOtherGpu:
        detail = absl::StrCat("the entry says ", target,
                              ", its payload is machine code for sm_",
                              decision.image->payload_target);
        break;
      case Cause::kObfuscated:
        detail = absl::StrCat(target, " is obfuscated; the driver is CUDA ",
                              host_.cuda ? host_.cuda->ToString() : "unknown");
        break;
      case Cause::kToolkitNewerThanDriver:
        detail = absl::StrCat(target, " was made by CUDA ",
                              decision.image->toolkit_major,
                              "; the driver is CUDA ", host_.cuda->ToString());
        break;
      case Cause::kDamaged:
        detail = "a fatbin's entries are broken";
        break;
      case Cause::kNoImage:
        // The image that the driver takes lacks the kernel asked for.
        if (decision.image != nullptr) {
          detail = absl::StrCat(target, " is taken for ", DeviceName(host_),
                                " and lacks the kernel");
          break;
        }
        [[fallthrough]];
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
    for (uint32_t shape = 0; shape < decisions_->shapes().size(); ++shape) {
      const Decision& decision = decisions_->shapes()[shape][path];
      if (decision.outcome != outcome) continue;
      counts[TargetName(decision.image->kind, decision.image->target)] +=
          decisions_->FatbinsOf(shape);
    }
    std::vector<std::string> parts;
    for (const auto& [name, count] : counts) {
      parts.push_back(
          file_.fatbins.size() == 1 ? name : absl::StrCat(name, " x ", count));
    }
    return absl::StrJoin(parts, ", ");
  }

  void DescribeSuccess(size_t path, const Tally& tally) {
    v1::PathPrediction& result = Path(path);
    if (path == kPlain && (tally.jit_needed > 0 || tally.native == 0)) {
      *result.add_reasons() = MakeReason(
          "TP206",
          tally.native == 0
              ? absl::StrCat(Chosen(path, v1::OUTCOME_JIT), " is compiled for ",
                             DeviceName(host_))
              : absl::StrCat(tally.jit_needed, " of ", file_.fatbins.size(),
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
      if (decisions_->RestsOnRelocatable(path, v1::OUTCOME_NATIVE)) {
        *result.add_reasons() =
            MakeReason("TP217", "linked by the driver at load");
      }
    }
    if (tally.jit > 0) {
      *result.add_reasons() =
          MakeReason("TP235", Chosen(path, v1::OUTCOME_JIT));
      if (decisions_->RestsOnRelocatable(path, v1::OUTCOME_JIT)) {
        *result.add_reasons() =
            MakeReason("TP216", "linked and compiled by the driver at load");
      }
    }
    if (tally.gaps > 0) {
      const std::string counts = absl::StrCat(
          tally.gaps, " of ", file_.fatbins.size(), " fatbins have nothing ",
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
    uint64_t first = 0;
    for (uint32_t i = 0; i < file_.classes.size(); ++i) {
      if (!decisions_->IsHole(i, path)) continue;
      const uint64_t offset = file_.fatbins[file_.classes[i].first].offset;
      if (first == 0 || offset < first) first = offset;
    }
    return first;
  }

  void DescribeUnknownPart(size_t path, const Tally& tally) {
    if (tally.unknown == 0) return;
    for (const Decisions& decisions : decisions_->shapes()) {
      if (decisions[path].outcome != v1::OUTCOME_UNKNOWN) continue;
      v1::Reason reason = Explain(decisions[path], path);
      reason.set_detail(absl::StrCat(tally.unknown, " of ",
                                     file_.fatbins.size(),
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
          "TP222", absl::StrCat(tally.jit, " of ", file_.fatbins.size(),
                                " fatbins have PTX for ", DeviceName(host_)));
    }
    if (file_.report->runtime_compilers_size() > 0) {
      *result.add_reasons() = MakeReason("TP214", CompilerText(file_));
    }
    if (FirstUnread(file_.report->problems()) != nullptr) {
      // What was not read may be what is missing.
      if (result.outcome() == v1::OUTCOME_FAILS) {
        result.set_outcome(v1::OUTCOME_UNKNOWN);
        result.set_settled_by(RunIt(file_, host_));
        v1::Reason first = MakeReason(
            "TP232", ProblemText(file_, "the file was not read whole"));
        result.mutable_reasons()->Add(std::move(first));
        result.mutable_reasons()->SwapElements(0, result.reasons_size() - 1);
      } else {
        *result.add_reasons() = MakeReason(
            "TP232", ProblemText(file_, "the file was not read whole"));
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
    for (uint32_t i = 0; i < file_.fatbins.size(); ++i) {
      if (decisions_->fatbin(i)[kPlain].outcome != v1::OUTCOME_FAILS) continue;
      v1::Gap* gap = prediction_.add_gaps();
      gap->set_fatbin(file_.fatbins[i].index);
      gap->set_kind(decisions_->IsHole(file_.fatbins[i].group, kPlain)
                        ? v1::GAP_KIND_HOLE
                        : v1::GAP_KIND_SPECIALISED);
    }
  }

  void ListKernels() {
    if (!options_.all_kernels && options_.max_kernels == 0) return;
    for (uint32_t kernel = 0; kernel < file_.kernel_names.size(); ++kernel) {
      bool differs = options_.all_kernels;
      for (size_t path = 0; path < 3; ++path) {
        differs |=
            decisions_->kernel(kernel)[path].outcome != Path(path).outcome();
      }
      if (!differs) continue;
      if (!options_.all_kernels &&
          static_cast<size_t>(prediction_.kernels_size()) >=
              options_.max_kernels) {
        return;
      }
      v1::KernelPrediction* listed = prediction_.add_kernels();
      listed->set_kernel(std::string(file_.kernel_names[kernel]));
      AddPaths(decisions_->kernel(kernel), *listed->mutable_paths());
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
  std::optional<FileDecisions> decisions_;
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
