#include "compat/advice.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/text.h"
#include "compat/assume.h"
#include "compat/build_of.h"
#include "compat/fix.h"
#include "compat/floor.h"
#include "compat/host_check.h"
#include "compat/image_rules.h"
#include "compat/prepared.h"
#include "compat/target.h"

namespace twinpath::compat {
namespace {

using internal::kNative;
using internal::kPlain;
using internal::kPtxJit;

constexpr int kMaxNames = 100;
constexpr size_t kMaxFixes = 20;

// Hosts with the same groups that do not work.
struct HostSet {
  uint32_t hosts = 0;
  std::vector<std::string> names;
};

// One proposal and the groups it makes work.
struct Proposal {
  v1::FixKind kind = v1::FIX_KIND_UNSPECIFIED;
  std::string text;
  bool other_build = false;
  // Exact target of a group, machine code: what a person would name first.
  bool exact = false;
  uint32_t number = 0;
  std::set<size_t> gained;
  std::set<size_t> native;
  std::set<size_t> improved;
};

class Adviser {
 public:
  Adviser(const v1::ArtifactReport& report, const Predictor& predictor,
          const FleetPrediction& fleet, v1::Path path, const Tables& tables)
      : report_(report),
        predictor_(predictor),
        fleet_(fleet),
        path_(path == v1::PATH_NATIVE    ? kNative
              : path == v1::PATH_PTX_JIT ? kPtxJit
                                         : kPlain),
        tables_(tables),
        build_(BuildOf(report, tables)) {}

  v1::Advice Run(const std::vector<v1::HostFacts>& hosts) {
    SortGroups();
    CountHosts(hosts);
    ProposeTargets();
    ProposeOlderBuilds();
    ProposeDrivers();
    ProposeLibraries();
    ProposeCpus();
    PickSmallestSet();
    Write();
    return std::move(out_);
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

  void SortGroups() {
    for (size_t i = 0; i < fleet_.groups.size(); ++i) {
      if (fleet_.groups[i].group.paths().empty()) continue;
      const v1::PathPrediction& path = PathOf(i, path_);
      if (path.outcome() == v1::OUTCOME_FAILS) {
        failing_.insert(i);
      } else if (path_ == kPlain && path.outcome() == v1::OUTCOME_JIT) {
        compiling_.insert(i);
      }
    }
  }

  void CountHosts(const std::vector<v1::HostFacts>& hosts) {
    for (size_t h = 0; h < fleet_.groups_of_host.size(); ++h) {
      bool served = true;
      bool native = true;
      bool jit = true;
      std::vector<size_t> broken;
      for (const size_t group : fleet_.groups_of_host[h]) {
        if (fleet_.groups[group].group.paths().empty()) {
          served = native = jit = false;
          continue;
        }
        served &= Loads(PathOf(group, kPlain));
        native &= PathOf(group, kNative).outcome() == v1::OUTCOME_NATIVE;
        jit &= PathOf(group, kPtxJit).outcome() == v1::OUTCOME_JIT;
        if (failing_.count(group) > 0) broken.push_back(group);
      }
      out_.set_hosts(out_.hosts() + 1);
      out_.set_hosts_served(out_.hosts_served() + (served ? 1 : 0));
      out_.set_hosts_native(out_.hosts_native() + (native ? 1 : 0));
      out_.set_hosts_jit(out_.hosts_jit() + (jit ? 1 : 0));
      out_.set_hosts_lost_by_jit(out_.hosts_lost_by_jit() +
                                 (native && !jit ? 1 : 0));
      if (broken.empty()) continue;
      std::sort(broken.begin(), broken.end());
      HostSet& set = broken_hosts_[broken];
      ++set.hosts;
      if (set.names.size() < kMaxNames) set.names.push_back(HostName(hosts[h]));
    }
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
      // The last toolkit of the driver's major.
      TargetChoice choice{gpu, path_ == kPtxJit, {}, true};
      for (const DriverRow& driver : tables_.drivers()) {
        if (driver.cuda.major == grouped.group.cuda_version().major()) {
          choice.toolkit = driver.cuda;
        }
      }
      if (choice.toolkit < gpu->toolkit_first.value_or(TwoPart())) continue;
      if (gpu->toolkit_last) {
        choice.toolkit = std::min(choice.toolkit, *gpu->toolkit_last);
      }
      if (choice.ptx) {
        choice.toolkit = TwoPart::From(grouped.group.cuda_version());
      }
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
        const auto choice = row == nullptr
                                ? std::nullopt
                                : ChooseToolkit(*row, path_ == kPtxJit, build_);
        if (!choice) continue;
        const v1::ArtifactReport only =
            WithOnly(report_, *choice, build_, tables_);
        const auto with = Ask(Predictor(only), facts, gpu);
        if (!Works(with[path_])) continue;
        native = with[kNative].outcome() == v1::OUTCOME_NATIVE;
        absl::StrAppend(&text, " with ", FlagOf(*choice, tables_));
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

  uint32_t Hosts(const std::set<size_t>& gained,
                 std::vector<std::string>* names) const {
    uint32_t hosts = 0;
    for (const auto& [broken, set] : broken_hosts_) {
      if (!std::includes(gained.begin(), gained.end(), broken.begin(),
                         broken.end())) {
        continue;
      }
      hosts += set.hosts;
      if (names != nullptr) {
        names->insert(names->end(), set.names.begin(), set.names.end());
      }
    }
    return hosts;
  }

  uint32_t Gpus(const std::set<size_t>& groups) const {
    uint32_t gpus = 0;
    for (const size_t group : groups) gpus += fleet_.groups[group].group.gpus();
    return gpus;
  }

  // Better first: what a person should be told before the other.
  bool Better(const Proposal& a, const Proposal& b) const {
    const auto key = [&](const Proposal& p) {
      return std::tuple(Hosts(p.gained, nullptr), Gpus(p.gained),
                        Gpus(p.native) + Gpus(p.improved), !p.other_build,
                        p.kind == v1::FIX_KIND_TARGET, p.exact, p.number);
    };
    return key(a) > key(b);
  }

  // Targets that do no more than a better one are left out, then the fewest
  // that together do all: greedy, which for nested sets is exact.
  void PickSmallestSet() {
    std::stable_sort(
        proposals_.begin(), proposals_.end(),
        [&](const Proposal& a, const Proposal& b) { return Better(a, b); });
    std::vector<Proposal> kept;
    for (Proposal& proposal : proposals_) {
      const bool needless =
          std::any_of(kept.begin(), kept.end(), [&](const Proposal& other) {
            if (other.kind != proposal.kind ||
                proposal.kind != v1::FIX_KIND_TARGET ||
                (other.other_build && !proposal.other_build)) {
              return false;
            }
            return std::includes(other.gained.begin(), other.gained.end(),
                                 proposal.gained.begin(),
                                 proposal.gained.end()) &&
                   std::includes(other.native.begin(), other.native.end(),
                                 proposal.native.begin(),
                                 proposal.native.end()) &&
                   std::includes(other.improved.begin(), other.improved.end(),
                                 proposal.improved.begin(),
                                 proposal.improved.end());
          });
      if (!needless) kept.push_back(std::move(proposal));
    }
    proposals_ = std::move(kept);

    std::set<size_t> left = failing_;
    while (!left.empty()) {
      size_t best = proposals_.size();
      std::tuple<bool, uint32_t, uint32_t> most{false, 0, 0};
      for (size_t i = 0; i < proposals_.size(); ++i) {
        std::set<size_t> gains;
        std::set<size_t> native;
        for (const size_t group : proposals_[i].gained) {
          if (left.count(group) > 0) gains.insert(group);
          if (left.count(group) > 0 && proposals_[i].native.count(group) > 0) {
            native.insert(group);
          }
        }
        if (gains.empty()) continue;
        // One more build costs more than one more flag.
        const std::tuple<bool, uint32_t, uint32_t> value{
            !proposals_[i].other_build, Gpus(gains), Gpus(native)};
        if (value > most) {
          most = value;
          best = i;
        }
      }
      if (best == proposals_.size()) break;
      smallest_.insert(best);
      for (const size_t group : proposals_[best].gained) left.erase(group);
    }
    beyond_ = std::move(left);
  }

  void Write() {
    for (size_t i = 0; i < proposals_.size(); ++i) {
      const Proposal& proposal = proposals_[i];
      if (i >= kMaxFixes && smallest_.count(i) == 0) continue;
      v1::Fix& fix = *out_.add_fixes();
      fix.set_kind(proposal.kind);
      fix.set_text(proposal.text);
      fix.set_path(internal::kPaths[path_]);
      std::vector<std::string> names;
      fix.set_hosts_gained(Hosts(proposal.gained, &names));
      fix.set_gpus_gained(Gpus(proposal.gained));
      fix.set_gpus_improved(Gpus(proposal.improved));
      if (names.size() > kMaxNames) names.resize(kMaxNames);
      fix.mutable_host_names()->Add(names.begin(), names.end());
      fix.set_in_smallest_set(smallest_.count(i) > 0);
      if (proposal.kind == v1::FIX_KIND_TARGET) {
        fix.set_build(proposal.other_build ? 2 : 1);
      }
    }
    for (const auto& [broken, set] : broken_hosts_) {
      const bool beyond =
          std::any_of(broken.begin(), broken.end(),
                      [&](size_t group) { return beyond_.count(group) > 0; });
      if (!beyond) continue;
      for (const std::string& name : set.names) {
        if (out_.beyond_help_size() < kMaxNames) out_.add_beyond_help(name);
      }
    }
  }

  const v1::ArtifactReport& report_;
  const Predictor& predictor_;
  const FleetPrediction& fleet_;
  const size_t path_;
  const Tables& tables_;
  const Build build_;
  v1::Advice out_;
  // Groups by what is wrong with them.
  std::set<size_t> failing_;
  std::set<size_t> compiling_;
  std::set<size_t> beyond_;
  std::map<std::vector<size_t>, HostSet> broken_hosts_;
  std::vector<Proposal> proposals_;
  std::set<size_t> smallest_;
};

}  // namespace

v1::Advice Advise(const v1::ArtifactReport& report, const Predictor& predictor,
                  const FleetPrediction& fleet,
                  const std::vector<v1::HostFacts>& hosts, v1::Path path,
                  const Tables& tables) {
  return Adviser(report, predictor, fleet, path, tables).Run(hosts);
}

}  // namespace twinpath::compat
