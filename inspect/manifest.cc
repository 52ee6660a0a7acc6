#include "inspect/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"

namespace twinpath::inspect {
namespace {

constexpr int kMaxDepth = 64;
// As many links as Linux follows.
constexpr int kMaxLinkSteps = 40;

absl::Status Bad(absl::string_view name, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("artifact file \"", Printable(name), "\": ", why));
}

absl::Status CheckName(absl::string_view name) {
  if (name.empty()) return Bad(name, "the name is empty");
  if (name.size() > kMaxNameBytes) {
    return Bad(name.substr(0, 80),
               absl::StrCat("the name has ", name.size(), " bytes, at most ",
                            kMaxNameBytes, " are allowed"));
  }
  if (absl::StrContains(name, absl::string_view("\0", 1))) {
    return Bad(name, "the name holds a NUL byte");
  }
  if (name[0] == '/') {
    return Bad(name, "the name is absolute; it has to be relative");
  }
  for (absl::string_view part : absl::StrSplit(name, '/')) {
    if (part.empty()) return Bad(name, "the name has an empty part");
    if (part == "." || part == "..") {
      return Bad(name, absl::StrCat("the name has the part \"", part, "\""));
    }
  }
  return absl::OkStatus();
}

using FilesByName =
    absl::flat_hash_map<absl::string_view, const v1::ArtifactFile*>;

absl::Status CheckTarget(absl::string_view name, absl::string_view target) {
  if (target.empty()) return Bad(name, "the link has no target");
  if (target.size() > kMaxNameBytes ||
      absl::StrContains(target, absl::string_view("\0", 1))) {
    return Bad(name, "the link's target is malformed");
  }
  if (target[0] == '/') {
    return Bad(name, absl::StrCat("the link's target ", Printable(target),
                                  " is absolute; it has to stay inside the "
                                  "artifact"));
  }
  return absl::OkStatus();
}

// Follows a link part by part, as the kernel does: ".." behind a link to a
// folder leads above that folder. It has to stay inside and to end at a member
// or at a folder that members lie in.
absl::Status CheckLink(const v1::ArtifactFile& file, const FilesByName& files,
                       const absl::flat_hash_set<std::string>& folders) {
  std::vector<std::string> at = absl::StrSplit(file.name(), '/');
  at.pop_back();
  // Parts still to be walked, the next one last.
  std::vector<std::string> ahead;
  const auto follow = [&](const v1::ArtifactFile& link) -> absl::Status {
    TWINPATH_RETURN_IF_ERROR(CheckTarget(link.name(), link.link_target()));
    const std::vector<std::string> parts =
        absl::StrSplit(link.link_target(), '/', absl::SkipEmpty());
    ahead.insert(ahead.end(), parts.rbegin(), parts.rend());
    return absl::OkStatus();
  };
  TWINPATH_RETURN_IF_ERROR(follow(file));
  int steps = 1;
  while (!ahead.empty()) {
    const std::string part = std::move(ahead.back());
    ahead.pop_back();
    if (part == ".") continue;
    if (part == "..") {
      if (at.empty()) {
        return Bad(file.name(), absl::StrCat("the link's target ",
                                             Printable(file.link_target()),
                                             " leaves the artifact"));
      }
      at.pop_back();
      continue;
    }
    at.push_back(part);
    const std::string name = absl::StrJoin(at, "/");
    if (folders.contains(name)) continue;
    const auto found = files.find(name);
    if (found == files.end()) {
      return Bad(file.name(),
                 absl::StrCat("the link ends at ", Printable(name),
                              ", which is not in the artifact; add it or leave "
                              "the link out"));
    }
    if (found->second->type() == v1::FILE_TYPE_REGULAR) {
      if (ahead.empty()) return absl::OkStatus();
      return Bad(file.name(),
                 absl::StrCat("the link leads through ", Printable(name),
                              ", which is not a folder"));
    }
    if (++steps > kMaxLinkSteps) {
      return Bad(file.name(), "the link is part of a loop");
    }
    at.pop_back();
    TWINPATH_RETURN_IF_ERROR(follow(*found->second));
  }
  return absl::OkStatus();
}

absl::Status CheckMember(const v1::ArtifactFile& file) {
  TWINPATH_RETURN_IF_ERROR(CheckName(file.name()));
  switch (file.type()) {
    case v1::FILE_TYPE_REGULAR:
      if (file.digest().sha256().size() != 32) {
        return Bad(file.name(), "a file needs a SHA-256 of 32 bytes");
      }
      if (!file.link_target().empty()) {
        return Bad(file.name(), "a file has no link target");
      }
      if (file.mode() > 0777) {
        return Bad(file.name(),
                   absl::StrFormat("mode %o is outside 0 to 777", file.mode()));
      }
      return absl::OkStatus();
    case v1::FILE_TYPE_SYMLINK:
      if (file.has_digest() || file.size_bytes() != 0 || file.mode() != 0) {
        return Bad(file.name(), "a link has no digest, size or mode");
      }
      return absl::OkStatus();
    default:
      return Bad(file.name(), "neither a file nor a symbolic link");
  }
}

absl::Status CheckMembers(const v1::Artifact& artifact) {
  if (artifact.files_size() == 0) {
    return absl::InvalidArgumentError("the artifact has no files");
  }
  if (artifact.files_size() > kMaxArtifactFiles) {
    return absl::InvalidArgumentError(
        absl::StrCat("the artifact has ", artifact.files_size(),
                     " files, at most ", kMaxArtifactFiles, " are allowed"));
  }
  FilesByName files;
  for (const v1::ArtifactFile& file : artifact.files()) {
    TWINPATH_RETURN_IF_ERROR(CheckMember(file));
    if (!files.emplace(file.name(), &file).second) {
      return Bad(file.name(), "the name occurs twice");
    }
  }
  absl::flat_hash_set<std::string> folders;
  for (const v1::ArtifactFile& file : artifact.files()) {
    const absl::string_view name = file.name();
    for (size_t slash = name.find('/'); slash != absl::string_view::npos;
         slash = name.find('/', slash + 1)) {
      const absl::string_view folder = name.substr(0, slash);
      if (files.contains(folder)) {
        return Bad(name, absl::StrCat("it lies below ", Printable(folder),
                                      ", which is not a folder"));
      }
      folders.insert(std::string(folder));
    }
  }
  for (const v1::ArtifactFile& file : artifact.files()) {
    if (file.type() == v1::FILE_TYPE_SYMLINK) {
      TWINPATH_RETURN_IF_ERROR(CheckLink(file, files, folders));
    }
  }
  return absl::OkStatus();
}

// Space, backslash and bytes outside printable ASCII as \xNN, so that a line
// has exactly one reading.
void AppendEscaped(absl::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    if (c > ' ' && c <= '~' && c != '\\') {
      out.push_back(c);
    } else {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(c));
    }
  }
}

Sha256 DigestOfLines(const v1::Artifact& artifact) {
  std::vector<std::string> lines;
  lines.reserve(static_cast<size_t>(artifact.files_size()));
  for (const v1::ArtifactFile& file : artifact.files()) {
    lines.push_back(ManifestLine(file));
  }
  std::sort(lines.begin(), lines.end());
  Sha256Stream digest;
  for (const std::string& line : lines) digest.Update(line);
  return digest.Finish();
}

// Collects the members of one ScanArtifact call.
class Collector {
 public:
  explicit Collector(v1::Artifact& artifact) : artifact_(artifact) {}

  // `name` is the member's name, or "" for a folder whose members are named
  // relative to it.
  absl::Status Add(const std::string& path, const std::string& name,
                   int depth) {
    struct stat status;
    if (::lstat(path.c_str(), &status) != 0) return ErrnoStatus(errno, path);
    if (S_ISDIR(status.st_mode)) return AddFolder(path, name, depth);
    if (artifact_.files_size() >= kMaxArtifactFiles) {
      return absl::InvalidArgumentError(
          absl::StrCat("the artifact has more than ", kMaxArtifactFiles,
                       " files; name a smaller folder"));
    }
    if (S_ISLNK(status.st_mode)) return AddLink(path, name);
    if (S_ISREG(status.st_mode)) return AddFile(path, name);
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": neither a file, a folder nor a symbolic link"));
  }

 private:
  absl::Status AddFolder(const std::string& path, const std::string& name,
                         int depth) {
    if (depth >= kMaxDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": more than ", kMaxDepth, " folders deep"));
    }
    TWINPATH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                              ListDirectory(path));
    for (const std::string& member : names) {
      TWINPATH_RETURN_IF_ERROR(
          Add(JoinPath(path, member),
              name.empty() ? member : JoinPath(name, member), depth + 1));
    }
    return absl::OkStatus();
  }

  absl::Status AddLink(const std::string& path, const std::string& name) {
    std::string target(kMaxNameBytes + 1, '\0');
    const ssize_t n = ::readlink(path.c_str(), target.data(), target.size());
    if (n < 0) return ErrnoStatus(errno, path);
    target.resize(static_cast<size_t>(n));
    v1::ArtifactFile& file = *artifact_.add_files();
    file.set_name(name);
    file.set_type(v1::FILE_TYPE_SYMLINK);
    file.set_link_target(target);
    return absl::OkStatus();
  }

  // Size, mode and digest are taken from one descriptor, so that they belong
  // to one file even if the name is given to another meanwhile.
  absl::Status AddFile(const std::string& path, const std::string& name) {
    TWINPATH_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(path));
    struct stat status;
    if (::fstat(fd.get(), &status) != 0) return ErrnoStatus(errno, path);
    TWINPATH_ASSIGN_OR_RETURN_CTX(const Sha256 digest,
                                  Sha256OfDescriptor(fd.get()), path);
    struct stat after;
    if (::fstat(fd.get(), &after) != 0) return ErrnoStatus(errno, path);
    if (after.st_size != status.st_size ||
        after.st_mtim.tv_sec != status.st_mtim.tv_sec ||
        after.st_mtim.tv_nsec != status.st_mtim.tv_nsec) {
      return absl::AbortedError(
          absl::StrCat(path,
                       ": changed while it was read; wait until it is "
                       "written and try again"));
    }
    v1::ArtifactFile& file = *artifact_.add_files();
    file.set_name(name);
    file.set_type(v1::FILE_TYPE_REGULAR);
    file.set_mode(status.st_mode & 0777);
    file.set_size_bytes(static_cast<uint64_t>(status.st_size));
    file.mutable_digest()->set_sha256(digest.Raw());
    return absl::OkStatus();
  }

  v1::Artifact& artifact_;
};

// Path without trailing slashes and "." parts. ".." stays: a symbolic link
// before it would change its meaning.
std::string Plain(absl::string_view path) {
  std::string out = absl::StartsWith(path, "/") ? "/" : "";
  bool first = true;
  for (absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (part == ".") continue;
    if (!first) out.push_back('/');
    absl::StrAppend(&out, part);
    first = false;
  }
  return out.empty() ? "." : out;
}

// Name of `path` below `root`; "" if it is the root itself.
absl::StatusOr<std::string> NameBelow(const std::string& path,
                                      const std::string& root) {
  if (path == root) return std::string();
  absl::string_view rest = path;
  if (root == ".") {
    if (!absl::StartsWith(rest, "/")) return std::string(rest);
  } else if (absl::ConsumePrefix(&rest, root) &&
             (root == "/" || absl::ConsumePrefix(&rest, "/"))) {
    return std::string(rest);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": not inside the root ", root));
}

bool IsFolder(const std::string& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

absl::StatusOr<v1::Artifact> ScanArtifact(const std::vector<std::string>& paths,
                                          absl::string_view root) {
  v1::Artifact artifact;
  Collector collector(artifact);
  for (const std::string& given : paths) {
    const std::string path = Plain(given);
    std::string name;
    if (!root.empty()) {
      TWINPATH_ASSIGN_OR_RETURN(name, NameBelow(path, Plain(root)));
    } else if (!IsFolder(path)) {
      name = std::string(BaseName(path));
    }
    TWINPATH_RETURN_IF_ERROR(collector.Add(path, name, 0));
  }
  std::sort(artifact.mutable_files()->begin(), artifact.mutable_files()->end(),
            [](const v1::ArtifactFile& a, const v1::ArtifactFile& b) {
              return a.name() < b.name();
            });
  TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest, ArtifactDigest(artifact));
  artifact.mutable_digest()->set_sha256(digest.Raw());
  return artifact;
}

absl::Status ValidateArtifact(const v1::Artifact& artifact) {
  TWINPATH_RETURN_IF_ERROR(CheckMembers(artifact));
  if (!artifact.has_digest()) return absl::OkStatus();
  if (artifact.digest().sha256().size() != 32) {
    return absl::InvalidArgumentError(
        "the artifact's digest does not have 32 bytes");
  }
  const Sha256 digest = DigestOfLines(artifact);
  if (digest.Raw() != artifact.digest().sha256()) {
    return absl::DataLossError(absl::StrCat(
        "the artifact's digest is not that of its files, which is ",
        digest.Hex()));
  }
  return absl::OkStatus();
}

std::string ManifestLine(const v1::ArtifactFile& file) {
  std::string line;
  if (file.type() == v1::FILE_TYPE_SYMLINK) {
    line = "link ";
    AppendEscaped(file.link_target(), line);
  } else {
    line = absl::StrFormat("file %03o %d ", file.mode(), file.size_bytes());
    for (const char c : file.digest().sha256()) {
      absl::StrAppendFormat(&line, "%02x", static_cast<unsigned char>(c));
    }
  }
  line.push_back(' ');
  AppendEscaped(file.name(), line);
  line.push_back('\n');
  return line;
}

absl::StatusOr<Sha256> ArtifactDigest(const v1::Artifact& artifact) {
  TWINPATH_RETURN_IF_ERROR(CheckMembers(artifact));
  return DigestOfLines(artifact);
}

}  // namespace twinpath::inspect
