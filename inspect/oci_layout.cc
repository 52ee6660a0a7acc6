#include "inspect/oci_layout.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/digest.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/file_kind.h"
#include "inspect/json.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kMaxLabelBytes = 256;
// Indexes inside each other.
constexpr int kMaxIndexDepth = 4;

OciBlob NamedFile(absl::string_view path) {
  OciBlob blob;
  blob.path = std::string(path);
  return blob;
}

std::string Platform(const Json& json) {
  const std::string os = TextField(json, "os");
  const std::string architecture = TextField(json, "architecture");
  const std::string variant = TextField(json, "variant");
  if (os.empty() && architecture.empty()) return "";
  return Printable(absl::StrCat(os, "-", architecture,
                                variant.empty() ? "" : "-", variant))
      .substr(0, kMaxLabelBytes);
}

// Reads indexes, manifests and configurations.
class LayoutReader {
 public:
  explicit LayoutReader(OciBlobs& blobs) : blobs_(blobs) {}

  // Finds the images.
  absl::StatusOr<std::vector<OciImage>> Read() {
    if (blobs_.Has(kOciIndex)) {
      TWINPATH_ASSIGN_OR_RETURN(const std::optional<Json> index,
                                Document(NamedFile(kOciIndex), nullptr));
      if (index) TWINPATH_RETURN_IF_ERROR(Index(*index, "", 0));
    }
    // Newer `docker save` writes both, and they say the same.
    if (images_.empty() && blobs_.Has(kDockerManifest)) {
      TWINPATH_ASSIGN_OR_RETURN(const std::optional<Json> manifest,
                                Document(NamedFile(kDockerManifest), nullptr));
      if (manifest) TWINPATH_RETURN_IF_ERROR(DockerManifest(*manifest));
    }
    if (images_.empty()) {
      Problem("TP232", unread_ ? "which images the layout holds is not known"
                               : "the layout holds no image");
    }
    Label();
    return std::move(images_);
  }

 private:
  void Problem(absl::string_view code, const std::string& detail) const {
    blobs_.Problem(code, detail);
  }

  // Reads a JSON document; absent where there is none, which is a problem then.
  absl::StatusOr<std::optional<Json>> Document(const OciBlob& blob,
                                               std::string* text) {
    const std::string name =
        Printable(blob.digest.empty() ? blob.path : blob.digest);
    if (++documents_ > kMaxOciDocuments) {
      unread_ = true;
      if (documents_ == kMaxOciDocuments + 1) {
        Problem("TP232",
                absl::StrCat("the cap of ", kMaxOciDocuments,
                             " indexes and manifests is reached at ", name));
      }
      return std::nullopt;
    }
    TWINPATH_ASSIGN_OR_RETURN(const ByteSource* const source,
                              blobs_.Find(blob, "document"));
    if (source == nullptr) {
      unread_ = true;
      return std::nullopt;
    }
    // Configurations are kept while the layers are read.
    const uint64_t max =
        text == nullptr ? kMaxOciJsonBytes : kMaxOciConfigBytes;
    if (source->size() > max) {
      unread_ = true;
      Problem("TP232", absl::StrCat("document ", name, " is above the cap of ",
                                    HumanBytes(max)));
      return std::nullopt;
    }
    TWINPATH_ASSIGN_OR_RETURN(
        std::string bytes,
        ReadBytes(*source, 0, source->size(), kMaxOciJsonBytes));
    if (JsonDepth(bytes) > kMaxJsonDepth) {
      Problem("TP232", absl::StrCat("document ", name, " is nested more than ",
                                    kMaxJsonDepth, " levels deep"));
      return std::nullopt;
    }
    std::optional<Json> json = ParseJson(bytes);
    if (!json) {
      Problem("TP233", absl::StrCat("document ", name, " is no JSON"));
      return std::nullopt;
    }
    if (text != nullptr) *text = std::move(bytes);
    return json;
  }

  // Reads a descriptor; absent where it has no digest, which is a problem.
  std::optional<OciBlob> Descriptor(const Json& json, absl::string_view what) {
    OciBlob blob;
    blob.digest = TextField(json, "digest");
    const std::vector<absl::string_view> parts =
        absl::StrSplit(blob.digest, absl::MaxSplits(':', 1));
    const auto fits = [](absl::string_view part) {
      return !part.empty() && part.size() <= kMaxLabelBytes &&
             !absl::StrContains(part, '/') && part != "." && part != "..";
    };
    if (parts.size() != 2 || !fits(parts[0]) || !fits(parts[1])) {
      Problem("TP233", absl::StrCat("a descriptor of a ", what,
                                    " has no digest that names a blob: ",
                                    Printable(blob.digest.substr(0, 80))));
      return std::nullopt;
    }
    blob.path = absl::StrCat("blobs/", parts[0], "/", parts[1]);
    if (const Json* const size = Field(json, "size");
        size != nullptr && size->is_number_unsigned()) {
      blob.size = size->get<uint64_t>();
    }
    return blob;
  }

  // `tag`: of the descriptor that led here.
  absl::Status Index(const Json& index, const std::string& tag, int depth) {
    const Json* const manifests = ArrayField(index, "manifests");
    if (manifests == nullptr) {
      Problem("TP233", "an index has no list of manifests");
      return absl::OkStatus();
    }
    for (const Json& entry : *manifests) {
      if (images_.size() >= kMaxOciImages || documents_ > kMaxOciDocuments) {
        Problem("TP232", absl::StrCat("the layout holds more than ",
                                      kMaxOciImages, " images"));
        return absl::OkStatus();
      }
      std::string own_tag = tag;
      if (const Json* const notes = Field(entry, "annotations")) {
        // What a builder says about an image beside it.
        if (!TextField(*notes, "vnd.docker.reference.type").empty()) continue;
        for (const char* const name : {"org.opencontainers.image.ref.name",
                                       "io.containerd.image.name"}) {
          const std::string text = TextField(*notes, name);
          if (!text.empty()) own_tag = text;
        }
      }
      const std::optional<OciBlob> blob = Descriptor(entry, "manifest");
      if (!blob || !seen_.insert(blob->path).second) continue;
      TWINPATH_ASSIGN_OR_RETURN(const std::optional<Json> document,
                                Document(*blob, nullptr));
      if (!document) continue;
      if (ArrayField(*document, "manifests") != nullptr) {
        if (depth + 1 >= kMaxIndexDepth) {
          Problem("TP232", absl::StrCat("indexes inside each other are read ",
                                        kMaxIndexDepth, " deep"));
          continue;
        }
        TWINPATH_RETURN_IF_ERROR(Index(*document, own_tag, depth + 1));
        continue;
      }
      const Json* const platform = Field(entry, "platform");
      TWINPATH_RETURN_IF_ERROR(
          Manifest(*document, blob->digest, own_tag,
                   platform == nullptr ? "" : Platform(*platform)));
    }
    return absl::OkStatus();
  }

  absl::Status Manifest(const Json& manifest, const std::string& name,
                        const std::string& tag, std::string platform) {
    const Json* const layers = ArrayField(manifest, "layers");
    const Json* const config = Field(manifest, "config");
    const std::string type =
        config == nullptr ? "" : TextField(*config, "mediaType");
    if (layers == nullptr || config == nullptr ||
        !(type.empty() || type == "application/vnd.oci.image.config.v1+json" ||
          type == "application/vnd.docker.container.image.v1+json")) {
      Problem("TP232", absl::StrCat("manifest ", Printable(name),
                                    " is of no oci_image"));
      return absl::OkStatus();
    }
    OciImage image;
    image.digest = name;
    image.tag = tag;
    image.platform = std::move(platform);
    if (const std::optional<OciBlob> blob =
            Descriptor(*config, "configuration")) {
      image.id = blob->digest;
      TWINPATH_ASSIGN_OR_RETURN(const std::optional<Json> json,
                                Document(*blob, &image.config));
      if (json && image.platform.empty()) image.platform = Platform(*json);
    }
    for (const Json& entry : *layers) {
      if (!RoomForLayer(image, name)) break;
      if (std::optional<OciBlob> blob = Descriptor(entry, "layer")) {
        image.layers.push_back(*std::move(blob));
      }
    }
    Add(std::move(image));
    return absl::OkStatus();
  }

  absl::Status DockerManifest(const Json& manifest) {
    if (!manifest.is_array()) {
      Problem("TP233", "manifest.json is no list of images");
      return absl::OkStatus();
    }
    for (const Json& entry : manifest) {
      if (images_.size() >= kMaxOciImages) {
        Problem("TP232", absl::StrCat("the layout holds more than ",
                                      kMaxOciImages, " images"));
        return absl::OkStatus();
      }
      const std::string path = TextField(entry, "Config");
      const Json* const layers = ArrayField(entry, "Layers");
      if (path.empty() || layers == nullptr) {
        Problem("TP233", "manifest.json has an entry without Config or Layers");
        continue;
      }
      OciImage image;
      if (const Json* const tags = ArrayField(entry, "RepoTags");
          tags != nullptr && !tags->empty()) {
        image.tag = TextOf(tags->front());
      }
      const OciBlob config_blob = DockerBlob(path);
      image.id = config_blob.digest;
      TWINPATH_ASSIGN_OR_RETURN(const std::optional<Json> config,
                                Document(config_blob, &image.config));
      const Json* diffs = nullptr;
      if (config) {
        image.platform = Platform(*config);
        if (const Json* const root = Field(*config, "rootfs")) {
          diffs = ArrayField(*root, "diff_ids");
        }
      }
      for (const Json& layer : *layers) {
        if (!RoomForLayer(image, path)) break;
        OciBlob blob = DockerBlob(TextOf(layer));
        const size_t at = image.layers.size();
        const std::string diff =
            diffs != nullptr && at < diffs->size() ? TextOf((*diffs)[at]) : "";
        // diff_ids are digests of what layers unpack to.
        if (blob.digest.empty() || blob.digest == diff) {
          TWINPATH_ASSIGN_OR_RETURN(const bool packed,
                                    blobs_.IsPacked(blob.path));
          blob.digest = packed ? "" : diff;
        }
        image.layers.push_back(std::move(blob));
      }
      Add(std::move(image));
    }
    return absl::OkStatus();
  }

  bool RoomForLayer(const OciImage& image, const std::string& name) const {
    if (image.layers.size() < kMaxOciLayers) return true;
    Problem("TP232", absl::StrCat("image ", Printable(name), " has more than ",
                                  kMaxOciLayers, " layers"));
    return false;
  }

  // "blobs/sha256/HEX", "HEX.json", and of go-containerregistry "sha256:HEX"
  // and "HEX.tar.gz" are named by their digest.
  static OciBlob DockerBlob(const std::string& path) {
    OciBlob blob;
    blob.path = CleanOciPath(path);
    absl::string_view hex = blob.path;
    absl::ConsumePrefix(&hex, "blobs/sha256/") ||
        absl::ConsumePrefix(&hex, "sha256:") ||
        absl::ConsumeSuffix(&hex, ".json") ||
        absl::ConsumeSuffix(&hex, ".tar.gz");
    if (IsHexDigest(hex)) blob.digest = absl::StrCat("sha256:", hex);
    return blob;
  }

  // Adds an image, unless it is there under another tag.
  void Add(OciImage image) {
    const auto same = [&image](const OciImage& other) {
      return other.config == image.config &&
             std::equal(other.layers.begin(), other.layers.end(),
                        image.layers.begin(), image.layers.end(),
                        [](const OciBlob& a, const OciBlob& b) {
                          return a.path == b.path;
                        });
    };
    if (std::none_of(images_.begin(), images_.end(), same)) {
      images_.push_back(std::move(image));
    }
  }

  // Gives the images names that tell them apart: the platform, where that does
  // not do the tag, both, a number.
  void Label() {
    if (images_.size() < 2) return;
    const auto unique = [this](const auto& name) {
      std::set<std::string> names;
      for (const OciImage& image : images_) {
        const std::string label = name(image);
        if (label.empty() || !names.insert(label).second) return false;
      }
      return true;
    };
    const auto platform = [](const OciImage& image) { return image.platform; };
    const auto tag = [](const OciImage& image) {
      return Printable(image.tag).substr(0, kMaxLabelBytes);
    };
    const auto both = [&tag](const OciImage& image) {
      return absl::StrCat(tag(image), image.tag.empty() ? "" : "@",
                          image.platform);
    };
    const auto set = [this](const auto& name) {
      for (OciImage& image : images_) image.label = name(image);
    };
    if (unique(platform)) return set(platform);
    if (unique(tag)) return set(tag);
    if (unique(both)) return set(both);
    size_t number = 0;
    set([&](const OciImage& image) {
      return absl::StrCat(both(image), "#", ++number);
    });
  }

  OciBlobs& blobs_;
  std::vector<OciImage> images_;
  // Paths of blobs.
  std::set<std::string> seen_;
  size_t documents_ = 0;
  // Of a document it is not known what it holds.
  bool unread_ = false;
};

}  // namespace

bool IsHexDigest(absl::string_view text) {
  return text.size() == kOciHexDigits &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
                  (c >= 'a' && c <= 'f');
         });
}

absl::StatusOr<const ByteSource*> OciBlobs::Find(const OciBlob& blob,
                                                 absl::string_view what) {
  const std::string name =
      Printable(blob.digest.empty() ? blob.path : blob.digest);
  const auto file = files_.find(blob.path);
  if (file == files_.end()) {
    if (hooks_.unopened == nullptr || !hooks_.unopened->contains(blob.path)) {
      missing_.insert(blob.path);
    }
    Problem("TP232", absl::StrCat(what, " ", name, " ", WhyAbsent(blob)));
    return nullptr;
  }
  const ByteSource& source = *file->second;
  if (!verified_.insert(blob.path).second) return &source;
  if (blob.size && *blob.size != source.size()) {
    Problem("TP233", absl::StrCat(what, " ", name, " has ", source.size(),
                                  " bytes; it is said to have ", *blob.size));
  }
  absl::string_view hex = blob.digest;
  if (hex.empty()) return &source;
  if (!absl::ConsumePrefix(&hex, "sha256:")) {
    Problem("TP232",
            absl::StrCat(what, " ", name, " is not verified: only sha256 is"));
    return &source;
  }
  TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest, Sha256OfSource(source));
  if (digest.Hex() != hex) {
    Problem("TP233", absl::StrCat(what, " ", name, " has the digest sha256:",
                                  digest.Hex(), ": it is another"));
  }
  return &source;
}

absl::StatusOr<bool> OciBlobs::IsPacked(const std::string& path) const {
  const auto file = files_.find(path);
  if (file == files_.end()) return false;
  TWINPATH_ASSIGN_OR_RETURN(const std::string head,
                            ReadUpTo(*file->second, 0, kTarBlockBytes));
  return KindOfContent(head).reader == CarrierReader::kArchive &&
         !StartsTar(head);
}

std::string OciBlobs::WhyAbsent(const OciBlob& blob) const {
  if (Has(blob.path)) return "";
  if (hooks_.unopened != nullptr) {
    const auto why = hooks_.unopened->find(blob.path);
    if (why != hooks_.unopened->end()) {
      return absl::StrCat("is not read: ", Printable(why->second));
    }
  }
  return "is missing";
}

std::optional<std::set<std::string>> NamesOfManifest(absl::string_view json) {
  if (JsonDepth(json) > kMaxJsonDepth) return std::nullopt;
  const std::optional<Json> manifest = ParseJson(json);
  if (!manifest || !manifest->is_array() || manifest->empty()) {
    return std::nullopt;
  }
  std::set<std::string> names;
  for (const Json& entry : *manifest) {
    const std::string config = TextField(entry, "Config");
    const Json* const layers = ArrayField(entry, "Layers");
    if (config.empty() || layers == nullptr) return std::nullopt;
    names.insert(CleanOciPath(config));
    for (const Json& layer : *layers) {
      names.insert(CleanOciPath(TextOf(layer)));
    }
  }
  return names;
}

absl::StatusOr<std::vector<OciImage>> ReadOciImages(OciBlobs& blobs) {
  return LayoutReader(blobs).Read();
}

}  // namespace twinpath::inspect
