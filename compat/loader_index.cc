#include "compat/loader_index.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "base/file.h"
#include "base/loader_folders.h"

namespace twinpath::compat {
namespace {

constexpr absl::string_view kInside = "!/";

// PATH_MAX, and what of the readings of one search path is kept at most: 1,000
// folders or more.
constexpr size_t kMaxPath = 4096;
constexpr size_t kMaxSearchPath = size_t{256} << 10;

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

}  // namespace

std::string NormalisedPath(absl::string_view path) {
  const bool rooted = absl::StartsWith(path, "/");
  std::vector<absl::string_view> parts;
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == ".." && !parts.empty() && parts.back() != "..") {
      parts.pop_back();
    } else if (part != ".." || !rooted) {
      parts.push_back(part);
    }
  }
  return absl::StrCat(rooted ? "/" : "", absl::StrJoin(parts, "/"));
}

bool IsProgram(const v1::FileReport& file) {
  return file.kind() == v1::FILE_KIND_ELF_EXECUTABLE;
}

bool IsLibrary(const v1::FileReport& file) {
  return file.kind() == v1::FILE_KIND_ELF_SHARED;
}

bool IsDefaultFolder(absl::string_view folder) {
  return std::find(std::begin(kLoaderFolders), std::end(kLoaderFolders),
                   folder) != std::end(kLoaderFolders);
}

LoaderIndex::LoaderIndex(const v1::ArtifactReport& report) : report_(report) {
  absl::flat_hash_map<absl::string_view, const v1::FileReport*> carriers;
  for (const v1::FileReport& file : report.files()) {
    if (file.has_carrier()) carriers.try_emplace(file.name(), &file);
  }
  places_.reserve(static_cast<size_t>(report.files_size()));
  for (int i = 0; i < report.files_size(); ++i) {
    const v1::FileReport& file = report.files(i);
    const auto carrier = carriers.find(file.member_of());
    places_.push_back(
        PlaceOf(file, carrier == carriers.end() ? nullptr : carrier->second));
    const FilePlace& place = places_.back();
    if (!IsLibrary(file)) continue;
    const auto index = static_cast<size_t>(i);
    folders_[place.folder].push_back(index);
    by_name_[std::string(BaseName(place.path))].push_back(index);
    if (!file.elf().soname().empty() &&
        file.elf().soname() != BaseName(place.path)) {
      by_name_[file.elf().soname()].push_back(index);
    }
  }
  // Once all folders are known.
  paths_.resize(places_.size());
  for (size_t i = 0; i < places_.size(); ++i) {
    const v1::ElfFacts& elf = file(i).elf();
    paths_[i].runpath = SearchPathOf(i, elf.runpath());
    if (elf.runpath().empty()) paths_[i].rpath = SearchPathOf(i, elf.rpath());
  }
}

SearchPath LoaderIndex::SearchPathOf(
    size_t origin,
    const google::protobuf::RepeatedPtrField<std::string>& entries) const {
  SearchPath path;
  absl::flat_hash_set<std::string> seen;
  size_t bytes = 0;
  for (const std::string& entry : entries) {
    // The kernel opens no path as long as this.
    if (entry.size() > kMaxPath) continue;
    for (const std::string& reading : Expanded(entry)) {
      bytes += reading.size() + sizeof(SearchPath::Folder);
      if (bytes > kMaxSearchPath) {
        path.unseen = true;
        return path;
      }
      std::string folder = FolderOf(origin, reading);
      if (folder.empty()) path.unseen = true;
      if (folder.empty() || !seen.insert(folder).second) continue;
      const bool of_host = IsOfHost(origin, folder);
      if (!of_host) path.unseen |= !SeesAllOf(origin, folder);
      if (of_host || folders_.contains(folder)) {
        path.folders.push_back({std::move(folder), of_host});
      }
    }
  }
  return path;
}

LoaderIndex::FilePlace LoaderIndex::PlaceOf(const v1::FileReport& file,
                                            const v1::FileReport* carrier) {
  FilePlace place;
  absl::string_view name = file.name();
  if (file.member_of().empty()) {
    place.path = NormalisedPath(name);
  } else {
    const size_t at = file.member_of().size() + kInside.size();
    const std::string inner =
        NormalisedPath(at < name.size() ? name.substr(at) : name);
    const std::string format =
        carrier == nullptr ? "" : carrier->carrier().format();
    if (format == "wheel") {
      place.world = LoaderWorld::kWheel;
      place.prefix = "wheel!/";
    } else if (format == "deb" || format == "rpm") {
      place.world = LoaderWorld::kRoot;
    } else {
      if (format == "oci_image") place.world = LoaderWorld::kImage;
      place.prefix = absl::StrCat(file.member_of(), kInside);
    }
    place.path =
        place.world == LoaderWorld::kRoot && !absl::StartsWith(inner, "/")
            ? absl::StrCat("/", inner)
            : inner;
  }
  place.inner = DirName(place.path);
  if (place.inner == ".") place.inner.clear();
  place.folder = absl::StrCat(place.prefix, place.inner);
  return place;
}

std::optional<size_t> LoaderIndex::FindIn(const std::string& folder,
                                          absl::string_view soname,
                                          v1::CpuArchitecture cpu) const {
  const auto it = folders_.find(folder);
  if (it == folders_.end()) return std::nullopt;
  for (const bool by_path : {true, false}) {
    for (const size_t index : it->second) {
      if (file(index).elf().cpu_architecture() != cpu) continue;
      const bool match = by_path ? BaseName(places_[index].path) == soname
                                 : file(index).elf().soname() == soname;
      if (match) return index;
    }
  }
  return std::nullopt;
}

const std::vector<size_t>& LoaderIndex::Copies(absl::string_view soname) const {
  static const std::vector<size_t>& none = *new std::vector<size_t>();
  const auto it = by_name_.find(soname);
  return it == by_name_.end() ? none : it->second;
}

bool LoaderIndex::SeesAllOf(size_t origin, const std::string& folder) const {
  return (report_.has_artifact_digest() || !file(origin).member_of().empty()) &&
         folders_.contains(folder);
}

std::string LoaderIndex::FolderOf(size_t origin,
                                  absl::string_view entry) const {
  const FilePlace& place = places_[origin];
  if (absl::ConsumePrefix(&entry, "$ORIGIN")) {
    if (!entry.empty() && entry.front() != '/') return "";
    // An empty folder is the one everything lies in, not the root.
    if (place.inner.empty()) absl::ConsumePrefix(&entry, "/");
    return absl::StrCat(place.prefix,
                        NormalisedPath(absl::StrCat(place.inner, entry)));
  }
  if (!absl::StartsWith(entry, "/")) return "";
  if (place.world == LoaderWorld::kImage) {
    return absl::StrCat(place.prefix, NormalisedPath(entry.substr(1)));
  }
  return NormalisedPath(entry);
}

bool LoaderIndex::IsOfHost(size_t origin, const std::string& folder) const {
  return places_[origin].world != LoaderWorld::kImage &&
         absl::StartsWith(folder, "/") && !folders_.contains(folder);
}

bool LoaderIndex::InDefaultFolder(size_t index) const {
  const FilePlace& place = places_[index];
  if (place.world == LoaderWorld::kImage) return true;
  if (place.world != LoaderWorld::kRoot) return false;
  return absl::StartsWith(place.folder, "/usr/local/cuda") ||
         IsDefaultFolder(place.folder);
}

bool LoaderIndex::SameImage(size_t a, size_t b) const {
  return (places_[a].world == LoaderWorld::kImage) ==
             (places_[b].world == LoaderWorld::kImage) &&
         (places_[a].world != LoaderWorld::kImage ||
          places_[a].prefix == places_[b].prefix);
}

}  // namespace twinpath::compat
