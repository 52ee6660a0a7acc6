#include "compat/loader_walk.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compat/library_name.h"

namespace twinpath::compat {
namespace {

// What $LIB and $PLATFORM may stand for.
constexpr absl::string_view kLibWords[] = {
    "lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"};
constexpr absl::string_view kPlatformWords[] = {"x86_64", "aarch64"};

// Every reading of a search path's entry, $ORIGIN left in.
std::vector<std::string> Expanded(absl::string_view entry) {
  std::string text = absl::StrReplaceAll(entry, {{"${ORIGIN}", "$ORIGIN"},
                                                 {"${LIB}", "$LIB"},
                                                 {"${PLATFORM}", "$PLATFORM"}});
  std::vector<std::string> result = {std::move(text)};
  const auto expand = [&result](absl::string_view token, auto words) {
    if (!absl::StrContains(result.front(), token)) return;
    std::vector<std::string> all;
    for (const std::string& one : result) {
      for (const absl::string_view word : words) {
        all.push_back(absl::StrReplaceAll(one, {{token, word}}));
      }
    }
    result = std::move(all);
  };
  expand("$LIB", absl::MakeConstSpan(kLibWords));
  expand("$PLATFORM", absl::MakeConstSpan(kPlatformWords));
  return result;
}

// What one process asks for.
class Walker {
 public:
  Walker(const LoaderIndex& index, size_t file) : index_(index) {
    root_.file = file;
    root_.program = IsProgram(index.file(file));
    cpu_ = index.file(file).elf().cpu_architecture();
    loaded_.insert(file);
    chain_.push_back({file, std::nullopt});
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
  struct Loaded {
    size_t file = 0;
    // Position in chain_ of what loaded it.
    std::optional<size_t> loader;
  };

  void Ask(size_t at, absl::string_view soname) {
    if (!asked_.insert(std::string(soname)).second) return;
    LoaderNeed need;
    need.soname = std::string(soname);
    need.by = chain_[at].file;
    const v1::ElfFacts& elf = index_.file(need.by).elf();
    if (elf.runpath().empty()) {
      bool program_seen = false;
      for (std::optional<size_t> i = at; i; i = chain_[*i].loader) {
        AddRpath(*i, need);
        program_seen |= *i == 0;
      }
      if (!program_seen) AddRpath(0, need);
    }
    for (const std::string& entry : elf.runpath()) {
      AddEntry(need.by, entry, /*runpath=*/true, need);
    }
    std::optional<size_t> found;
    for (const LoaderPlace& place : need.places) {
      if (!found && place.file) found = place.file;
    }
    for (const size_t copy : index_.Copies(soname)) {
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
    if (found && loaded_.insert(*found).second) {
      chain_.push_back({*found, at});
    }
    need.own_root = index_.world(need.by) == LoaderWorld::kImage;
    if (IsCudaLibrary(soname) || IsDriverLibrary(soname)) {
      root_.needs.push_back(std::move(need));
    }
  }

  // DT_RPATH counts only beside no DT_RUNPATH.
  void AddRpath(size_t at, LoaderNeed& need) {
    const v1::ElfFacts& elf = index_.file(chain_[at].file).elf();
    if (!elf.runpath().empty()) return;
    for (const std::string& entry : elf.rpath()) {
      AddEntry(chain_[at].file, entry, /*runpath=*/false, need);
    }
  }

  void AddEntry(size_t origin, absl::string_view entry, bool runpath,
                LoaderNeed& need) {
    for (const std::string& one : Expanded(entry)) {
      const std::string folder = index_.FolderOf(origin, one);
      if (folder.empty()) {
        need.unseen_folder = true;
        continue;
      }
      LoaderPlace place;
      place.runpath = runpath;
      if (const auto file = index_.FindIn(folder, need.soname, cpu_)) {
        place.file = file;
      } else if (index_.IsOfHost(origin, folder)) {
        place.host_folder = folder;
      } else {
        need.unseen_folder |= !index_.SeesAllOf(origin, folder);
        continue;
      }
      need.places.push_back(std::move(place));
    }
  }

  const LoaderIndex& index_;
  LoaderRoot root_;
  v1::CpuArchitecture cpu_;
  std::vector<Loaded> chain_;
  absl::flat_hash_set<size_t> loaded_;
  absl::flat_hash_set<std::string> asked_;
};

}  // namespace

LoaderRoot WalkLoader(const LoaderIndex& index, size_t file) {
  return Walker(index, file).Run();
}

}  // namespace twinpath::compat
