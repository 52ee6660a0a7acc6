#include "compat/loader_host.h"

#include <set>

#include "absl/strings/str_join.h"
#include "base/file.h"
#include "compat/library_name.h"
#include "compat/loader_index.h"

namespace twinpath::compat {

LoaderHost::LoaderHost(const v1::HostFacts& facts, const v1::Gpu& gpu,
                       const Tables& tables, bool inherits)
    : facts(facts), gpu(gpu), tables(tables), inherits_(inherits) {
  for (const v1::Library& library : facts.libraries()) {
    by_name_[library.soname()].push_back(&library);
    folders_.insert(DirName(library.path()));
  }
  for (const v1::LoaderFolder& folder : facts.loader().library_path()) {
    library_path_.push_back(NormalisedPath(folder.path()));
    folders_.insert(library_path_.back());
  }
  complete_.insert(facts.loader().complete_for().begin(),
                   facts.loader().complete_for().end());
}

std::string LoaderHost::FindIn(const std::string& folder,
                               absl::string_view soname) const {
  for (const v1::Library* library : Named(soname)) {
    if (DirName(library->path()) == folder) return library->path();
  }
  return "";
}

std::string LoaderHost::FindByLibraryPath(absl::string_view soname) const {
  return inherits_ ? FindInLibraryPath(soname) : "";
}

std::string LoaderHost::FindByUnusedLibraryPath(
    absl::string_view soname) const {
  return inherits_ ? "" : FindInLibraryPath(soname);
}

std::string LoaderHost::FindInLibraryPath(absl::string_view soname) const {
  for (const std::string& folder : library_path_) {
    std::string path = FindIn(folder, soname);
    if (!path.empty()) return path;
  }
  return "";
}

std::string LoaderHost::FindInCache(absl::string_view soname) const {
  for (const v1::Library* library : Named(soname)) {
    if (library->place() == v1::LIBRARY_PLACE_CACHE ||
        library->place() == v1::LIBRARY_PLACE_UNSPECIFIED ||
        // LD_LIBRARY_PATH names a folder that is searched anyway.
        IsDefaultFolder(DirName(library->path()))) {
      return library->path();
    }
  }
  return "";
}

bool LoaderHost::Knows(const std::string& folder) const {
  return folders_.contains(folder) || IsDefaultFolder(folder);
}

bool LoaderHost::CompleteFor(absl::string_view soname) const {
  return complete_.contains(ParseLibraryName(soname).stem);
}

std::string LoaderHost::Others(absl::string_view soname) const {
  const std::string stem = ParseLibraryName(soname).stem;
  std::set<std::string> names;
  for (const auto& [name, libraries] : by_name_) {
    if (name == soname || ParseLibraryName(name).stem != stem) continue;
    names.insert(std::string(name));
  }
  return absl::StrJoin(names, ", ");
}

const std::vector<const v1::Library*>& LoaderHost::Named(
    absl::string_view soname) const {
  static const std::vector<const v1::Library*>& none =
      *new std::vector<const v1::Library*>();
  const auto it = by_name_.find(soname);
  return it == by_name_.end() ? none : it->second;
}

}  // namespace twinpath::compat
