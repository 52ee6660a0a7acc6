#include "runner/oci_image.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/json.h"
#include "runner/oci_layout.h"

namespace twinpath::runner {
namespace {

using inspect::ArrayField;
using inspect::Json;
using inspect::ObjectField;
using inspect::TextField;
using inspect::TextOf;

// Unpacking an image of tens of gigabytes.
// Below what a run of an image may take beyond its own limit (sequence.cc).
constexpr absl::Duration kImportLimit = absl::Minutes(25);
// Of a configuration; what is longer is cut.
constexpr int kMaxVariables = 1000;
constexpr size_t kMaxTextBytes = 32 << 10;

// Names of the regular files below a folder, links not followed. What cannot be
// read is left out: the image is not there then.
void ListFiles(const std::string& root, const std::string& folder, int depth,
               std::vector<std::string>& names) {
  constexpr int kMaxDepth = 64;
  const auto entries =
      ListDirectory(folder.empty() ? root : JoinPath(root, folder));
  if (!entries.ok() || depth > kMaxDepth) return;
  for (const std::string& entry : *entries) {
    const std::string name = folder.empty() ? entry : JoinPath(folder, entry);
    struct stat info;
    if (lstat(JoinPath(root, name).c_str(), &info) != 0) continue;
    if (S_ISREG(info.st_mode)) names.push_back(name);
    if (S_ISDIR(info.st_mode)) ListFiles(root, name, depth + 1, names);
  }
}

// The images in podman's storage, as it lists them.
struct StoredImage {
  std::string id;  // "sha256:..."
  std::vector<std::string> digests;
};
absl::StatusOr<std::vector<StoredImage>> StoredImages(
    const Podman& podman, const std::function<bool()>& cancelled) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string text,
                            podman.Run({"images", "--all", "--format", "json"},
                                       kPodmanQuestionLimit, cancelled));
  const std::optional<Json> list = inspect::ParseJson(text);
  std::vector<StoredImage> images;
  if (!list || !list->is_array()) return images;
  for (const Json& item : *list) {
    StoredImage& image = images.emplace_back();
    image.id = absl::StrCat("sha256:", TextField(item, "Id"));
    image.digests.push_back(TextField(item, "Digest"));
    for (const char* name : {"Digests", "RepoDigests"}) {
      const Json* const more = ArrayField(item, name);
      if (more == nullptr) continue;
      for (const Json& digest : *more) {
        const std::string written = TextOf(digest);
        const size_t at = written.rfind('@');
        image.digests.push_back(
            at == std::string::npos ? written : written.substr(at + 1));
      }
    }
  }
  return images;
}

// The stored image with this digest, or id.
const StoredImage* FindImage(const std::vector<StoredImage>& images,
                             absl::string_view wanted) {
  for (const StoredImage& image : images) {
    if (image.id == wanted ||
        std::find(image.digests.begin(), image.digests.end(), wanted) !=
            image.digests.end()) {
      return &image;
    }
  }
  return nullptr;
}

absl::StatusOr<OciImage> StoredImageOf(const Podman& podman,
                                       absl::string_view id,
                                       absl::string_view wanted,
                                       absl::string_view source,
                                       const std::function<bool()>& cancelled) {
  TWINPATH_ASSIGN_OR_RETURN(
      const std::string text,
      podman.Run(
          {"image", "inspect", std::string(absl::StripPrefix(id, "sha256:"))},
          kPodmanQuestionLimit, cancelled));
  TWINPATH_ASSIGN_OR_RETURN(OciImage image, ReadImage(text));
  if (image.facts.id() != wanted) image.facts.set_digest(std::string(wanted));
  image.facts.set_source(std::string(source));
  return image;
}

// Where a volume of the image lies, as it names it.
absl::StatusOr<std::string> VolumePath(absl::string_view name) {
  const auto refuse = [&](absl::string_view why) {
    return ContainersUnavailable(absl::StrCat("the oci_image has the volume ",
                                              Printable(name.substr(0, 200)),
                                              ", ", why));
  };
  std::string path;
  for (const absl::string_view part :
       absl::StrSplit(name, '/', absl::SkipEmpty())) {
    if (part == ".") continue;
    if (part == "..") return refuse("which leads out of its folder");
    absl::StrAppend(&path, "/", part);
  }
  if (path.empty()) return refuse("which is all of it");
  for (const absl::string_view taken : {"/proc", "/sys", "/dev", "/twinpath"}) {
    if (path == taken || absl::StartsWith(path, absl::StrCat(taken, "/"))) {
      return refuse(absl::StrCat("which lies in a container's own ", taken));
    }
  }
  return path;
}

// What the artifact has, for the answer where it is not what is wanted.
struct Seen {
  std::vector<std::string> words;
  void Add(absl::string_view name, absl::string_view digest) {
    constexpr size_t kMost = 8;
    if (words.size() < kMost) {
      words.push_back(absl::StrCat(Printable(name), ": ", digest));
    }
  }
};

// Brings the image in if the layout at `folder` has it.
absl::StatusOr<std::optional<std::string>> TakeFromLayout(
    const Podman& podman, const std::string& folder, absl::string_view name,
    absl::string_view wanted, v1::CpuArchitecture architecture, Seen& seen,
    const std::function<bool()>& cancelled) {
  TWINPATH_ASSIGN_OR_RETURN(const std::vector<LayoutImage> images,
                            LayoutImages(folder, wanted, architecture));
  for (const LayoutImage& image : images) {
    seen.Add(name, image.digest);
    if (image.digest != wanted && image.id != wanted) continue;
    // Podman takes a layout of one image only; this one shows that image of it.
    // By a relative path, since podman makes a name of the path and takes no
    // capital letters in it.
    const std::string view = JoinPath(podman.folder(), "view");
    RemoveTree(view).IgnoreError();
    TWINPATH_RETURN_IF_ERROR(MakeDirectories(view, 0700));
    TWINPATH_RETURN_IF_ERROR(
        WriteFileAtomic(JoinPath(view, "oci-layout"),
                        "{\"imageLayoutVersion\":\"1.0.0\"}", 0600));
    TWINPATH_RETURN_IF_ERROR(
        WriteFileAtomic(JoinPath(view, "index.json"),
                        absl::StrCat("{\"schemaVersion\":2,\"manifests\":[",
                                     image.descriptor, "]}"),
                        0600));
    if (symlink(JoinPath(folder, "blobs").c_str(),
                JoinPath(view, "blobs").c_str()) != 0) {
      return ErrnoStatus(errno, "a view of the layout");
    }
    TWINPATH_RETURN_IF_ERROR(
        podman.Run({"pull", "--quiet", "oci:view"}, kImportLimit, cancelled)
            .status());
    return image.id;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<OciImage> ReadImage(absl::string_view inspect_json) {
  const std::optional<Json> list = inspect::ParseJson(inspect_json);
  if (!list || !list->is_array() || list->empty()) {
    return ContainersUnavailable(
        "podman image inspect says nothing that can be read");
  }
  const Json& told = (*list)[0];
  OciImage image;
  v1::OciImageFacts& facts = image.facts;
  facts.set_digest(TextField(told, "Digest"));
  facts.set_id(absl::StrCat("sha256:", TextField(told, "Id")));
  facts.set_cpu_architecture(
      ArchitectureOfOci(TextField(told, "Architecture")));
  const Json* const config = ObjectField(told, "Config");
  if (config == nullptr) return image;
  const auto take = [&](const char* name, auto add) {
    const Json* const texts = ArrayField(*config, name);
    if (texts == nullptr) return;
    int count = 0;
    for (const Json& text : *texts) {
      if (++count > kMaxVariables) break;
      add(TextOf(text).substr(0, kMaxTextBytes));
    }
  };
  take("Env",
       [&](std::string text) { facts.add_environment(std::move(text)); });
  take("Entrypoint",
       [&](std::string text) { facts.add_entrypoint(std::move(text)); });
  take("Cmd", [&](std::string text) { facts.add_command(std::move(text)); });
  facts.set_working_directory(TextField(*config, "WorkingDir"));
  facts.set_user(TextField(*config, "User"));
  if (const Json* const volumes = ObjectField(*config, "Volumes");
      volumes != nullptr) {
    if (volumes->size() > kMaxVolumes) {
      return ContainersUnavailable(absl::StrCat(
          "the oci_image has ", volumes->size(),
          " volumes; a run's container has at most ", kMaxVolumes));
    }
    std::set<std::string> paths;
    for (const auto& [name, ignored] : volumes->items()) {
      TWINPATH_ASSIGN_OR_RETURN(std::string path, VolumePath(name));
      paths.insert(std::move(path));
    }
    image.volumes.assign(paths.begin(), paths.end());
  }
  return image;
}

absl::StatusOr<OciImage> TakeImage(Podman& podman, const std::string& artifact,
                                   absl::string_view wanted,
                                   v1::CpuArchitecture architecture,
                                   const std::function<bool()>& cancelled) {
  if (!IsOciDigest(wanted)) {
    return absl::InvalidArgumentError(
        absl::StrCat("TP136 image-not-here: not a digest: ", Printable(wanted),
                     "; write sha256: and 64 hexadecimal digits"));
  }
  Seen seen;
  std::vector<std::string> problems;
  std::vector<std::string> names;
  std::set<std::string> layouts;
  if (!artifact.empty()) {
    ListFiles(artifact, "", 0, names);
    for (const std::string& name : names) {
      if (name == "oci-layout") layouts.insert("");
      if (absl::EndsWith(name, "/oci-layout")) layouts.insert(DirName(name));
    }
  }
  for (const std::string& layout : layouts) {
    const auto id = TakeFromLayout(
        podman, layout.empty() ? artifact : JoinPath(artifact, layout),
        layout.empty() ? "the artifact" : layout, wanted, architecture, seen,
        cancelled);
    if (id.ok() && id->has_value()) {
      return StoredImageOf(
          podman, **id, wanted,
          absl::StrCat("artifact ", layout.empty() ? "." : layout), cancelled);
    }
    if (absl::IsCancelled(id.status())) return id.status();
    if (!id.ok()) problems.emplace_back(MessageOf(id.status()));
  }
  for (const std::string& name : names) {
    const std::string path = JoinPath(artifact, name);
    if (!MayBeSavedImage(path, name)) continue;
    const auto loaded = podman.Run({"load", "--quiet", "--input", path},
                                   kImportLimit, cancelled);
    if (absl::IsCancelled(loaded.status())) return loaded.status();
    if (!loaded.ok()) {
      problems.push_back(
          absl::StrCat(Printable(name), ": ", MessageOf(loaded.status())));
      continue;
    }
    TWINPATH_ASSIGN_OR_RETURN(const std::vector<StoredImage> images,
                              StoredImages(podman, cancelled));
    if (const StoredImage* found = FindImage(images, wanted)) {
      return StoredImageOf(podman, found->id, wanted,
                           absl::StrCat("artifact ", name), cancelled);
    }
    for (const StoredImage& image : images) {
      seen.Add(name, image.digests.empty() ? image.id : image.digests[0]);
    }
  }
  const absl::Status host = podman.ShowHostStorage();
  if (host.ok()) {
    const auto images = StoredImages(podman, cancelled);
    if (!images.ok()) {
      problems.emplace_back(MessageOf(images.status()));
    } else if (const StoredImage* found = FindImage(*images, wanted)) {
      return StoredImageOf(podman, found->id, wanted, "storage of the host",
                           cancelled);
    }
  }
  std::string detail = absl::StrCat(
      "TP136 image-not-here: ", wanted, " is not in the artifact (",
      seen.words.empty() ? "no image there" : absl::StrJoin(seen.words, ", "),
      ") and not in the storage of the host");
  if (!host.ok()) absl::StrAppend(&detail, " (", MessageOf(host), ")");
  for (const std::string& problem : problems) {
    absl::StrAppend(&detail, "; ", problem);
  }
  return absl::NotFoundError(detail);
}

}  // namespace twinpath::runner
