#include "compat/proposals.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/text.h"
#include "compat/assume.h"
#include "compat/build_of.h"
#include "compat/floor.h"
#include "compat/host_check.h"
#include "compat/image_rules.h"
#include "compat/prepared.h"
#include "compat/target.h"

namespace twinpath::compat::internal {
namespace {

class Proposer {
 public:
  Proposer(const v1::ArtifactReport& report, const Predictor& predictor,
           const FleetPrediction& fleet, const TroubledGroups& groups,
           size_t path, const Tables& tables)
      : report_(report),
        predictor_(predictor),
        fleet_(fleet),
        path_(path),
        tables_(tables),
        build_(BuildOf(report, tables)),
        failing_(groups.failing),
        compiling_(groups.compiling) {}

  std::vector<Proposal> Run() {
    ProposeTargets();
    ProposeOlderBuilds();
    ProposeDrivers();
    ProposeLibraries();
    ProposeCpus();
    return std::move(proposals_);
  }

 private:
  const v1::Gpu& GpuOf(size_t group) const {
    const GroupedGpus& grouped = fleet_.groups[group];
    return grouped.facts->gpus(grouped.gpu);
  }

  bool Works(const v1::PathPrediction& path) const {
    switch (path_) {
      case kNative:
        return path.outcome() == v1::OUTCOME_NATIVE;
      case kPtxJit:
        return path.outcome() == v1::OUTCOME_JIT ||
               path.outcome() == v1::OUTCOME_NO_DEVICE_CODE;
      default:
        return Loads(path) || path.outcome() == v1::OUTCOME_NO_DEVICE_CODE;
    }
  }

  const v1::PathPrediction& PathOf(size_t group, size_t path) const {
    return fleet_.groups[group].group.paths(static_cast<int>(path));
  }

  bool OnlyOwnFiles(size_t group) const {
    const std::vector<std::string>& files = fleet_.groups[group].files;
    return std::none_of(files.begin(), files.end(),
                        [](const std::string& file) {
                          return internal::IsVendorLibrary(BaseName(file));
                        });
  }

  std::vector<v1::PathPrediction> Ask(const Predictor& predictor,
                                      const v1::HostFacts& facts,
                                      const v1::Gpu& gpu) const {
    PredictOptions options;
    options.max_kernels = 0;
    const v1::Prediction prediction =
        predictor.Predict(facts, gpu, tables_, options);
    return {prediction.paths().begin(), prediction.paths().end()};
  }

  void ProposeTargets() {
    if (failing_.empty() && compiling_.empty()) return;
    std::set<uint32_t> devices;
    for (const std::set<size_t>* groups : {&failing_, &compiling_}) {
      for (const size_t group : *groups) {
        devices.insert(CapabilityNumber(GpuOf(group).compute_capability()));
      }
    }
    for (const GpuRow& gpu : tables_.gpus()) {
      if (gpu.renamed_to != 0) continue;
      for (const bool ptx : {false, true}) {
        // Machine code stays in its major; PTX serves what is above.
        if (!ptx && path_ == kPtxJit) continue;
        if (ptx && path_ == kNative) continue;
        const bool near =
            std::any_of(devices.begin(), devices.end(), [&](uint32_t device) {
              return gpu.number <= device &&
                     (ptx || gpu.number / 10 == device / 10);
            });
        if (near) ProposeTarget(gpu, ptx, devices);
      }
    }
  }

  void ProposeTarget(const GpuRow& gpu, bool ptx,
                     const std::set<uint32_t>& devices) {
    const std::optional<TargetChoice> choice = ChooseToolkit(gpu, ptx, build_);
    if (!choice) return;
    // Another build is for one GPU and native: nobody makes one for less.
    if (choice->other_build && (ptx || devices.count(gpu.number) == 0) &&
        path_ != kPtxJit) {
      return;
    }
    const v1::ArtifactReport only = WithOnly(report_, *choice, build_, tables_);
    const Predictor predictor(only);
    Proposal proposal;
    proposal.kind = v1::FIX_KIND_TARGET;
    proposal.text = absl::StrCat("add ", FlagOf(*choice, tables_));
    proposal.other_build = choice->other_build;
    proposal.exact = !ptx && devices.count(gpu.number) > 0;
    proposal.number = gpu.number;
    for (const std::set<size_t>* groups : {&failing_, &compiling_}) {
      for (const size_t group : *groups) {
        if (!OnlyOwnFiles(group)) continue;
        const std::vector<v1::PathPrediction> paths =
            Ask(predictor, *fleet_.groups[group].facts, GpuOf(group));
        const bool native = paths[kNative].outcome() == v1::OUTCOME_NATIVE;
        if (groups == &compiling_) {
          if (native) proposal.improved.insert(group);
        } else if (Works(paths[path_])) {
          proposal.gained.insert(group);
          if (native) proposal.native.insert(group);
        }
      }
    }
    Keep(std::move(proposal));
  }

  // The target from the last toolkit of the driver's major; PTX from the
  // driver's own version. nullopt: that toolkit does not know the GPU.
  std::optional<TargetChoice> OlderChoice(const GpuRow& gpu,
                                          const v1::Version& cuda) const {
    TargetChoice choice{&gpu, path_ == kPtxJit, TwoPart::From(cuda), true};
    for (const DriverRow& driver : tables_.drivers()) {
      if (!choice.ptx && driver.cuda.major == cuda.major()) {
        choice.toolkit = driver.cuda;
      }
    }
    if (choice.toolkit < gpu.toolkit_first.value_or(TwoPart())) {
      return std::nullopt;
    }
    if (gpu.toolkit_last) {
      choice.toolkit = std::min(choice.toolkit, *gpu.toolkit_last);
    }
    return choice;
  }

  // A runtime that is newer than the driver: the same with an older compiler.
  void ProposeOlderBuilds() {
    std::map<std::string, Proposal> by_text;
    for (const size_t group : failing_) {
      const v1::PathPrediction& path = PathOf(group, path_);
      const GroupedGpus& grouped = fleet_.groups[group];
      const GpuRow* gpu =
          tables_.FindGpu(CapabilityNumber(grouped.group.compute_capability()));
      if (path.reasons().empty() || path.reasons(0).code() != "TP207" ||
          gpu == nullptr || !OnlyOwnFiles(group)) {
        continue;
      }
      const std::optional<TargetChoice> older =
          OlderChoice(*gpu, grouped.group.cuda_version());
      if (!older) continue;
      const TargetChoice& choice = *older;
      const v1::ArtifactReport only =
          WithOnly(report_, choice, build_, tables_);
      const std::vector<v1::PathPrediction> paths =
          Ask(Predictor(only), *grouped.facts, GpuOf(group));
      if (!Works(paths[path_])) continue;
      std::string text =
          absl::StrCat("another build with CUDA ", choice.toolkit.ToString(),
                       " or earlier and -gencode arch=compute_", gpu->number,
                       ",code=", choice.ptx ? "compute_" : "sm_", gpu->number);
      Proposal& proposal = by_text[text];
      proposal.kind = v1::FIX_KIND_TARGET;
      proposal.text = std::move(text);
      proposal.other_build = true;
      proposal.number = gpu->number;
      proposal.gained.insert(group);
      if (paths[kNative].outcome() == v1::OUTCOME_NATIVE) {
        proposal.native.insert(group);
      }
    }
    for (auto& [text, proposal] : by_text) Keep(std::move(proposal));
  }

  // What the group would do with another driver.
  std::vector<v1::PathPrediction> Under(const DriverRow& driver,
                                        size_t group) const {
    const v1::HostFacts& facts = *fleet_.groups[group].facts;
    Assumption assumption;
    if (facts.platform() == v1::PLATFORM_TEGRA) {
      assumption.cuda = driver.cuda;
    } else {
      assumption.driver = &driver;
    }
    const v1::HostFacts assumed = Assume(facts, assumption);
    return Ask(predictor_, assumed, assumed.gpus(fleet_.groups[group].gpu));
  }

  // The oldest driver that makes the group work; nullptr: none does.
  const DriverRow* DriverFor(size_t group) const {
    const v1::HostFacts& facts = *fleet_.groups[group].facts;
    const v1::Gpu& gpu = GpuOf(group);
    const GpuRow* row =
        tables_.FindGpu(CapabilityNumber(gpu.compute_capability()));
    if (row == nullptr || !facts.driver().has_cuda_version()) return nullptr;
    const TwoPart now = TwoPart::From(facts.driver().cuda_version());
    std::vector<const DriverRow*> newer;
    for (const DriverRow& driver : tables_.drivers()) {
      if (driver.cuda > now && Drives(driver, *row)) newer.push_back(&driver);
    }
    const auto works = [&](const DriverRow* driver) {
      return Works(Under(*driver, group)[path_]);
    };
    // Where the newest does not help, none does.
    if (newer.empty() || !works(newer.back())) return nullptr;
    for (const DriverRow* driver : newer) {
      if (works(driver)) return driver;
    }
    return nullptr;
  }

  void ProposeDrivers() {
    std::map<std::pair<bool, const DriverRow*>, std::set<size_t>> first;
    for (const size_t group : failing_) {
      const DriverRow* driver = DriverFor(group);
      if (driver == nullptr) continue;
      const bool tegra =
          fleet_.groups[group].facts->platform() == v1::PLATFORM_TEGRA;
      first[{tegra, driver}].insert(group);
    }
    for (const auto& [key, groups] : first) {
      const auto& [tegra, driver] = key;
      Proposal proposal;
      proposal.kind = v1::FIX_KIND_DRIVER;
      proposal.text = tegra
                          ? absl::StrCat("a JetPack with CUDA ",
                                         driver->cuda.ToString(), " or later")
                          : absl::StrCat("driver R", driver->branch, " (CUDA ",
                                         driver->cuda.ToString(), ") or later");
      // A newer one serves those that an older one would do for; hosts whose
      // GPU it no longer drives stay with the older.
      for (const auto& [other, more] : first) {
        if (other.first != tegra || other.second > driver) continue;
        for (const size_t group : more) {
          const GpuRow* row = tables_.FindGpu(
              CapabilityNumber(GpuOf(group).compute_capability()));
          if (!Drives(*driver, *row)) continue;
          proposal.gained.insert(group);
          if (Under(*driver, group)[kNative].outcome() == v1::OUTCOME_NATIVE) {
            proposal.native.insert(group);
          }
        }
      }
      Keep(std::move(proposal));
    }
  }

  void ProposeLibraries() {
    std::map<std::string, Proposal> by_text;
    for (const size_t group : failing_) {
      if (OnlyOwnFiles(group)) continue;
      if (!PathOf(group, path_).reasons().empty() &&
          PathOf(group, path_).reasons(0).code() == "TP208") {
        continue;
      }
      const uint32_t device =
          CapabilityNumber(GpuOf(group).compute_capability());
      const GpuRow* row = tables_.FindGpu(device);
      for (const std::string& file : fleet_.groups[group].files) {
        if (!internal::IsVendorLibrary(BaseName(file))) continue;
        std::string text =
            absl::StrCat("another release of ", Printable(BaseName(file)));
        if (row != nullptr && row->toolkit_last) {
          absl::StrAppend(&text, ": the last for ", CapabilityName(device),
                          " come with CUDA ", row->toolkit_last->ToString());
        } else if (row != nullptr && row->toolkit_first) {
          absl::StrAppend(&text, ": those for ", CapabilityName(device),
                          " come with CUDA ", row->toolkit_first->ToString(),
                          " or later");
        }
        Proposal& proposal = by_text[text];
        proposal.kind = v1::FIX_KIND_LIBRARY;
        proposal.text = text;
        proposal.gained.insert(group);
      }
    }
    for (auto& [text, proposal] : by_text) Keep(std::move(proposal));
  }

  void ProposeCpus() {
    std::map<std::string, Proposal> by_text;
    for (const size_t group : failing_) {
      const v1::PathPrediction& path = PathOf(group, path_);
      if (path.reasons().empty() || path.reasons(0).code() != "TP208") continue;
      // The same targets for the other CPU.
      v1::HostFacts facts = *fleet_.groups[group].facts;
      const v1::CpuArchitecture cpu = facts.cpu_architecture();
      facts.set_cpu_architecture(cpu == v1::CPU_ARCHITECTURE_X86_64
                                     ? v1::CPU_ARCHITECTURE_AARCH64
                                     : v1::CPU_ARCHITECTURE_X86_64);
      const v1::Gpu& gpu = facts.gpus(fleet_.groups[group].gpu);
      const std::vector<v1::PathPrediction> paths = Ask(predictor_, facts, gpu);
      std::string text = absl::StrCat("a build for ", CpuName(cpu));
      const uint32_t device = CapabilityNumber(gpu.compute_capability());
      bool native = paths[kNative].outcome() == v1::OUTCOME_NATIVE;
      if (!Works(paths[path_])) {
        const GpuRow* row = tables_.FindGpu(device);
        if (row == nullptr) continue;
        std::string how;
        std::vector<v1::PathPrediction> with;
        for (const auto& choice :
             {ChooseToolkit(*row, path_ == kPtxJit, build_),
              OlderChoice(*row, facts.driver().cuda_version())}) {
          if (!choice) continue;
          const v1::ArtifactReport only =
              WithOnly(report_, *choice, build_, tables_);
          with = Ask(Predictor(only), facts, gpu);
          if (!Works(with[path_])) continue;
          how = FlagOf(*choice, tables_);
          if (build_.toolkit && choice->toolkit < *build_.toolkit) {
            how = absl::StrCat("CUDA ", choice->toolkit.ToString(),
                               " or earlier and ", how);
          }
          break;
        }
        if (how.empty()) continue;
        native = with[kNative].outcome() == v1::OUTCOME_NATIVE;
        absl::StrAppend(&text, " with ", how);
      }
      Proposal& proposal = by_text[text];
      proposal.kind = v1::FIX_KIND_CPU;
      proposal.text = text;
      proposal.gained.insert(group);
      if (native) proposal.native.insert(group);
    }
    for (auto& [text, proposal] : by_text) Keep(std::move(proposal));
  }

  void Keep(Proposal proposal) {
    if (proposal.gained.empty() && proposal.improved.empty()) return;
    proposals_.push_back(std::move(proposal));
  }

  const v1::ArtifactReport& report_;
  const Predictor& predictor_;
  const FleetPrediction& fleet_;
  const size_t path_;
  const Tables& tables_;
  const Build build_;
  const std::set<size_t>& failing_;
  const std::set<size_t>& compiling_;
  std::vector<Proposal> proposals_;
};

}  // namespace

TroubledGroups FindTroubled(const FleetPrediction& fleet, size_t path) {
  TroubledGroups groups;
  for (size_t i = 0; i < fleet.groups.size(); ++i) {
    const auto& paths = fleet.groups[i].group.paths();
    if (paths.empty()) continue;
    const v1::Outcome outcome = paths[static_cast<int>(path)].outcome();
    if (outcome == v1::OUTCOME_FAILS) {
      groups.failing.insert(i);
    } else if (path == kPlain && outcome == v1::OUTCOME_JIT) {
      groups.compiling.insert(i);
    }
  }
  return groups;
}

std::vector<Proposal> Propose(const v1::ArtifactReport& report,
                              const Predictor& predictor,
                              const FleetPrediction& fleet,
                              const TroubledGroups& groups, size_t path,
                              const Tables& tables) {
  return Proposer(report, predictor, fleet, groups, path, tables).Run();
}

}  // namespace twinpath::compat::internal
