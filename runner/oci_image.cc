#include "runner/oci_image.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/json.h"
#include "inspect/oci.h"

namespace twinpath::runner {
namespace {

using inspect::ArrayField;
using inspect::Field;
using inspect::Json;
using inspect::ObjectField;
using inspect::TextField;
using inspect::TextOf;

// Unpacking an image of tens of gigabytes.
// Below what a run of an image may take beyond its own limit (sequence.cc).
constexpr absl::Duration kImportLimit = absl::Minutes(25);
constexpr absl::Duration kQuestionLimit = absl::Minutes(2);
constexpr size_t kMaxDocuments = 1024;
constexpr int kMaxNesting = 4;
constexpr uint64_t kMaxConfBytes = 1 << 20;
// Of a configuration; what is longer is cut.
constexpr int kMaxVariables = 1000;
constexpr size_t kMaxTextBytes = 32 << 10;
constexpr absl::string_view kPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

absl::Status Unavailable(absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("TP134 containers-unavailable: ", why));
}

absl::Status NoLayout(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("no OCI layout: ", why));
}

// The program in PATH, with its path; empty: not installed.
std::string Installed(absl::string_view name) {
  for (const absl::string_view folder : absl::StrSplit(kPath, ':')) {
    const std::string path = JoinPath(folder, name);
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

std::string BlobPath(const std::string& folder, absl::string_view digest) {
  return JoinPath(folder, absl::StrCat("blobs/sha256/",
                                       absl::StripPrefix(digest, "sha256:")));
}

// A document of the layout, which must have the digest it is named by.
absl::StatusOr<std::string> ReadBlob(const std::string& folder,
                                     absl::string_view digest) {
  if (!IsOciDigest(digest)) return NoLayout("a digest that is none");
  TWINPATH_ASSIGN_OR_RETURN(
      std::string text,
      ReadFile(BlobPath(folder, digest), inspect::kMaxOciJsonBytes));
  if (absl::StrCat("sha256:", Sha256Of(text).Hex()) != digest) {
    return absl::DataLossError(absl::StrCat(
        "TP405 digest-differs: blob ", digest, " of the layout is another"));
  }
  return text;
}

v1::CpuArchitecture ArchitectureOf(absl::string_view name) {
  if (name == "amd64") return v1::CPU_ARCHITECTURE_X86_64;
  if (name == "arm64") return v1::CPU_ARCHITECTURE_AARCH64;
  return v1::CPU_ARCHITECTURE_UNSPECIFIED;
}

// Walks the indexes of a layout.
class LayoutWalk {
 public:
  LayoutWalk(std::string folder, absl::string_view wanted,
             v1::CpuArchitecture architecture)
      : folder_(std::move(folder)),
        wanted_(wanted),
        architecture_(architecture) {}

  // `as`: the digest that was asked for and stands for what is in the index.
  absl::Status Index(const Json& index, absl::string_view as, int depth) {
    const Json* const manifests = ArrayField(index, "manifests");
    if (manifests == nullptr) return NoLayout("an index without manifests");
    for (const Json& descriptor : *manifests) {
      TWINPATH_RETURN_IF_ERROR(Descriptor(descriptor, as, depth));
    }
    return absl::OkStatus();
  }
  std::vector<LayoutImage>& images() { return images_; }

 private:
  absl::Status Descriptor(const Json& descriptor, absl::string_view as,
                          int depth) {
    const std::string digest = TextField(descriptor, "digest");
    if (++documents_ > kMaxDocuments) return NoLayout("too many documents");
    if (!IsOciDigest(digest) ||
        access(BlobPath(folder_, digest).c_str(), F_OK) != 0) {
      return absl::OkStatus();  // Of another platform, and left out.
    }
    TWINPATH_ASSIGN_OR_RETURN(const std::string text,
                              ReadBlob(folder_, digest));
    const std::optional<Json> document = inspect::ParseJson(text);
    if (!document) return NoLayout("a manifest that is no JSON");
    if (ArrayField(*document, "manifests") != nullptr) {
      if (depth >= kMaxNesting) return NoLayout("indexes too deep");
      return Index(*document, digest == wanted_ ? wanted_ : as, depth + 1);
    }
    const Json* const config = ObjectField(*document, "config");
    if (config == nullptr) return absl::OkStatus();
    LayoutImage image;
    image.descriptor = descriptor.dump();
    image.digest = digest;
    image.id = TextField(*config, "digest");
    if (!as.empty()) {
      // Of the index that is wanted, the image for this host.
      const Json* const platform = ObjectField(descriptor, "platform");
      if (platform == nullptr ||
          ArchitectureOf(TextField(*platform, "architecture")) !=
              architecture_) {
        return absl::OkStatus();
      }
      image.digest = std::string(as);
    }
    images_.push_back(std::move(image));
    return absl::OkStatus();
  }

  const std::string folder_;
  const absl::string_view wanted_;
  const v1::CpuArchitecture architecture_;
  size_t documents_ = 0;
  std::vector<LayoutImage> images_;
};

// A key of TOML, "graphroot = \"/var/lib/containers/storage\"".
std::string TomlText(absl::string_view text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, key)) continue;
    line = absl::StripLeadingAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, "=")) continue;
    line = absl::StripAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, "\"")) continue;
    return std::string(line.substr(0, line.find('"')));
  }
  return "";
}

// Whether the file may be a saved image, by its first bytes and its name:
// a tar whose first member a layout may have, or a packed tar.
bool MayBeSavedImage(const std::string& path, absl::string_view name) {
  const auto file = OpenRegularFile(path);
  if (!file.ok()) return false;
  const auto head = PreadUpTo(file->get(), 0, 512);
  if (!head.ok() || head->size() < 512) return false;
  if (head->substr(257, 5) == "ustar") {
    // A header that says more of the one behind it (pax).
    if ((*head)[156] == 'x' || (*head)[156] == 'g') return true;
    return inspect::MayBeOciPath(absl::string_view(*head).substr(
        0, std::min<size_t>(100, head->find('\0'))));
  }
  const bool packed = absl::StartsWith(*head, "\x1f\x8b") ||
                      absl::StartsWith(*head,
                                       "\xfd"
                                       "7zXZ") ||
                      absl::StartsWith(*head, "\x28\xb5\x2f\xfd");
  for (const absl::string_view ending : {".tar", ".tgz", ".txz"}) {
    if (packed && absl::StrContains(name, ending)) return true;
  }
  return false;
}

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
                                       kQuestionLimit, cancelled));
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

absl::StatusOr<v1::OciImageFacts> FactsOf(
    const Podman& podman, absl::string_view id, absl::string_view wanted,
    absl::string_view source, const std::function<bool()>& cancelled) {
  TWINPATH_ASSIGN_OR_RETURN(
      const std::string text,
      podman.Run(
          {"image", "inspect", std::string(absl::StripPrefix(id, "sha256:"))},
          kQuestionLimit, cancelled));
  TWINPATH_ASSIGN_OR_RETURN(v1::OciImageFacts facts, ImageFacts(text));
  if (facts.id() != wanted) facts.set_digest(std::string(wanted));
  facts.set_source(std::string(source));
  return facts;
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

bool IsOciDigest(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "sha256:") || text.size() != 64) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

absl::Status Podman::WriteStorageConf(absl::string_view driver,
                                      absl::string_view image_store) const {
  std::string text = absl::StrCat(
      "[storage]\ndriver = \"", driver, "\"\ngraphroot = \"", folder_,
      "/storage\"\nrunroot = \"", folder_, "/run\"\n[storage.options]\n");
  if (!image_store.empty()) {
    absl::StrAppend(&text, "additionalimagestores = [\"", image_store, "\"]\n");
  }
  // An ordinary user may have one number only, and owns every file then.
  if (rootless_) {
    absl::StrAppend(&text, "[storage.options.", driver,
                    "]\nignore_chown_errors = \"true\"\n");
  }
  return WriteFileAtomic(JoinPath(folder_, "storage.conf"), text, 0600);
}

absl::StatusOr<Podman> Podman::Make(const std::string& folder) {
  Podman podman;
  podman.folder_ = folder;
  podman.rootless_ = geteuid() != 0;
  podman.podman_ = Installed("podman");
  if (podman.podman_.empty()) {
    return Unavailable(
        "podman is not installed; install the packages podman and runc");
  }
  const char* const named = std::getenv("TWINPATH_OCI_RUNTIME");
  std::string runtime = named != nullptr ? named : "";
  for (const char* name : {"runc", "crun"}) {
    if (runtime.empty()) runtime = Installed(name);
  }
  if (runtime.empty() || access(runtime.c_str(), X_OK) != 0) {
    return Unavailable(absl::StrCat(
        "no runtime: ",
        runtime.empty()
            ? "install the package runc, or crun"
            : absl::StrCat("TWINPATH_OCI_RUNTIME names no program: ",
                           Printable(runtime))));
  }
  if (folder.find_first_of("\"\\\n:") != std::string::npos) {
    return Unavailable(absl::StrCat("a work folder that podman cannot name: ",
                                    Printable(folder)));
  }
  for (const char* name : {"storage", "run", "tmp", "hooks", "home"}) {
    TWINPATH_RETURN_IF_ERROR(MakeDirectories(JoinPath(folder, name), 0700));
  }
  TWINPATH_RETURN_IF_ERROR(WriteFileAtomic(
      JoinPath(folder, "containers.conf"),
      absl::StrCat(
          "[engine]\nevents_logger = \"none\"\ncgroup_manager = "
          "\"cgroupfs\"\nruntime = \"",
          runtime, "\"\nimage_copy_tmp_dir = \"", folder,
          "/tmp\"\n[containers]\nlog_driver = \"k8s-file\"\nkeyring = false\n"),
      0600));
  podman.argv_ = {podman.podman_, "--log-level=error",
                  absl::StrCat("--tmpdir=", folder, "/tmp"),
                  absl::StrCat("--runtime=", runtime),
                  // Hooks of the host's are not the product's; CDI brings its
                  // own.
                  absl::StrCat("--hooks-dir=", folder, "/hooks")};
  podman.environment_ = {
      absl::StrCat("PATH=", kPath), "LANG=C.UTF-8",
      // Rootless podman looks the user's subordinate numbers up and keeps
      // nothing there.
      absl::StrCat("HOME=", folder, "/home"),
      absl::StrCat("XDG_RUNTIME_DIR=", folder, "/run"),
      absl::StrCat("TMPDIR=", folder, "/tmp"),
      absl::StrCat("CONTAINERS_STORAGE_CONF=", folder, "/storage.conf"),
      absl::StrCat("CONTAINERS_CONF=", folder, "/containers.conf")};
  // Overlay where the file system below can be one, copies elsewhere.
  absl::Status status;
  for (const char* driver : {"overlay", "vfs"}) {
    TWINPATH_RETURN_IF_ERROR(podman.WriteStorageConf(driver, ""));
    status = podman
                 .Run({"info", "--format", "{{.Store.GraphRoot}}"},
                      kQuestionLimit, nullptr)
                 .status();
    if (status.ok()) return podman;
    RemoveTree(JoinPath(folder, "storage")).IgnoreError();
    TWINPATH_RETURN_IF_ERROR(
        MakeDirectories(JoinPath(folder, "storage"), 0700));
  }
  return status;
}

absl::Status Podman::ShowHostStorage() {
  std::string root = "/var/lib/containers/storage";
  std::string conf = "/etc/containers/storage.conf";
  if (rootless_) {
    const char* const home = std::getenv("HOME");
    if (home == nullptr) return absl::UnavailableError("no home folder");
    root = JoinPath(home, ".local/share/containers/storage");
    conf = JoinPath(home, ".config/containers/storage.conf");
  }
  if (const auto text = ReadFile(conf, kMaxConfBytes); text.ok()) {
    const std::string named = TomlText(*text, "graphroot");
    if (absl::StartsWith(named, "/")) root = named;
  }
  for (const char* driver : {"overlay", "vfs", "btrfs"}) {
    const std::string images =
        JoinPath(root, absl::StrCat(driver, "-images/images.json"));
    if (access(images.c_str(), R_OK) != 0) continue;
    // Both storages have to be of one kind. What was loaded so far is not the
    // image looked for.
    for (const char* name : {"storage", "run"}) {
      RemoveTree(JoinPath(folder_, name)).IgnoreError();
      TWINPATH_RETURN_IF_ERROR(MakeDirectories(JoinPath(folder_, name), 0700));
    }
    return WriteStorageConf(driver, root);
  }
  return absl::UnavailableError(absl::StrCat("no images in ", root));
}

absl::StatusOr<std::string> Podman::Run(
    const std::vector<std::string>& arguments, absl::Duration limit,
    const std::function<bool()>& cancelled) const {
  ProcessOptions options;
  options.argv = argv_;
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.environment = environment_;
  options.directory = folder_;
  options.timeout = limit;
  options.cancelled = cancelled;
  options.head_bytes = 8 << 20;
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  if (!result.ok()) return Unavailable(MessageOf(result.status()));
  if (result->ending == ProcessResult::Ending::kCancelled) {
    return absl::CancelledError("cancelled");
  }
  if (!result->succeeded()) {
    absl::string_view said = absl::StripAsciiWhitespace(result->err.head);
    constexpr size_t kWords = 700;
    if (said.size() > kWords) said = said.substr(said.size() - kWords);
    return Unavailable(absl::StrCat("podman ", arguments[0], ": ",
                                    result->Describe(), ": ", Printable(said)));
  }
  return result->out.head;
}

void Podman::Remove() const {
  Run({"rm", "--all", "--force", "--time", "0"}, absl::Seconds(30), nullptr)
      .status()
      .IgnoreError();
  if (rootless_) {
    // Files of other users' numbers can only be removed from where podman maps
    // them.
    Run({"unshare", "rm", "-rf", JoinPath(folder_, "storage")},
        absl::Minutes(2), nullptr)
        .status()
        .IgnoreError();
  } else if (const auto text = ReadFile("/proc/self/mountinfo", 16 << 20);
             text.ok()) {
    // The innermost last, so from the back.
    std::vector<std::string> below;
    for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
      const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
      if (fields.size() > 4 &&
          absl::StartsWith(fields[4], absl::StrCat(folder_, "/"))) {
        below.emplace_back(fields[4]);
      }
    }
    for (auto it = below.rbegin(); it != below.rend(); ++it) {
      umount2(it->c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
    }
  }
  RemoveTree(folder_).IgnoreError();
}

absl::StatusOr<std::vector<LayoutImage>> LayoutImages(
    const std::string& folder, absl::string_view wanted,
    v1::CpuArchitecture architecture) {
  TWINPATH_ASSIGN_OR_RETURN(
      const std::string text,
      ReadFile(JoinPath(folder, "index.json"), inspect::kMaxOciJsonBytes));
  const std::optional<Json> index = inspect::ParseJson(text);
  if (!index) return NoLayout("index.json is no JSON");
  LayoutWalk walk(folder, wanted, architecture);
  TWINPATH_RETURN_IF_ERROR(walk.Index(*index, "", 0));
  return std::move(walk.images());
}

absl::StatusOr<v1::OciImageFacts> ImageFacts(absl::string_view inspect_json) {
  const std::optional<Json> list = inspect::ParseJson(inspect_json);
  if (!list || !list->is_array() || list->empty()) {
    return Unavailable("podman image inspect says nothing that can be read");
  }
  const Json& image = (*list)[0];
  v1::OciImageFacts facts;
  facts.set_digest(TextField(image, "Digest"));
  facts.set_id(absl::StrCat("sha256:", TextField(image, "Id")));
  facts.set_cpu_architecture(ArchitectureOf(TextField(image, "Architecture")));
  const Json* const config = ObjectField(image, "Config");
  if (config == nullptr) return facts;
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
  return facts;
}

absl::StatusOr<v1::OciImageFacts> TakeImage(
    Podman& podman, const std::string& artifact, absl::string_view wanted,
    v1::CpuArchitecture architecture, const std::function<bool()>& cancelled) {
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
      return FactsOf(podman, **id, wanted,
                     absl::StrCat("artifact ", layout.empty() ? "." : layout),
                     cancelled);
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
      return FactsOf(podman, found->id, wanted, absl::StrCat("artifact ", name),
                     cancelled);
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
      return FactsOf(podman, found->id, wanted, "storage of the host",
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
