#include "inspect/oci_layers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/archive.h"
#include "inspect/oci_view.h"

namespace twinpath::inspect {
namespace {

// Memory for the names of an image's hard links.
constexpr uint64_t kMaxLinkBytes = uint64_t{256} << 20;
// A tar's end and a writer's block of them.
constexpr size_t kEmptyTarBytes = 10240;

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
  ImageWalk(OciBlobs& blobs, const OciImage& image, const OciHooks& hooks)
      : blobs_(blobs), image_(image), hooks_(hooks), view_(kMaxOciNames) {
    if (!image.label.empty()) prefix_ = absl::StrCat(image.label, ":/");
  }

  // `layers`: one a layer, lowest first, filled here.
  absl::Status Run(std::vector<v1::OciLayer>& layers) {
    for (size_t i = layers.size(); i > 0; --i) {
      TWINPATH_ASSIGN_OR_RETURN(const ByteSource* const source,
                                blobs_.Find(image_.layers[i - 1], "layer"));
      if (source == nullptr) {
        layers[i - 1].set_unread(blobs_.WhyAbsent(image_.layers[i - 1]));
        continue;
      }
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
  absl::Status Layer(const ByteSource& source, const OciBlob& blob,
                     v1::OciLayer& counts, bool again) {
    const std::string name =
        Printable(blob.digest.empty() ? blob.path : blob.digest);
    absl::StatusOr<std::unique_ptr<ArchiveReader>> opened =
        ArchiveReader::Open(source);
    if (absl::IsDataLoss(opened.status())) {
      blobs_.Problem("TP233", absl::StrCat("layer ", name, ": ",
                                           opened.status().message()));
      return absl::OkStatus();
    }
    if (!opened.ok() || (*opened)->format() != "tar") {
      TWINPATH_ASSIGN_OR_RETURN(
          const bool empty,
          IsEmptyTar(source, opened.ok() ? opened->get() : nullptr));
      if (!empty) {
        blobs_.Problem("TP232", absl::StrCat("layer ", name, " is no tar"));
      }
      return absl::OkStatus();
    }
    ArchiveReader& reader = **opened;
    uint64_t unpacked = 0;
    ArchiveMember member;
    while (!full_) {
      const absl::StatusOr<bool> more = reader.Next(&member);
      for (const ArchiveRemark& remark : reader.TakeRemarks()) {
        // The second time it is known. A tar that has the digest it should have
        // was not cut.
        if (again || (remark.code == "TP232" && reader.filters().empty() &&
                      !blob.digest.empty())) {
          continue;
        }
        blobs_.Problem(remark.code,
                       absl::StrCat("layer ", name, ": ", remark.detail));
      }
      if (!more.ok()) {
        // The second time it is known.
        if (!again) {
          blobs_.Problem("TP233", absl::StrCat("layer ", name, ": ",
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
      blobs_.Problem("TP232",
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
        blobs_.Problem("TP232",
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
      blobs_.Problem("TP232", absl::StrCat(Printable(path), " is in layer ",
                                           layer, " twice: each is inspected"));
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

  OciBlobs& blobs_;
  const OciImage& image_;
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

absl::Status WalkOciLayers(OciBlobs& blobs, const OciImage& image,
                           const OciHooks& hooks,
                           std::vector<v1::OciLayer>& layers) {
  return ImageWalk(blobs, image, hooks).Run(layers);
}

}  // namespace twinpath::inspect
