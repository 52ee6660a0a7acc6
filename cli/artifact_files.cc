#include "cli/artifact_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/client.h"
#include "cli/progress.h"
#include "inspect/manifest.h"

namespace twinpath::cli {
namespace {

bool IsFolder(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// Where the file `name` of a scan without root lies: beside its name in a
// folder that was given, or a file that was given.
std::string PathOf(const std::vector<ArtifactSource>& sources,
                   const std::string& name) {
  for (const ArtifactSource& source : sources) {
    if (IsFolder(source.path)) {
      std::string path = JoinPath(source.path, name);
      struct stat info {};
      if (lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) return path;
    } else if (BaseName(source.path) == name) {
      return source.path;
    }
  }
  return "";
}

// Names are what follows the root, so where one path is absolute, all are.
void MakeComparable(std::vector<std::string>& paths, std::string& root) {
  bool absolute = absl::StartsWith(root, "/");
  for (const std::string& path : paths) absolute |= absl::StartsWith(path, "/");
  if (!absolute) return;
  const auto make = [](std::string& path) {
    std::error_code error;
    const std::filesystem::path made = std::filesystem::absolute(path, error);
    if (!error) path = made.string();
  };
  make(root);
  for (std::string& path : paths) make(path);
}

std::string Quoted(const ArtifactSource& source) {
  return absl::StrCat(source.place, source.place.empty() ? "" : ": ",
                      Printable(source.path));
}

}  // namespace

absl::StatusOr<LocalArtifact> ScanLocal(
    absl::string_view name, const std::vector<ArtifactSource>& sources,
    absl::string_view given_root) {
  LocalArtifact out;
  std::string root(given_root);
  bool renames = false;
  for (const ArtifactSource& source : sources) renames |= !source.name.empty();
  if (root.empty() && !renames) {
    // At once, so that a link may point at another of the files.
    std::vector<std::string> paths;
    for (const ArtifactSource& source : sources) paths.push_back(source.path);
    TWINPATH_ASSIGN_OR_RETURN(out.artifact, inspect::ScanArtifact(paths, ""));
    for (const v1::ArtifactFile& file : out.artifact.files()) {
      if (file.type() == v1::FILE_TYPE_REGULAR) {
        out.paths[file.name()] = PathOf(sources, file.name());
      }
    }
  } else if (!root.empty()) {
    std::vector<std::string> paths;
    for (const ArtifactSource& source : sources) paths.push_back(source.path);
    MakeComparable(paths, root);
    TWINPATH_ASSIGN_OR_RETURN(out.artifact, inspect::ScanArtifact(paths, root));
    for (const v1::ArtifactFile& file : out.artifact.files()) {
      if (file.type() == v1::FILE_TYPE_REGULAR) {
        out.paths[file.name()] = JoinPath(root, file.name());
      }
    }
  } else {
    std::set<std::string> names;
    for (const ArtifactSource& source : sources) {
      TWINPATH_ASSIGN_OR_RETURN_CTX(v1::Artifact part,
                                    inspect::ScanArtifact({source.path}, ""),
                                    Quoted(source));
      const bool folder = IsFolder(source.path);
      for (v1::ArtifactFile& file : *part.mutable_files()) {
        const std::string path =
            folder ? JoinPath(source.path, file.name()) : source.path;
        if (!source.name.empty()) {
          file.set_name(folder ? JoinPath(source.name, file.name())
                               : source.name);
        }
        if (!names.insert(file.name()).second) {
          return absl::InvalidArgumentError(absl::StrCat(
              Quoted(source), ": another file is named \"",
              Printable(file.name()), "\" too; give one of them another name"));
        }
        if (file.type() == v1::FILE_TYPE_REGULAR) {
          out.paths[file.name()] = path;
        }
        *out.artifact.add_files() = std::move(file);
      }
    }
    TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest,
                              inspect::ArtifactDigest(out.artifact));
    out.artifact.mutable_digest()->set_sha256(digest.Raw());
  }
  out.artifact.set_name(std::string(name));
  return out;
}

absl::Status StageArtifact(const LocalArtifact& artifact,
                           const std::string& directory) {
  for (const v1::ArtifactFile& file : artifact.artifact.files()) {
    const std::string to = JoinPath(directory, file.name());
    TWINPATH_RETURN_IF_ERROR(MakeDirectories(DirName(to), 0755));
    if (file.type() == v1::FILE_TYPE_SYMLINK) {
      if (symlink(file.link_target().c_str(), to.c_str()) != 0) {
        return ErrnoStatus(errno,
                           absl::StrCat("staging ", Printable(file.name())));
      }
      continue;
    }
    const auto from = artifact.paths.find(file.name());
    if (from == artifact.paths.end()) {
      return absl::InternalError(
          absl::StrCat("no path for ", Printable(file.name())));
    }
    std::error_code error;
    std::filesystem::copy_file(from->second, to, error);
    if (error) {
      return ErrnoStatus(error.value(),
                         absl::StrCat("staging ", Printable(file.name())));
    }
    if (chmod(to.c_str(), file.mode() & 0777) != 0) {
      return ErrnoStatus(errno, absl::StrCat("setting the mode of ", to));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::RegisterArtifactResponse> PushArtifact(
    const LocalArtifact& artifact, Client& client, Console& console) {
  std::map<Sha256, const v1::ArtifactFile*> blobs;
  for (const v1::ArtifactFile& file : artifact.artifact.files()) {
    if (file.type() != v1::FILE_TYPE_REGULAR) continue;
    TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest,
                              Sha256::FromRaw(file.digest().sha256()));
    blobs[digest] = &file;
  }
  std::vector<Sha256> digests;
  for (const auto& [digest, file] : blobs) digests.push_back(digest);
  TWINPATH_ASSIGN_OR_RETURN(const std::vector<Sha256> missing,
                            client.FindMissing(digests));
  uint64_t total = 0;
  for (const Sha256& digest : missing) {
    const auto found = blobs.find(digest);
    if (found == blobs.end()) {
      return absl::InternalError(
          "the coordinator asks for a blob that is not in the artifact");
    }
    total += found->second->size_bytes();
  }
  Progress progress(console);
  uint64_t before = 0;
  for (const Sha256& digest : missing) {
    const v1::ArtifactFile& file = *blobs[digest];
    const std::string& path = artifact.paths.at(file.name());
    TWINPATH_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(path));
    TWINPATH_RETURN_IF_ERROR_CTX(
        client.PutBlob(digest, fd.get(), file.size_bytes(),
                       [&](uint64_t sent) {
                         progress.Show(absl::StrCat("uploading ",
                                                    HumanBytes(before + sent),
                                                    " of ", HumanBytes(total)));
                       }),
        Printable(path));
    before += file.size_bytes();
  }
  progress.Show("the coordinator inspects the files");
  return client.RegisterArtifact(artifact.artifact);
}

}  // namespace twinpath::cli
