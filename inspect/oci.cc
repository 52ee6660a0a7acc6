#include "inspect/oci.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/digest.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/json.h"
#include "inspect/oci_view.h"

namespace twinpath::inspect {
namespace {

constexpr char kIndex[] = "index.json";
constexpr char kDockerManifest[] = "manifest.json";
constexpr size_t kHexDigits = 64;
constexpr size_t kMaxLabelBytes = 256;
// Memory for the names of an image's hard links.
constexpr uint64_t kMaxLinkBytes = uint64_t{256} << 20;
// Indexes inside each other.
constexpr int kMaxIndexDepth = 4;
// A tar's end and a writer's block of them.
constexpr size_t kEmptyTarBytes = 10240;

bool IsHexDigest(absl::string_view text) {
  return text.size() == kHexDigits &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
                  (c >= 'a' && c <= 'f');
         });
}

// A blob as something refers to it.
struct Blob {
  // As stated, "sha256:..."; empty for a file that is only named by its path.
  std::string digest;
  std::string path;
  std::optional<uint64_t> size;
};

Blob NamedFile(absl::string_view path) {
  Blob blob;
  blob.path = std::string(path);
  return blob;
}

struct Image {
  // "linux-arm64"; empty where it is not stated.
  std::string platform;
  std::string tag;
  std::string label;
  // Empty: none was readable.
  std::string config;
  // Lowest first.
  std::vector<Blob> layers;
};

std::string Platform(const Json& json) {
  const std::string os = TextField(json, "os");
  const std::string architecture = TextField(json, "architecture");
  const std::string variant = TextField(json, "variant");
  if (os.empty() && architecture.empty()) return "";
  return Printable(absl::StrCat(os, "-", architecture,
                                variant.empty() ? "" : "-", variant))
      .substr(0, kMaxLabelBytes);
}

class Layout {
 public:
  Layout(const OciFiles& files, const OciHooks& hooks)
      : files_(files), hooks_(hooks) {}

  // Finds the images.
  absl::Status Read() {
    if (files_.contains(kIndex)) {
      TWINPATH_ASSIGN_OR_RETURN(const std::optional<Json> index,
                                Document(NamedFile(kIndex), nullptr));
      if (index) TWINPATH_RETURN_IF_ERROR(Index(*index, "", 0));
    }
    // Newer `docker save` writes both, and they say the same.
    if (images_.empty() && files_.contains(kDockerManifest)) {
      TWINPATH_ASSIGN_OR_RETURN(const std::optional<Json> manifest,
                                Document(NamedFile(kDockerManifest), nullptr));
      if (manifest) TWINPATH_RETURN_IF_ERROR(DockerManifest(*manifest));
    }
    if (images_.empty()) Problem("TP232", "the layout holds no image");
    Label();
    return absl::OkStatus();
  }

  std::vector<Image>& images() { return images_; }

  void Problem(absl::string_view code, const std::string& detail) const {
    hooks_.problem(code, detail);
  }

  // Returns the bytes of a blob, null where they are missing, which is a
  // problem then. Verifies them, once a blob.
  absl::StatusOr<const ByteSource*> Find(const Blob& blob,
                                         absl::string_view what) {
    const std::string name =
        Printable(blob.digest.empty() ? blob.path : blob.digest);
    const auto file = files_.find(blob.path);
    if (file == files_.end()) {
      Problem("TP232", absl::StrCat(what, " ", name, " is missing"));
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
      Problem("TP232", absl::StrCat(what, " ", name,
                                    " is not verified: only sha256 is"));
      return &source;
    }
    TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest, Sha256OfSource(source));
    if (digest.Hex() != hex) {
      Problem("TP233", absl::StrCat(what, " ", name, " has the digest sha256:",
                                    digest.Hex(), ": it is another"));
    }
    return &source;
  }

 private:
  // Reads a JSON document; absent where there is none, which is a problem then.
  absl::StatusOr<std::optional<Json>> Document(const Blob& blob,
                                               std::string* text) {
    const std::string name =
        Printable(blob.digest.empty() ? blob.path : blob.digest);
    if (++documents_ > kMaxOciDocuments) {
      if (documents_ == kMaxOciDocuments + 1) {
        Problem("TP232",
                absl::StrCat("the cap of ", kMaxOciDocuments,
                             " indexes and manifests is reached at ", name));
      }
      return std::nullopt;
    }
    TWINPATH_ASSIGN_OR_RETURN(const ByteSource* const source,
                              Find(blob, "document"));
    if (source == nullptr) return std::nullopt;
    // Configurations are kept while the layers are read.
    const uint64_t max =
        text == nullptr ? kMaxOciJsonBytes : kMaxOciConfigBytes;
    if (source->size() > max) {
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
  std::optional<Blob> Descriptor(const Json& json, absl::string_view what) {
    Blob blob;
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
      const std::optional<Blob> blob = Descriptor(entry, "manifest");
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
    Image image;
    image.tag = tag;
    image.platform = std::move(platform);
    if (const std::optional<Blob> blob = Descriptor(*config, "configuration")) {
      TWINPATH_ASSIGN_OR_RETURN(const std::optional<Json> json,
                                Document(*blob, &image.config));
      if (json && image.platform.empty()) image.platform = Platform(*json);
    }
    for (const Json& entry : *layers) {
      if (!RoomForLayer(image, name)) break;
      if (std::optional<Blob> blob = Descriptor(entry, "layer")) {
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
      Image image;
      if (const Json* const tags = ArrayField(entry, "RepoTags");
          tags != nullptr && !tags->empty()) {
        image.tag = TextOf(tags->front());
      }
      TWINPATH_ASSIGN_OR_RETURN(const std::optional<Json> config,
                                Document(DockerBlob(path), &image.config));
      const Json* diffs = nullptr;
      if (config) {
        image.platform = Platform(*config);
        if (const Json* const root = Field(*config, "rootfs")) {
          diffs = ArrayField(*root, "diff_ids");
        }
      }
      for (const Json& layer : *layers) {
        if (!RoomForLayer(image, path)) break;
        Blob blob = DockerBlob(TextOf(layer));
        // In the older form layers lie there as they are, which is what
        // diff_ids are the digests of.
        const size_t at = image.layers.size();
        if (blob.digest.empty() && diffs != nullptr && at < diffs->size()) {
          blob.digest = TextOf((*diffs)[at]);
        }
        image.layers.push_back(std::move(blob));
      }
      Add(std::move(image));
    }
    return absl::OkStatus();
  }

  bool RoomForLayer(const Image& image, const std::string& name) const {
    if (image.layers.size() < kMaxOciLayers) return true;
    Problem("TP232", absl::StrCat("image ", Printable(name), " has more than ",
                                  kMaxOciLayers, " layers"));
    return false;
  }

  // "blobs/sha256/HEX" and "HEX.json" are named by their digest.
  static Blob DockerBlob(const std::string& path) {
    Blob blob;
    blob.path = CleanOciPath(path);
    absl::string_view hex = blob.path;
    absl::ConsumePrefix(&hex, "blobs/sha256/");
    absl::ConsumeSuffix(&hex, ".json");
    if (IsHexDigest(hex)) blob.digest = absl::StrCat("sha256:", hex);
    return blob;
  }

  // Adds an image, unless it is there under another tag.
  void Add(Image image) {
    const auto same = [&image](const Image& other) {
      return other.config == image.config &&
             std::equal(
                 other.layers.begin(), other.layers.end(), image.layers.begin(),
                 image.layers.end(),
                 [](const Blob& a, const Blob& b) { return a.path == b.path; });
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
      for (const Image& image : images_) {
        const std::string label = name(image);
        if (label.empty() || !names.insert(label).second) return false;
      }
      return true;
    };
    const auto platform = [](const Image& image) { return image.platform; };
    const auto tag = [](const Image& image) {
      return Printable(image.tag).substr(0, kMaxLabelBytes);
    };
    const auto both = [&tag](const Image& image) {
      return absl::StrCat(tag(image), image.tag.empty() ? "" : "@",
                          image.platform);
    };
    const auto set = [this](const auto& name) {
      for (Image& image : images_) image.label = name(image);
    };
    if (unique(platform)) return set(platform);
    if (unique(tag)) return set(tag);
    if (unique(both)) return set(both);
    size_t number = 0;
    set([&](const Image& image) {
      return absl::StrCat(both(image), "#", ++number);
    });
  }

  const OciFiles& files_;
  const OciHooks& hooks_;
  std::vector<Image> images_;
  // Paths of blobs.
  std::set<std::string> seen_;
  std::set<std::string> verified_;
  size_t documents_ = 0;
};

// Whether a layer that is no tar for the reader is one without entries: zeros,
// plain or packed. `packed` is the reader where it is packed.
absl::StatusOr<bool> IsEmptyTar(const ByteSource& source,
                                ArchiveReader* packed) {
  std::string head;
  if (packed == nullptr) {
    TWINPATH_ASSIGN_OR_RETURN(head, ReadUpTo(source, 0, kEmptyTarBytes));
  } else {
    ArchiveMember content;
    const absl::StatusOr<bool> there = packed->Next(&content);
    if (!there.ok()) return false;
    if (*there) head = packed->Head(kEmptyTarBytes).value_or("?");
  }
  return std::all_of(head.begin(), head.end(), [](char c) { return c == 0; });
}

// Walks the layers of one image.
class ImageWalk {
 public:
  ImageWalk(Layout& layout, const Image& image, const OciHooks& hooks)
      : layout_(layout), image_(image), hooks_(hooks), view_(kMaxOciNames) {
    if (!image.label.empty()) prefix_ = absl::StrCat(image.label, ":/");
  }

  // `layers`: one a layer, lowest first, filled here.
  absl::Status Run(std::vector<v1::OciLayer>& layers) {
    for (size_t i = layers.size(); i > 0; --i) {
      TWINPATH_ASSIGN_OR_RETURN(const ByteSource* const source,
                                layout_.Find(image_.layers[i - 1], "layer"));
      if (source == nullptr) continue;
      view_.BeginLayer();
      links_.clear();
      reread_.clear();
      TWINPATH_RETURN_IF_ERROR(
          Layer(*source, image_.layers[i - 1], layers[i - 1], false));
      if (!reread_.empty()) {
        TWINPATH_RETURN_IF_ERROR(
            Layer(*source, image_.layers[i - 1], layers[i - 1], true));
      }
      if (full_) break;
    }
    return absl::OkStatus();
  }

 private:
  // Goes through a layer. `again`: only for the files in reread_.
  absl::Status Layer(const ByteSource& source, const Blob& blob,
                     v1::OciLayer& counts, bool again) {
    const std::string name =
        Printable(blob.digest.empty() ? blob.path : blob.digest);
    absl::StatusOr<std::unique_ptr<ArchiveReader>> opened =
        ArchiveReader::Open(source);
    if (absl::IsDataLoss(opened.status())) {
      layout_.Problem("TP233", absl::StrCat("layer ", name, ": ",
                                            opened.status().message()));
      return absl::OkStatus();
    }
    if (!opened.ok() || (*opened)->format() != "tar") {
      TWINPATH_ASSIGN_OR_RETURN(
          const bool empty,
          IsEmptyTar(source, opened.ok() ? opened->get() : nullptr));
      if (!empty) {
        layout_.Problem("TP232", absl::StrCat("layer ", name, " is no tar"));
      }
      return absl::OkStatus();
    }
    ArchiveReader& reader = **opened;
    uint64_t unpacked = 0;
    ArchiveMember member;
    while (!full_) {
      const absl::StatusOr<bool> more = reader.Next(&member);
      if (!more.ok()) {
        // The second time it is known.
        if (!again) {
          layout_.Problem("TP233", absl::StrCat("layer ", name, ": ",
                                                more.status().message()));
        }
        return absl::OkStatus();
      }
      if (!*more) return absl::OkStatus();
      TWINPATH_RETURN_IF_ERROR(
          again ? Again(reader, member, unpacked, counts)
                : Entry(reader, member, name, unpacked, counts));
    }
    return absl::OkStatus();
  }

  absl::Status Entry(ArchiveReader& reader, const ArchiveMember& member,
                     const std::string& layer, uint64_t& unpacked,
                     v1::OciLayer& counts) {
    const std::string path = CleanOciPath(member.path);
    const LayerView::Outcome outcome = view_.Add(path, member.directory);
    if (outcome == LayerView::Outcome::kFull) {
      full_ = true;
      layout_.Problem("TP232",
                      absl::StrCat("the cap of ", kMaxOciNames,
                                   " names in an image is reached in layer ",
                                   layer, " at ", Printable(path)));
      return absl::OkStatus();
    }
    if (outcome == LayerView::Outcome::kMark) return absl::OkStatus();
    const bool hidden = outcome == LayerView::Outcome::kHidden;
    if (member.hard_link) {
      link_bytes_ += 2 * (path.size() + member.link_target.size());
      if (link_bytes_ > kMaxLinkBytes) {
        full_ = true;
        layout_.Problem("TP232",
                        absl::StrCat("the cap on names of hard links is "
                                     "reached in layer ",
                                     layer, " at ", Printable(path)));
        return absl::OkStatus();
      }
      HardLink(path, CleanOciPath(member.link_target), hidden);
      return absl::OkStatus();
    }
    if (!member.regular) return absl::OkStatus();
    counts.set_files(counts.files() + 1);
    if (outcome == LayerView::Outcome::kTwice) {
      layout_.Problem("TP232",
                      absl::StrCat(Printable(path), " is in layer ", layer,
                                   " twice: each is inspected"));
    }
    std::string name = path;
    bool visible = !hidden;
    const auto link = below_.find(path);
    if (link != below_.end()) {
      // Gone under its own name, and still there under the link's.
      if (hidden) name = link->second;
      visible = true;
      below_.erase(link);
    }
    if (!visible) counts.set_hidden(counts.hidden() + 1);
    return hooks_.member(reader, member, prefix_ + name, visible, unpacked);
  }

  // A second name of a file that is to be found under its first.
  void HardLink(const std::string& path, std::string target, bool hidden) {
    if (const auto first = links_.find(target); first != links_.end()) {
      target = first->second;
    }
    links_[path] = target;
    if (hidden) return;
    switch (view_.Here(target)) {
      case LayerView::Place::kVisible:
        return;
      case LayerView::Place::kHidden:
        reread_.emplace(std::move(target), path);
        return;
      case LayerView::Place::kNotInLayer:
        below_.emplace(std::move(target), path);
        return;
    }
  }

  absl::Status Again(ArchiveReader& reader, const ArchiveMember& member,
                     uint64_t& unpacked, v1::OciLayer& counts) {
    if (!member.regular) return absl::OkStatus();
    const auto link = reread_.find(CleanOciPath(member.path));
    if (link == reread_.end()) return absl::OkStatus();
    const std::string name = prefix_ + link->second;
    reread_.erase(link);
    if (counts.hidden() > 0) counts.set_hidden(counts.hidden() - 1);
    return hooks_.member(reader, member, name, true, unpacked);
  }

  Layout& layout_;
  const Image& image_;
  const OciHooks& hooks_;
  LayerView view_;
  std::string prefix_;
  bool full_ = false;
  // Of names that hard links have had.
  uint64_t link_bytes_ = 0;
  // Of the layer: links and what they point at; files that are hidden under
  // their own name and visible under that of a link.
  absl::flat_hash_map<std::string, std::string> links_;
  absl::flat_hash_map<std::string, std::string> reread_;
  // Files of lower layers that a link of a higher one names.
  absl::flat_hash_map<std::string, std::string> below_;
};

}  // namespace

bool MayBeOciPath(absl::string_view path) {
  if (path == "oci-layout" || path == kIndex || path == kDockerManifest ||
      path == "repositories" || path == "blobs" || path == "ingest" ||
      absl::StartsWith(path, "blobs/") || absl::StartsWith(path, "ingest/")) {
    return true;
  }
  // docker save: HEX.json, HEX.tar, HEX/layer.tar, HEX/json, HEX/VERSION.
  const bool enough = path.size() >= kHexDigits;
  if (!enough || !IsHexDigest(path.substr(0, kHexDigits))) return false;
  path.remove_prefix(kHexDigits);
  return path.empty() || path == ".json" || path == ".tar" ||
         path == "/layer.tar" || path == "/json" || path == "/VERSION";
}

bool LooksLikeOci(const std::vector<std::string>& paths) {
  bool found = false;
  for (const std::string& path : paths) {
    if (!MayBeOciPath(path)) return false;
    found |= path == kIndex || path == kDockerManifest;
  }
  return found;
}

std::string CleanOciPath(absl::string_view path) {
  std::vector<absl::string_view> parts;
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  return absl::StrJoin(parts, "/");
}

absl::Status WalkOci(const OciFiles& files, const OciHooks& hooks,
                     v1::CarrierFacts& facts) {
  Layout layout(files, hooks);
  TWINPATH_RETURN_IF_ERROR(layout.Read());
  for (const Image& image : layout.images()) {
    hooks.image(image.label, image.config);
    std::vector<v1::OciLayer> layers(image.layers.size());
    for (size_t i = 0; i < layers.size(); ++i) {
      const Blob& blob = image.layers[i];
      layers[i].set_digest(blob.digest.empty() ? blob.path : blob.digest);
    }
    const absl::Status walked = ImageWalk(layout, image, hooks).Run(layers);
    for (v1::OciLayer& layer : layers) *facts.add_layers() = std::move(layer);
    TWINPATH_RETURN_IF_ERROR(walked);
  }
  return absl::OkStatus();
}

}  // namespace twinpath::inspect
