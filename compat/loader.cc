#include "compat/loader.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/text.h"
#include "compat/forward_compat.h"
#include "compat/reason.h"

namespace twinpath::compat {
namespace {

constexpr absl::string_view kInside = "!/";
constexpr absl::string_view kDriver = "libcuda.so.1";
// A link stub has some tens of kilobytes, the driver's libcuda 20 MB and more.
constexpr uint64_t kMaxStubBytes = 1 << 20;

// Searched without any setting; $LIB is one of the ends.
constexpr absl::string_view kDefaultFolders[] = {"/lib",
                                                 "/usr/lib",
                                                 "/lib64",
                                                 "/usr/lib64",
                                                 "/lib/x86_64-linux-gnu",
                                                 "/usr/lib/x86_64-linux-gnu",
                                                 "/lib/aarch64-linux-gnu",
                                                 "/usr/lib/aarch64-linux-gnu"};
constexpr absl::string_view kLibWords[] = {
    "lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"};
constexpr absl::string_view kPlatformWords[] = {"x86_64", "aarch64"};

// The libraries whose names runner's facts look for, by stem.
constexpr absl::string_view kCudaStems[] = {
    "libcudart", "libcublas", "libcublasLt",  "libcudnn",    "libnccl",
    "libcufft",  "libcufftw", "libcusparse",  "libcusolver", "libcusolverMg",
    "libcurand", "libnvrtc",  "libnvJitLink", "libcupti",    "libnvinfer",
    "libcufile", "libnvjpeg", "libnvvm"};

// "a/./b/../c" -> "a/c". Leading ".." stay; a rooted path has none.
std::string Normalised(absl::string_view path) {
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

bool IsProgram(const v1::FileReport& file) {
  return file.kind() == v1::FILE_KIND_ELF_EXECUTABLE;
}

bool IsLibrary(const v1::FileReport& file) {
  return file.kind() == v1::FILE_KIND_ELF_SHARED;
}

// How paths of files relate to the paths a loader sees.
enum class World {
  // As they are.
  kPlain,
  // Wheels are unpacked into one folder.
  kWheel,
  // Packages are unpacked into the host's root.
  kRoot,
  // A root of its own, without the host's libraries.
  kImage,
};

}  // namespace

LibraryName ParseLibraryName(absl::string_view soname) {
  const size_t so = soname.find(".so");
  if (so == absl::string_view::npos) return {std::string(soname), 0};
  LibraryName name{std::string(soname.substr(0, so)), 0};
  absl::string_view rest = soname.substr(so + 3);
  if (absl::ConsumePrefix(&rest, ".")) {
    uint32_t major = 0;
    if (absl::SimpleAtoi(rest.substr(0, rest.find('.')), &major)) {
      name.major = major;
    }
  }
  return name;
}

bool IsCudaLibrary(absl::string_view soname) {
  const LibraryName name = ParseLibraryName(soname);
  if (name.major == 0) return false;
  for (const absl::string_view stem : kCudaStems) {
    if (name.stem == stem) return true;
  }
  return absl::StartsWith(name.stem, "libcudnn_") ||
         absl::StartsWith(name.stem, "libnpp");
}

bool IsDriverLibrary(absl::string_view soname) {
  if (soname == kDriver) return true;
  // auditwheel puts a hash behind the stem.
  const LibraryName name = ParseLibraryName(soname);
  absl::string_view stem = name.stem;
  return name.major == 1 && absl::ConsumePrefix(&stem, "libcuda-") &&
         !stem.empty() && std::all_of(stem.begin(), stem.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

// Where files lie, as the loader sees it.
class LoaderModel::Index {
 public:
  explicit Index(const v1::ArtifactReport& report) : report_(report) {
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
  }

  const v1::FileReport& file(size_t index) const {
    return report_.files(static_cast<int>(index));
  }
  size_t size() const { return places_.size(); }
  World world(size_t index) const { return places_[index].world; }

  // The library of `soname` in a folder of the artifact, for one CPU.
  std::optional<size_t> FindIn(const std::string& folder,
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

  // All copies of a name.
  const std::vector<size_t>& Copies(absl::string_view soname) const {
    static const std::vector<size_t>& none = *new std::vector<size_t>();
    const auto it = by_name_.find(soname);
    return it == by_name_.end() ? none : it->second;
  }

  // Whether all files of a folder are in the report. A folder that holds no
  // library may be a link to another, and beside a loose file there may be
  // others that nobody asked about.
  bool SeesAllOf(size_t origin, const std::string& folder) const {
    return (report_.has_artifact_digest() ||
            !file(origin).member_of().empty()) &&
           folders_.contains(folder);
  }

  // The folder an entry of a search path of `origin` leads to. Empty: it
  // depends on where the program is started.
  std::string FolderOf(size_t origin, absl::string_view entry) const {
    const FilePlace& place = places_[origin];
    if (absl::ConsumePrefix(&entry, "$ORIGIN")) {
      if (!entry.empty() && entry.front() != '/') return "";
      // An empty folder is the one everything lies in, not the root.
      if (place.inner.empty()) absl::ConsumePrefix(&entry, "/");
      return absl::StrCat(place.prefix,
                          Normalised(absl::StrCat(place.inner, entry)));
    }
    if (!absl::StartsWith(entry, "/")) return "";
    if (place.world == World::kImage) {
      return absl::StrCat(place.prefix, Normalised(entry.substr(1)));
    }
    return Normalised(entry);
  }

  // Whether a folder found by FolderOf is one of the host's file system.
  bool IsOfHost(size_t origin, const std::string& folder) const {
    return places_[origin].world != World::kImage &&
           absl::StartsWith(folder, "/") && !folders_.contains(folder);
  }

  // Whether the loader looks into the folder of a file without being told.
  bool InDefaultFolder(size_t index) const {
    const FilePlace& place = places_[index];
    if (place.world == World::kImage) return true;
    if (place.world != World::kRoot) return false;
    return absl::StartsWith(place.folder, "/usr/local/cuda") ||
           std::find(std::begin(kDefaultFolders), std::end(kDefaultFolders),
                     place.folder) != std::end(kDefaultFolders);
  }

  bool SameImage(size_t a, size_t b) const {
    return (places_[a].world == World::kImage) ==
               (places_[b].world == World::kImage) &&
           (places_[a].world != World::kImage ||
            places_[a].prefix == places_[b].prefix);
  }

 private:
  struct FilePlace {
    World world = World::kPlain;
    // What tells this world's folders from those of others; `inner` is the
    // folder in it, `folder` both.
    std::string prefix;
    std::string inner;
    std::string folder;
    std::string path;
  };

  static FilePlace PlaceOf(const v1::FileReport& file,
                           const v1::FileReport* carrier) {
    FilePlace place;
    absl::string_view name = file.name();
    if (file.member_of().empty()) {
      place.path = Normalised(name);
    } else {
      const size_t at = file.member_of().size() + kInside.size();
      const std::string inner =
          Normalised(at < name.size() ? name.substr(at) : name);
      const std::string format =
          carrier == nullptr ? "" : carrier->carrier().format();
      if (format == "wheel") {
        place.world = World::kWheel;
        place.prefix = "wheel!/";
      } else if (format == "deb" || format == "rpm") {
        place.world = World::kRoot;
      } else {
        if (format == "oci_image") place.world = World::kImage;
        place.prefix = absl::StrCat(file.member_of(), kInside);
      }
      place.path = place.world == World::kRoot && !absl::StartsWith(inner, "/")
                       ? absl::StrCat("/", inner)
                       : inner;
    }
    place.inner = DirName(place.path);
    if (place.inner == ".") place.inner.clear();
    place.folder = absl::StrCat(place.prefix, place.inner);
    return place;
  }

  const v1::ArtifactReport& report_;
  std::vector<FilePlace> places_;
  absl::flat_hash_map<std::string, std::vector<size_t>> folders_;
  absl::flat_hash_map<std::string, std::vector<size_t>> by_name_;
};

// A host's libraries, by name.
class LoaderModel::HostSide {
 public:
  HostSide(const v1::HostFacts& facts, const v1::Gpu& gpu, const Tables& tables)
      : facts(facts), gpu(gpu), tables(tables) {
    for (const v1::Library& library : facts.libraries()) {
      by_name_[library.soname()].push_back(&library);
      folders_.insert(DirName(library.path()));
    }
    for (const v1::LoaderFolder& folder : facts.loader().library_path()) {
      library_path_.push_back(Normalised(folder.path()));
      folders_.insert(library_path_.back());
    }
    complete_.insert(facts.loader().complete_for().begin(),
                     facts.loader().complete_for().end());
  }

  std::string FindIn(const std::string& folder,
                     absl::string_view soname) const {
    for (const v1::Library* library : Named(soname)) {
      if (DirName(library->path()) == folder) return library->path();
    }
    return "";
  }

  std::string FindByLibraryPath(absl::string_view soname) const {
    for (const std::string& folder : library_path_) {
      std::string path = FindIn(folder, soname);
      if (!path.empty()) return path;
    }
    return "";
  }

  std::string FindInCache(absl::string_view soname) const {
    for (const v1::Library* library : Named(soname)) {
      if (library->place() == v1::LIBRARY_PLACE_CACHE ||
          library->place() == v1::LIBRARY_PLACE_UNSPECIFIED) {
        return library->path();
      }
    }
    return "";
  }

  bool Knows(const std::string& folder) const {
    return folders_.contains(folder) ||
           std::find(std::begin(kDefaultFolders), std::end(kDefaultFolders),
                     folder) != std::end(kDefaultFolders);
  }

  bool CompleteFor(absl::string_view soname) const {
    return complete_.contains(ParseLibraryName(soname).stem);
  }

  // Other majors of a library that the loader would find, for messages.
  std::string Others(absl::string_view soname) const {
    const std::string stem = ParseLibraryName(soname).stem;
    std::set<std::string> names;
    for (const auto& [name, libraries] : by_name_) {
      if (name == soname || ParseLibraryName(name).stem != stem) continue;
      names.insert(std::string(name));
    }
    return absl::StrJoin(names, ", ");
  }

  const v1::HostFacts& facts;
  const v1::Gpu& gpu;
  const Tables& tables;

 private:
  const std::vector<const v1::Library*>& Named(absl::string_view soname) const {
    static const std::vector<const v1::Library*>& none =
        *new std::vector<const v1::Library*>();
    const auto it = by_name_.find(soname);
    return it == by_name_.end() ? none : it->second;
  }

  absl::flat_hash_map<absl::string_view, std::vector<const v1::Library*>>
      by_name_;
  absl::flat_hash_set<std::string> folders_;
  std::vector<std::string> library_path_;
  absl::flat_hash_set<absl::string_view> complete_;
};

// What one process asks for.
class LoaderModel::Walker {
 public:
  Walker(const Index& index, size_t file) : index_(index) {
    root_.file = file;
    root_.program = IsProgram(index.file(file));
    cpu_ = index.file(file).elf().cpu_architecture();
    loaded_.insert(file);
    chain_.push_back({file, std::nullopt});
  }

  Root Run() {
    for (size_t i = 0; i < chain_.size(); ++i) {
      root_.closure.push_back(chain_[i].file);
      const v1::ElfFacts& elf = index_.file(chain_[i].file).elf();
      for (const std::string& needed : elf.needed()) Ask(i, needed);
      // The runtime opens the driver by name, with the search path of the
      // object it is in.
      if (elf.static_cudart() ||
          ParseLibraryName(elf.soname()).stem == "libcudart") {
        Ask(i, kDriver);
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
    Need need;
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
    for (const Place& place : need.places) {
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
    need.own_root = index_.world(need.by) == World::kImage;
    if (IsCudaLibrary(soname) || IsDriverLibrary(soname)) {
      root_.needs.push_back(std::move(need));
    }
  }

  // DT_RPATH counts only beside no DT_RUNPATH.
  void AddRpath(size_t at, Need& need) {
    const v1::ElfFacts& elf = index_.file(chain_[at].file).elf();
    if (!elf.runpath().empty()) return;
    for (const std::string& entry : elf.rpath()) {
      AddEntry(chain_[at].file, entry, /*runpath=*/false, need);
    }
  }

  void AddEntry(size_t origin, absl::string_view entry, bool runpath,
                Need& need) {
    for (const std::string& one : Expanded(entry)) {
      const std::string folder = index_.FolderOf(origin, one);
      if (folder.empty()) {
        need.unseen_folder = true;
        continue;
      }
      Place place;
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

  const Index& index_;
  Root root_;
  v1::CpuArchitecture cpu_;
  std::vector<Loaded> chain_;
  absl::flat_hash_set<size_t> loaded_;
  absl::flat_hash_set<std::string> asked_;
};

// Puts together what one process finds on one host.
class LoaderModel::Judge {
 public:
  Judge(const Index& index, const HostSide& host, const Root& root,
        bool started, std::map<size_t, LoaderFinding>& findings,
        std::vector<v1::ResolvedLibrary>& libraries)
      : index_(index),
        host_(host),
        root_(root),
        started_(started),
        findings_(findings),
        libraries_(libraries) {}

  void Run() {
    for (const Need& need : root_.needs) {
      if (IsDriverLibrary(need.soname)) {
        Driver(need);
        continue;
      }
      const Found found = Resolve(need);
      Record(need, found);
      if (found.source == v1::LIBRARY_SOURCE_NONE) {
        missing_.push_back(Missing(need));
      } else if (found.source == v1::LIBRARY_SOURCE_ARTIFACT_UNLISTED) {
        unlisted_.push_back(
            absl::StrCat(Printable(need.soname), " at ",
                         Printable(index_.file(*need.unlisted).name())));
      }
      if (!found.shadows.empty()) {
        Finding().remarks.push_back(MakeReason(
            "TP127", absl::StrCat(Printable(need.soname), " is taken from ",
                                  Printable(found.path), ", not from ",
                                  Printable(found.shadows))));
      }
      const LibraryName name = ParseLibraryName(need.soname);
      majors_[name.stem][name.major] = need.by;
    }
    Majors();
    Summarise();
  }

 private:
  struct Found {
    v1::LibrarySource source = v1::LIBRARY_SOURCE_UNKNOWN;
    std::string path;
    std::string by;
    // The artifact's copy that would be taken without LD_LIBRARY_PATH.
    std::string shadows;
  };

  LoaderFinding& Finding() {
    LoaderFinding& finding = findings_[root_.file];
    finding.file = root_.file;
    return finding;
  }

  Found InArtifact(size_t file, absl::string_view by) const {
    return {v1::LIBRARY_SOURCE_ARTIFACT, index_.file(file).name(),
            std::string(by), ""};
  }

  static Found OnHost(std::string path, absl::string_view by) {
    return {v1::LIBRARY_SOURCE_HOST, std::move(path), std::string(by), ""};
  }

  // One of the two search paths of the objects; nothing: go on. `unknown` is
  // set where a folder of the host that is not known is searched.
  std::optional<Found> Search(const Need& need, bool runpath,
                              bool& unknown) const {
    const absl::string_view by = runpath ? "RUNPATH" : "RPATH";
    for (const Place& place : need.places) {
      if (place.runpath != runpath) continue;
      if (place.file) return InArtifact(*place.file, by);
      std::string path = host_.FindIn(place.host_folder, need.soname);
      if (!path.empty()) return OnHost(std::move(path), by);
      unknown |= !host_.Knows(place.host_folder);
    }
    return std::nullopt;
  }

  Found Resolve(const Need& need) const {
    bool unknown = need.unseen_folder;
    if (auto found = Search(need, /*runpath=*/false, unknown)) return *found;
    // An image brings its own root; the host's variables do not reach into it.
    if (!need.own_root) {
      std::string path = host_.FindByLibraryPath(need.soname);
      if (!path.empty()) {
        Found found = OnHost(std::move(path), "LD_LIBRARY_PATH");
        bool ignored = false;
        const auto own = Search(need, /*runpath=*/true, ignored);
        if (own && own->source == v1::LIBRARY_SOURCE_ARTIFACT) {
          found.shadows = own->path;
        }
        return found;
      }
    }
    if (auto found = Search(need, /*runpath=*/true, unknown)) return *found;
    if (need.in_default) return InArtifact(*need.in_default, "cache");
    if (need.own_root) return {};
    std::string path = host_.FindInCache(need.soname);
    if (!path.empty()) return OnHost(std::move(path), "cache");
    const bool sure = !unknown && host_.CompleteFor(need.soname);
    if (need.unlisted) {
      if (!sure) return {};
      return {v1::LIBRARY_SOURCE_ARTIFACT_UNLISTED,
              index_.file(*need.unlisted).name(), "", ""};
    }
    if (!sure) return {};
    return {v1::LIBRARY_SOURCE_NONE, "", "", ""};
  }

  void Record(const Need& need, const Found& found) {
    for (const v1::ResolvedLibrary& other : libraries_) {
      if (other.soname() == need.soname && other.source() == found.source &&
          other.path() == found.path) {
        return;
      }
    }
    v1::ResolvedLibrary& library = libraries_.emplace_back();
    library.set_soname(need.soname);
    library.set_needed_by(index_.file(need.by).name());
    library.set_source(found.source);
    library.set_path(found.path);
    library.set_found_by(found.by);
  }

  // "libcudart.so.12 (needed by lib/libx.so; the host has libcudart.so.13)".
  std::string Missing(const Need& need) const {
    std::vector<std::string> parts;
    if (need.by != root_.file) {
      parts.push_back(
          absl::StrCat("needed by ", Printable(index_.file(need.by).name())));
    }
    if (need.other_cpu) {
      parts.push_back(absl::StrCat(
          Printable(index_.file(*need.other_cpu).name()), " is for ",
          CpuName(index_.file(*need.other_cpu).elf().cpu_architecture())));
    }
    const std::string others = host_.Others(need.soname);
    if (!others.empty()) {
      parts.push_back(absl::StrCat("the host has ", Printable(others)));
    }
    return absl::StrCat(
        Printable(need.soname),
        parts.empty() ? ""
                      : absl::StrCat(" (", absl::StrJoin(parts, "; "), ")"));
  }

  void Summarise() {
    std::vector<std::string> fatal = missing_;
    if (root_.program && started_) {
      for (const std::string& text : unlisted_) {
        fatal.push_back(absl::StrCat(text, ", where no search path leads"));
      }
      unlisted_.clear();
    }
    if (root_.program && !fatal.empty() && !Finding().blocker) {
      Finding().blocker =
          Blocker{v1::OUTCOME_FAILS,
                  MakeReason("TP231", absl::StrCat(absl::StrJoin(fatal, ", "),
                                                   ": the loader stops with "
                                                   "exit code 127")),
                  ""};
    } else if (!fatal.empty()) {
      Finding().remarks.push_back(
          MakeReason("TP246", absl::StrJoin(fatal, ", ")));
    }
    // Libraries find each other by what the process has loaded.
    if (root_.program && !unlisted_.empty()) {
      Finding().remarks.push_back(
          MakeReason("TP248", absl::StrJoin(unlisted_, ", ")));
    }
  }

  void Majors() {
    for (const auto& [stem, by_major] : majors_) {
      if (by_major.size() < 2) continue;
      std::vector<std::string> parts;
      for (const auto& [major, by] : by_major) {
        parts.push_back(absl::StrCat(stem, ".so.", major, " (needed by ",
                                     Printable(index_.file(by).name()), ")"));
      }
      Finding().remarks.push_back(
          MakeReason("TP247", absl::StrJoin(parts, " and ")));
    }
  }

  // The driver's library belongs to the host; what matters is a copy in the
  // artifact that is found before it.
  void Driver(const Need& need) {
    bool ignored = false;
    auto found = Search(need, /*runpath=*/false, ignored);
    const bool by_path =
        !need.own_root && !host_.FindByLibraryPath(need.soname).empty();
    if (!found && !by_path) found = Search(need, /*runpath=*/true, ignored);
    // A renamed copy is asked for by a name the host does not have.
    if (!found && need.soname != kDriver) {
      const auto copy = need.in_default ? need.in_default : need.unlisted;
      if (copy) found = InArtifact(*copy, "");
    }
    if (!found || found->source != v1::LIBRARY_SOURCE_ARTIFACT) return;
    Record(need, *found);
    for (const size_t copy : index_.Copies(need.soname)) {
      if (index_.file(copy).name() == found->path) {
        Bundled(index_.file(copy));
        return;
      }
    }
  }

  void Bundled(const v1::FileReport& file) {
    if (Finding().blocker) return;
    const std::string name = Printable(file.name());
    const bool stub =
        absl::StrContains(absl::StrCat("/", file.name()), "/stubs/") ||
        (file.size_bytes() > 0 && file.size_bytes() < kMaxStubBytes);
    if (stub) {
      Finding().blocker =
          Blocker{v1::OUTCOME_FAILS,
                  MakeReason("TP242",
                             absl::StrCat(name,
                                          " is a link stub and is found before "
                                          "the host's driver"),
                             "", 34),
                  ""};
      return;
    }
    absl::string_view version = BaseName(file.name());
    absl::ConsumePrefix(&version, "libcuda.so.");
    const auto parsed = DriverVersion::Parse(version);
    const bool dotted = parsed && parsed->parts.size() >= 2;
    if (file.elf().has_forward_compat()) {
      const CompatDecision decision = DecideForwardCompat(
          file.elf().forward_compat(), dotted ? version : "", host_.facts,
          host_.gpu, host_.tables);
      v1::Reason reason = decision.reason;
      reason.set_detail(absl::StrCat(name, ": ", reason.detail()));
      if (decision.answer == CompatAnswer::kRefused) {
        Finding().blocker = Blocker{v1::OUTCOME_FAILS, reason, ""};
      } else {
        Finding().remarks.push_back(std::move(reason));
      }
      return;
    }
    const std::string& host = host_.facts.driver().kernel_module_version();
    if (dotted && version == host) {
      Finding().remarks.push_back(MakeReason(
          "TP242", absl::StrCat(name,
                                " is of this host's driver version, and "
                                "of no other's")));
      return;
    }
    if (dotted && DriverVersion::Parse(host)) {
      Finding().blocker =
          Blocker{v1::OUTCOME_FAILS,
                  MakeReason("TP242",
                             absl::StrCat(name,
                                          " is found before the host's "
                                          "driver, which is ",
                                          Printable(host)),
                             "", 803),
                  ""};
      return;
    }
    Finding().blocker =
        Blocker{v1::OUTCOME_UNKNOWN,
                MakeReason("TP242", absl::StrCat(name,
                                                 " is found before the host's "
                                                 "driver; its version is not "
                                                 "known")),
                absl::StrCat("twinpath check ",
                             Printable(index_.file(root_.file).name()))};
  }

  const Index& index_;
  const HostSide& host_;
  const Root& root_;
  const bool started_;
  std::map<size_t, LoaderFinding>& findings_;
  std::vector<v1::ResolvedLibrary>& libraries_;
  std::vector<std::string> missing_;
  std::vector<std::string> unlisted_;
  std::map<std::string, std::map<uint32_t, size_t>> majors_;
};

LoaderModel::LoaderModel(const v1::ArtifactReport& report)
    : index_(std::make_unique<Index>(report)) {
  absl::flat_hash_set<size_t> reached;
  const auto add = [&](size_t file) {
    roots_.push_back(Walker(*index_, file).Run());
    reached.insert(roots_.back().closure.begin(), roots_.back().closure.end());
  };
  for (size_t i = 0; i < index_->size(); ++i) {
    if (IsProgram(index_->file(i))) add(i);
  }
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
                     [](const Root& root) { return root.needs.empty(); }),
      roots_.end());
}

LoaderModel::~LoaderModel() = default;

LoaderAnswer LoaderModel::Resolve(const v1::HostFacts& facts,
                                  const v1::Gpu& gpu, const Tables& tables,
                                  std::optional<size_t> started) const {
  LoaderAnswer answer;
  if (roots_.empty()) return answer;
  const HostSide host(facts, gpu, tables);
  std::map<size_t, LoaderFinding> findings;
  for (const Root& root : roots_) {
    // The loader of this host does not start programs for another CPU.
    const v1::CpuArchitecture cpu =
        index_->file(root.file).elf().cpu_architecture();
    if (facts.cpu_architecture() != v1::CPU_ARCHITECTURE_UNSPECIFIED &&
        cpu != facts.cpu_architecture()) {
      continue;
    }
    Judge(*index_, host, root, started == root.file, findings, answer.libraries)
        .Run();
  }
  for (auto& [file, finding] : findings) {
    answer.findings.push_back(std::move(finding));
  }
  return answer;
}

std::vector<size_t> LoaderModel::Closure(size_t file) const {
  return Walker(*index_, file).Run().closure;
}

}  // namespace twinpath::compat
