#include "compat/host_groups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compat/environment.h"
#include "compat/floor.h"
#include "compat/forward_compat.h"
#include "compat/image_rules.h"
#include "compat/reason.h"
#include "compat/target.h"

namespace twinpath::compat {
namespace {

// Names and UUIDs kept for a group.
constexpr int kMaxNames = 100;

// What CUDA_VISIBLE_DEVICES leaves of a GPU: it matches UUIDs, which keys do
// not hold. Empty where no program inherits it.
std::string VisibleKey(const v1::HostFacts& facts, const v1::Gpu& gpu,
                       const Tables& tables) {
  const bool is_set = std::any_of(
      facts.leaks().begin(), facts.leaks().end(), [](const auto& leak) {
        return leak.variable() == "CUDA_VISIBLE_DEVICES" && IsInherited(leak);
      });
  if (!is_set) return "";
  const Inherited inherited = InheritedBy(facts, gpu, tables);
  if (inherited.no_devices != nullptr) return "none";
  return inherited.devices ? "said" : "shown";
}

std::string GpuKey(const v1::HostFacts& facts, const v1::Gpu& gpu,
                   const Tables& tables) {
  v1::Gpu key = gpu;
  key.clear_uuid();
  key.clear_pci_address();
  key.clear_compute_processes();
  key.set_parent_uuid(gpu.parent_uuid().empty() ? "" : "parent");
  return absl::StrCat(VisibleKey(facts, gpu, tables), ":",
                      key.SerializeAsString());
}

int IndexOf(const v1::HostFacts& facts, const v1::Gpu* gpu) {
  for (int i = 0; i < facts.gpus_size(); ++i) {
    if (&facts.gpus(i) == gpu) return i;
  }
  return -1;
}

// What a class of hosts says about one kind of its GPUs.
struct Answer {
  std::string kind;
  size_t group = 0;
};

struct HostClass {
  const v1::HostFacts* facts = nullptr;
  std::vector<Answer> answers;
};

class Grouper {
 public:
  Grouper(const Predictor& predictor, const HostRules& rules,
          const Assumption* assumption, const Tables& tables)
      : predictor_(predictor),
        rules_(rules),
        assumption_(assumption),
        tables_(tables) {}

  void Add(const v1::HostFacts& facts) {
    const std::string key = ClassKey(facts, tables_);
    const auto [at, is_new] = class_of_.emplace(key, classes_.size());
    if (is_new) {
      classes_.push_back(HostClass{&facts, {}});
      Ask(classes_.back());
    }
    Count(classes_[at->second], facts);
  }

  FleetPrediction Take() { return std::move(out_); }

 private:
  struct Asked {
    std::vector<v1::PathPrediction> paths;
    std::vector<std::string> files;
  };

  Asked AskFor(const v1::HostFacts& facts, const v1::Gpu& gpu) {
    PredictOptions options;
    options.max_kernels = 0;
    v1::Prediction prediction =
        predictor_.Predict(facts, gpu, tables_, options);
    ++out_.asked;
    Asked asked;
    for (v1::PathPrediction& path : *prediction.mutable_paths()) {
      asked.paths.push_back(std::move(path));
    }
    for (const v1::FilePrediction& file : prediction.files()) {
      const v1::Outcome plain = file.paths(internal::kPlain).outcome();
      if (plain == v1::OUTCOME_FAILS || plain == v1::OUTCOME_JIT) {
        asked.files.push_back(file.name());
      }
    }
    return asked;
  }

  // A real driver drives the GPU it was found with; an assumed one may be older
  // than the GPU. The kernel module's version counts: a forward-compatibility
  // libcuda adds no GPU that the module does not know (CUDA Compatibility
  // guide). The version, where it is too old.
  std::optional<TwoPart> TooOld(const v1::HostFacts& facts,
                                const v1::Gpu& gpu) const {
    const GpuRow* row =
        tables_.FindGpu(CapabilityNumber(gpu.compute_capability()));
    if (row == nullptr || !row->toolkit_first) return std::nullopt;
    const std::optional<TwoPart> own = OwnCudaVersion(facts.driver(), tables_);
    return own && *own < *row->toolkit_first ? own : std::nullopt;
  }

  std::vector<v1::PathPrediction> AskAfter(const v1::HostFacts& facts,
                                           size_t position) {
    if (assumption_ == nullptr) return {};
    const v1::HostFacts assumed = Assume(facts, *assumption_);
    const std::vector<const v1::Gpu*> gpus = rules_.gpus(assumed);
    if (gpus.empty()) return {};
    const v1::Gpu& gpu = *gpus[std::min(position, gpus.size() - 1)];
    const std::optional<TwoPart> too_old =
        Applies(facts, *assumption_) ? TooOld(assumed, gpu) : std::nullopt;
    if (too_old) {
      std::vector<v1::PathPrediction> paths;
      for (const v1::Path path : internal::kPaths) {
        v1::PathPrediction& made = paths.emplace_back();
        made.set_path(path);
        made.set_outcome(v1::OUTCOME_FAILS);
        const GpuRow* row =
            tables_.FindGpu(CapabilityNumber(gpu.compute_capability()));
        *made.add_reasons() = MakeReason(
            "TP251",
            absl::StrCat("CUDA ", too_old->ToString(), " does not know ",
                         CapabilityName(row->number), ", which came with ",
                         row->toolkit_first->ToString()),
            "", 100);
      }
      return paths;
    }
    return AskFor(assumed, gpu).paths;
  }

  void Ask(HostClass& host) {
    const v1::HostFacts& facts = *host.facts;
    const std::vector<const v1::Gpu*> gpus = rules_.gpus(facts);
    if (gpus.empty()) {
      GroupedGpus made;
      made.facts = &facts;
      FillHost(facts, &made.group);
      for (const v1::Reason& reason : rules_.problems(facts)) {
        *made.group.add_problems() = reason;
      }
      made.after = AskAfter(facts, 0);
      host.answers.push_back({"", GroupFor(std::move(made))});
      return;
    }
    std::vector<std::string> kinds;
    std::vector<GroupedGpus> made;
    for (size_t i = 0; i < gpus.size(); ++i) {
      const std::string kind = GpuKey(facts, *gpus[i], tables_);
      if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) continue;
      kinds.push_back(kind);
      Asked asked = AskFor(facts, *gpus[i]);
      GroupedGpus& grouped = made.emplace_back();
      grouped.facts = &facts;
      grouped.gpu = IndexOf(facts, gpus[i]);
      grouped.files = std::move(asked.files);
      FillHost(facts, &grouped.group);
      grouped.group.set_gpu_name(gpus[i]->name());
      *grouped.group.mutable_compute_capability() =
          gpus[i]->compute_capability();
      for (v1::PathPrediction& path : asked.paths) {
        *grouped.group.add_paths() = std::move(path);
      }
      grouped.after = AskAfter(facts, i);
    }
    for (size_t i = 0; i < made.size(); ++i) {
      made[i].group.set_mixed(made.size() > 1);
      host.answers.push_back({kinds[i], GroupFor(std::move(made[i]))});
    }
  }

  static void FillHost(const v1::HostFacts& facts, v1::HostGroup* group) {
    group->set_cpu_architecture(facts.cpu_architecture());
    const v1::Driver& driver = facts.driver();
    group->set_driver_version(!driver.kernel_module_version().empty()
                                  ? driver.kernel_module_version()
                                  : driver.libcuda_version());
    if (driver.has_cuda_version()) {
      *group->mutable_cuda_version() = driver.cuda_version();
    }
  }

  // The group with the same text and answers; made if there is none.
  size_t GroupFor(GroupedGpus made) {
    std::string key = made.group.SerializeAsString();
    for (const v1::PathPrediction& path : made.after) {
      absl::StrAppend(&key, "|", path.SerializeAsString());
    }
    const auto [at, is_new] = group_of_.emplace(key, out_.groups.size());
    if (is_new) out_.groups.push_back(std::move(made));
    return at->second;
  }

  void Count(const HostClass& host, const v1::HostFacts& facts) {
    std::vector<size_t>& groups = out_.groups_of_host.emplace_back();
    std::map<size_t, std::vector<const v1::Gpu*>> gpus;
    for (const v1::Gpu* gpu : rules_.gpus(facts)) {
      const std::string kind = GpuKey(facts, *gpu, tables_);
      for (const Answer& answer : host.answers) {
        if (answer.kind == kind) gpus[answer.group].push_back(gpu);
      }
    }
    for (const Answer& answer : host.answers) {
      if (std::find(groups.begin(), groups.end(), answer.group) !=
          groups.end()) {
        continue;
      }
      groups.push_back(answer.group);
      v1::HostGroup& group = out_.groups[answer.group].group;
      group.set_hosts(group.hosts() + 1);
      if (group.host_names_size() < kMaxNames) {
        group.add_host_names(HostName(facts));
      }
      for (const v1::Gpu* gpu : gpus[answer.group]) {
        group.set_gpus(group.gpus() + 1);
        if (group.gpu_uuids_size() < kMaxNames) {
          group.add_gpu_uuids(gpu->uuid());
        }
      }
    }
  }

  const Predictor& predictor_;
  const HostRules& rules_;
  const Assumption* assumption_;
  const Tables& tables_;
  FleetPrediction out_;
  std::vector<HostClass> classes_;
  absl::flat_hash_map<std::string, size_t> class_of_;
  absl::flat_hash_map<std::string, size_t> group_of_;
};

}  // namespace

std::string HostName(const v1::HostFacts& facts) {
  return facts.profile().empty() ? facts.host_name() : facts.profile();
}

std::string ClassKey(v1::HostFacts facts, const Tables& tables) {
  std::string visible;
  for (const v1::Gpu& gpu : facts.gpus()) {
    absl::StrAppend(&visible, VisibleKey(facts, gpu, tables), ",");
  }
  facts.clear_host_name();
  facts.clear_machine_id();
  facts.clear_boot_id();
  facts.clear_collected_time();
  facts.clear_agent_version();
  facts.clear_profile();
  std::map<std::string, int> index;
  for (int i = 0; i < facts.gpus_size(); ++i) {
    index.emplace(facts.gpus(i).uuid(), i);
  }
  for (v1::Gpu& gpu : *facts.mutable_gpus()) {
    gpu.clear_uuid();
    gpu.clear_pci_address();
    gpu.clear_compute_processes();
    if (!gpu.parent_uuid().empty()) {
      const auto parent = index.find(gpu.parent_uuid());
      gpu.set_parent_uuid(parent == index.end() ? "?"
                                                : absl::StrCat(parent->second));
    }
  }
  return absl::StrCat(visible, ":", facts.SerializeAsString());
}

FleetPrediction PredictFleet(const Predictor& predictor,
                             const std::vector<v1::HostFacts>& hosts,
                             const HostRules& rules,
                             const Assumption* assumption,
                             const Tables& tables) {
  Grouper grouper(predictor, rules, assumption, tables);
  for (const v1::HostFacts& facts : hosts) grouper.Add(facts);
  return grouper.Take();
}

}  // namespace twinpath::compat
