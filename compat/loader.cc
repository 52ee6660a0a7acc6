#include "compat/loader.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/file.h"
#include "compat/loader_host.h"
#include "compat/loader_index.h"
#include "compat/loader_judge.h"
#include "compat/loader_walk.h"

namespace twinpath::compat {

LoaderModel::LoaderModel(const v1::ArtifactReport& report)
    : index_(std::make_unique<const LoaderIndex>(report)) {
  absl::flat_hash_set<size_t> reached;
  WalkBudget budget = WalkBudget::ForAll(*index_);
  const auto add = [&](size_t file) {
    roots_.push_back(WalkLoader(*index_, file, budget));
    reached.insert(roots_.back().closure.begin(), roots_.back().closure.end());
  };
  for (size_t i = 0; i < index_->size(); ++i) {
    brings_driver_ |= index_->file(i).elf().has_forward_compat();
    if (IsProgram(index_->file(i))) add(i);
  }
  starts_.resize(index_->size());
  for (const size_t file : reached) starts_[file] = true;
  // Libraries that no program of the artifact loads: first those that no other
  // file needs by name, then what is left (they need each other).
  absl::flat_hash_set<absl::string_view> needed;
  for (size_t i = 0; i < index_->size(); ++i) {
    for (const std::string& name : index_->file(i).elf().needed()) {
      needed.insert(name);
    }
  }
  for (const bool unneeded : {true, false}) {
    for (size_t i = 0; i < index_->size(); ++i) {
      const v1::FileReport& file = index_->file(i);
      if (!IsLibrary(file) || reached.contains(i)) continue;
      const bool asked = needed.contains(BaseName(file.name())) ||
                         needed.contains(file.elf().soname());
      if (asked == unneeded) continue;
      add(i);
    }
  }
  // Roots that ask for nothing of interest cost nothing later.
  roots_.erase(
      std::remove_if(roots_.begin(), roots_.end(),
                     [](const LoaderRoot& root) { return root.needs.empty(); }),
      roots_.end());
}

LoaderModel::~LoaderModel() = default;

LoaderAnswer LoaderModel::Resolve(const v1::HostFacts& facts,
                                  const v1::Gpu& gpu, const Tables& tables,
                                  std::optional<size_t> started,
                                  bool inherits) const {
  LoaderAnswer answer;
  if (roots_.empty()) return answer;
  const LoaderHost host(facts, gpu, tables, inherits);
  LoaderLibraries libraries;
  std::map<size_t, LoaderFinding> findings;
  for (const LoaderRoot& root : roots_) {
    // The loader of this host does not start programs for another CPU.
    const v1::CpuArchitecture cpu =
        index_->file(root.file).elf().cpu_architecture();
    if (facts.cpu_architecture() != v1::CPU_ARCHITECTURE_UNSPECIFIED &&
        cpu != facts.cpu_architecture()) {
      continue;
    }
    JudgeLoading(*index_, host, root, started == root.file, findings,
                 libraries);
  }
  for (auto& [file, finding] : findings) {
    answer.findings.push_back(std::move(finding));
  }
  answer.libraries = libraries.Take();
  return answer;
}

std::vector<size_t> LoaderModel::Closure(size_t file) const {
  WalkBudget budget(WalkBudget::kOneWalk);
  return WalkLoader(*index_, file, budget).closure;
}

}  // namespace twinpath::compat
