// Where the files of an artifact lie, as the dynamic loader sees it. For
// loader.h: its model asks which file a folder of a search path holds.
// Immutable after construction; thread-safe.

#ifndef TWINPATH_COMPAT_LOADER_INDEX_H_
#define TWINPATH_COMPAT_LOADER_INDEX_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_field.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

// How paths of files relate to the paths a loader sees.
enum class LoaderWorld {
  // As they are.
  kPlain,
  // Wheels are unpacked into one folder.
  kWheel,
  // Packages are unpacked into the host's root.
  kRoot,
  // A root of its own, without the host's libraries.
  kImage,
};

// Whether a file is one that is started, and one that is loaded.
bool IsProgram(const v1::FileReport& file);
bool IsLibrary(const v1::FileReport& file);

// "a/./b/../c" -> "a/c". Leading ".." stay; a rooted path has none.
std::string NormalisedPath(absl::string_view path);

// Whether the loader looks into a folder of the host without any setting.
bool IsDefaultFolder(absl::string_view folder);

// Where an object searches the libraries it needs, in order, each folder once.
struct SearchPath {
  struct Folder {
    std::string name;
    // Of the host's file system; else of the artifact.
    bool of_host = false;
  };
  std::vector<Folder> folders;
  // One of them may hold files unseen: a link, a relative path, a folder whose
  // files the report does not list.
  bool unseen = false;
};

class LoaderIndex {
 public:
  // Keeps a reference to the report.
  explicit LoaderIndex(const v1::ArtifactReport& report);

  const v1::FileReport& file(size_t index) const {
    return report_.files(static_cast<int>(index));
  }
  size_t size() const { return places_.size(); }
  LoaderWorld world(size_t index) const { return places_[index].world; }

  // The library of `soname` in a folder of the artifact, for one CPU.
  std::optional<size_t> FindIn(const std::string& folder,
                               absl::string_view soname,
                               v1::CpuArchitecture cpu) const;

  // All copies of a name.
  const std::vector<size_t>& Copies(absl::string_view soname) const;

  // DT_RPATH, which counts only beside no DT_RUNPATH, and DT_RUNPATH.
  const SearchPath& rpath(size_t index) const { return paths_[index].rpath; }
  const SearchPath& runpath(size_t index) const {
    return paths_[index].runpath;
  }

  // Whether the loader looks into the folder of a file without being told.
  bool InDefaultFolder(size_t index) const;

  bool SameImage(size_t a, size_t b) const;

 private:
  // Whether all files of a folder are in the report. A folder that holds no
  // library may be a link to another, and beside a loose file there may be
  // others that nobody asked about.
  bool SeesAllOf(size_t origin, const std::string& folder) const;

  // The folder an entry of a search path of `origin` leads to. Empty: it
  // depends on where the program is started.
  std::string FolderOf(size_t origin, absl::string_view entry) const;

  // Whether a folder found by FolderOf is one of the host's file system.
  bool IsOfHost(size_t origin, const std::string& folder) const;

  SearchPath SearchPathOf(
      size_t origin,
      const google::protobuf::RepeatedPtrField<std::string>& entries) const;

  struct FilePlace {
    LoaderWorld world = LoaderWorld::kPlain;
    // What tells this world's folders from those of others; `inner` is the
    // folder in it, `folder` both.
    std::string prefix;
    std::string inner;
    std::string folder;
    std::string path;
  };

  static FilePlace PlaceOf(const v1::FileReport& file,
                           const v1::FileReport* carrier);

  struct FilePaths {
    SearchPath rpath;
    SearchPath runpath;
  };

  const v1::ArtifactReport& report_;
  std::vector<FilePlace> places_;
  std::vector<FilePaths> paths_;
  absl::flat_hash_map<std::string, std::vector<size_t>> folders_;
  absl::flat_hash_map<std::string, std::vector<size_t>> by_name_;
};

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_LOADER_INDEX_H_
