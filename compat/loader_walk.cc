#include "compat/loader_walk.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "compat/library_name.h"

namespace twinpath::compat {
namespace {

// What one process asks for.
class Walker {
 public:
  Walker(const LoaderIndex& index, size_t file, WalkBudget& budget)
      : index_(index), all_(budget), own_(WalkBudget::kOneWalk) {
    root_.file = file;
    root_.program = IsProgram(index.file(file));
    cpu_ = index.file(file).elf().cpu_architecture();
    loaded_.insert(file);
    Load(file, std::nullopt);
  }

  LoaderRoot Run() {
    for (size_t i = 0; i < chain_.size(); ++i) {
      root_.closure.push_back(chain_[i].file);
      const v1::ElfFacts& elf = index_.file(chain_[i].file).elf();
      for (const std::string& needed : elf.needed()) Ask(i, needed);
      // The runtime opens the driver by name, with the search path of the
      // object it is in.
      if (elf.static_cudart() ||
          ParseLibraryName(elf.soname()).stem == "libcudart") {
        Ask(i, kDriverLibrary);
      }
    }
    return std::move(root_);
  }

 private:
  using Folder = SearchPath::Folder;

  struct Loaded {
    size_t file = 0;
    // Folders of DT_RPATH, its own first, then those of what loaded it and of
    // the program; each once.
    std::vector<const Folder*> rpath;
    bool unseen = false;
  };

  bool Step() { return own_.Take() && all_.Take(); }

  // `by`: position in chain_ of what loads it.
  void Load(size_t file, std::optional<size_t> by) {
    Loaded loaded;
    loaded.file = file;
    absl::flat_hash_set<absl::string_view> seen;
    const auto add = [&](const Folder& folder) {
      if (!Step()) {
        loaded.unseen = true;
      } else if (seen.insert(folder.name).second) {
        loaded.rpath.push_back(&folder);
      }
    };
    for (const Folder& folder : index_.rpath(file).folders) add(folder);
    loaded.unseen |= index_.rpath(file).unseen;
    // What loaded it has the program's at the end.
    if (by) {
      for (const Folder* folder : chain_[*by].rpath) add(*folder);
      loaded.unseen |= chain_[*by].unseen;
    }
    chain_.push_back(std::move(loaded));
  }

  void Ask(size_t at, absl::string_view soname) {
    if (!asked_.insert(std::string(soname)).second) return;
    LoaderNeed need;
    need.soname = std::string(soname);
    need.by = chain_[at].file;
    // DT_RUNPATH switches off DT_RPATH, its own and that of its loaders.
    const SearchPath& runpath = index_.runpath(need.by);
    if (index_.file(need.by).elf().runpath().empty()) {
      need.unseen_folder |= chain_[at].unseen;
      for (const Folder* folder : chain_[at].rpath) {
        if (!Look(*folder, /*runpath=*/false, need)) break;
      }
    }
    need.unseen_folder |= runpath.unseen;
    for (const Folder& folder : runpath.folders) {
      if (!Look(folder, /*runpath=*/true, need)) break;
    }
    std::optional<size_t> found;
    for (const LoaderPlace& place : need.places) {
      if (!found && place.file) found = place.file;
    }
    for (const size_t copy : index_.Copies(soname)) {
      if (!Step()) {
        need.unseen_folder = true;
        break;
      }
      if (copy == need.by || !index_.SameImage(copy, need.by)) continue;
      if (index_.file(copy).elf().cpu_architecture() != cpu_) {
        if (!need.other_cpu) need.other_cpu = copy;
      } else if (index_.InDefaultFolder(copy)) {
        if (!need.in_default) need.in_default = copy;
      } else if (!need.unlisted) {
        need.unlisted = copy;
      }
    }
    if (!found) found = need.in_default ? need.in_default : need.unlisted;
    if (found && loaded_.insert(*found).second) Load(*found, at);
    need.own_root = index_.world(need.by) == LoaderWorld::kImage;
    if (IsCudaLibrary(soname) || IsDriverLibrary(soname)) {
      root_.needs.push_back(std::move(need));
    }
  }

  // False: the budget is spent.
  bool Look(const Folder& folder, bool runpath, LoaderNeed& need) {
    if (!Step()) {
      need.unseen_folder = true;
      return false;
    }
    LoaderPlace place;
    place.runpath = runpath;
    if (folder.of_host) {
      place.host_folder = &folder.name;
    } else {
      place.file = index_.FindIn(folder.name, need.soname, cpu_);
      if (!place.file) return true;
    }
    need.places.push_back(std::move(place));
    return true;
  }

  const LoaderIndex& index_;
  WalkBudget& all_;
  WalkBudget own_;
  LoaderRoot root_;
  v1::CpuArchitecture cpu_;
  std::vector<Loaded> chain_;
  absl::flat_hash_set<size_t> loaded_;
  absl::flat_hash_set<std::string> asked_;
};

}  // namespace

WalkBudget WalkBudget::ForAll(const LoaderIndex& index) {
  return WalkBudget((size_t{1} << 20) + 4096 * index.size());
}

LoaderRoot WalkLoader(const LoaderIndex& index, size_t file,
                      WalkBudget& budget) {
  return Walker(index, file, budget).Run();
}

}  // namespace twinpath::compat
