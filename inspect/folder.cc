#include "inspect/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/oci.h"

namespace twinpath::inspect {
namespace {

// Device and inode.
using FileId = std::pair<uint64_t, uint64_t>;

FileId IdOf(const struct stat& status) {
  return {status.st_dev, status.st_ino};
}

absl::string_view SpecialName(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFIFO:
      return "is a pipe";
    case S_IFSOCK:
      return "is a socket";
    case S_IFCHR:
    case S_IFBLK:
      return "is a device";
    default:
      return "is no file";
  }
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// Reads the names in a folder, sorted, at most `max` of them; sets `cut` if
// there are more.
absl::StatusOr<std::vector<std::string>> Names(const std::string& path,
                                               size_t max, bool& cut) {
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(path.c_str()));
  if (directory == nullptr) {
    return ErrnoStatus(errno, absl::StrCat("opening folder ", Printable(path)));
  }
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const struct dirent* const entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    const absl::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (names.size() >= max) {
      cut = true;
      break;
    }
    names.emplace_back(name);
  }
  if (errno != 0 && !cut) {
    return ErrnoStatus(errno, absl::StrCat("reading folder ", Printable(path)));
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool IsKind(const std::string& path, mode_t kind) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 &&
         (status.st_mode & S_IFMT) == kind;
}

class FolderWalk {
 public:
  explicit FolderWalk(const FolderLimits& limits) : limits_(limits) {}

  absl::StatusOr<FolderListing> Run(const std::string& path,
                                    absl::string_view name) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) {
      return ErrnoStatus(errno,
                         absl::StrCat("opening folder ", Printable(path)));
    }
    if (!S_ISDIR(status.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Printable(path), " is no folder"));
    }
    bool cut = false;
    TWINPATH_RETURN_IF_ERROR(Names(path, 0, cut).status());
    folders_.insert(IdOf(status));
    waiting_.push_back({path, std::string(name), 0});
    // What links lead to comes last, so that a file has its own name.
    while (!waiting_.empty() || next_link_ < links_.size()) {
      if (waiting_.empty()) {
        Follow(links_[next_link_++]);
        continue;
      }
      const Place place = std::move(waiting_.back());
      waiting_.pop_back();
      Folder(place);
    }
    std::sort(listing_.targets.begin(), listing_.targets.end(),
              [](const InspectTarget& a, const InspectTarget& b) {
                return a.name < b.name;
              });
    return std::move(listing_);
  }

 private:
  struct Place {
    std::string path;
    std::string name;
    size_t depth = 0;
  };

  void Note(const std::string& name, absl::string_view what,
            bool incomplete = false) {
    listing_.incomplete |= incomplete;
    if (listing_.notes.size() >= limits_.notes) {
      ++listing_.more_notes;
      return;
    }
    listing_.notes.push_back({name, std::string(what), incomplete});
  }

  void Folder(const Place& place) {
    if (IsOciLayoutFolder(place.path)) {
      listing_.targets.push_back(
          {.path = place.path, .name = place.name, .oci_layout = true});
      return;
    }
    bool cut = false;
    const size_t room = limits_.files - seen_;
    const absl::StatusOr<std::vector<std::string>> names =
        Names(place.path, room, cut);
    if (!names.ok()) {
      Note(place.name,
           absl::StrCat("cannot be read: ", MessageOf(names.status())), true);
      return;
    }
    seen_ += names->size();
    if (cut && !full_) {
      full_ = true;
      Note(place.name,
           absl::StrCat("is not listed further: the cap of ", limits_.files,
                        " files and folders is reached"),
           true);
    }
    // Folders are taken from the back.
    const size_t from = waiting_.size();
    for (const std::string& name : *names) {
      Entry({JoinPath(place.path, name), JoinPath(place.name, name),
             place.depth + 1});
    }
    std::reverse(waiting_.begin() + static_cast<std::ptrdiff_t>(from),
                 waiting_.end());
  }

  void Entry(Place place) {
    struct stat status = {};
    if (::lstat(place.path.c_str(), &status) != 0) {
      // Gone meanwhile.
      if (errno == ENOENT) return;
      Note(place.name, MessageOf(ErrnoStatus(errno, "cannot be looked at")),
           true);
      return;
    }
    if (S_ISLNK(status.st_mode)) {
      links_.push_back(std::move(place));
      return;
    }
    Take(std::move(place), status);
  }

  void Follow(Place place) {
    struct stat status = {};
    if (::stat(place.path.c_str(), &status) == 0) {
      Take(std::move(place), status);
    } else if (errno == ENOENT || errno == ENOTDIR) {
      Note(place.name, "is a link to nothing");
    } else if (errno == ELOOP) {
      Note(place.name, "is a link in a loop");
    } else {
      Note(place.name,
           MessageOf(ErrnoStatus(errno, "is a link that cannot be followed")),
           true);
    }
  }

  // Takes a file or folder that is reached for the first time.
  void Take(Place place, const struct stat& status) {
    if (S_ISREG(status.st_mode)) {
      if (!files_.insert(IdOf(status)).second) return;
      listing_.targets.push_back(
          {.path = std::move(place.path), .name = std::move(place.name)});
      return;
    }
    if (!S_ISDIR(status.st_mode)) {
      Note(place.name, SpecialName(status.st_mode));
      return;
    }
    if (!folders_.insert(IdOf(status)).second) return;
    if (place.depth > limits_.depth) {
      Note(place.name,
           absl::StrCat("is not opened: folders are listed ", limits_.depth,
                        " deep"),
           true);
      return;
    }
    waiting_.push_back(std::move(place));
  }

  const FolderLimits& limits_;
  FolderListing listing_;
  size_t seen_ = 0;
  bool full_ = false;
  std::vector<Place> waiting_;
  std::vector<Place> links_;
  size_t next_link_ = 0;
  absl::flat_hash_set<FileId> files_;
  absl::flat_hash_set<FileId> folders_;
};

}  // namespace

absl::StatusOr<FolderListing> ListFolder(const std::string& path,
                                         absl::string_view name,
                                         const FolderLimits& limits) {
  return FolderWalk(limits).Run(path, name);
}

bool IsOciLayoutFolder(const std::string& path) {
  return IsKind(JoinPath(path, "oci-layout"), S_IFREG) &&
         IsKind(JoinPath(path, "index.json"), S_IFREG) &&
         IsKind(JoinPath(path, "blobs"), S_IFDIR);
}

absl::StatusOr<std::vector<std::string>> ListOciLayout(const std::string& path,
                                                       size_t max,
                                                       uint64_t& left_out) {
  std::vector<std::string> files;
  left_out = 0;
  for (const char* const name : {"index.json", "oci-layout"}) {
    if (IsKind(JoinPath(path, name), S_IFREG)) files.emplace_back(name);
  }
  // More are never listed; there is no use in counting on.
  constexpr size_t kMaxNames = 100'000;
  bool cut = false;
  TWINPATH_ASSIGN_OR_RETURN(const std::vector<std::string> algorithms,
                            Names(JoinPath(path, "blobs"), kMaxNames, cut));
  for (const std::string& algorithm : algorithms) {
    const std::string folder = JoinPath("blobs", algorithm);
    if (!IsKind(JoinPath(path, folder), S_IFDIR)) continue;
    TWINPATH_ASSIGN_OR_RETURN(const std::vector<std::string> blobs,
                              Names(JoinPath(path, folder), kMaxNames, cut));
    for (const std::string& blob : blobs) {
      std::string file = JoinPath(folder, blob);
      if (!IsKind(JoinPath(path, file), S_IFREG)) continue;
      if (files.size() < max) {
        files.push_back(std::move(file));
      } else {
        ++left_out;
      }
    }
  }
  return files;
}

std::vector<std::string> ThinMembersElsewhere(
    const v1::FileReport& archive, const std::string& path,
    const std::vector<InspectTarget>& targets) {
  absl::flat_hash_set<std::string> known;
  const auto clean = [](absl::string_view file) {
    return absl::StrCat(absl::StartsWith(file, "/") ? "/" : "",
                        CleanOciPath(file));
  };
  for (const InspectTarget& target : targets) known.insert(clean(target.path));
  std::vector<std::string> missing;
  for (const std::string& member : archive.carrier().external_members()) {
    const std::string file = absl::StartsWith(member, "/")
                                 ? member
                                 : JoinPath(DirName(path), member);
    if (!known.contains(clean(file))) missing.push_back(member);
  }
  return missing;
}

}  // namespace twinpath::inspect
