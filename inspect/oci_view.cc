#include "inspect/oci_view.h"

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace twinpath::inspect {
namespace {

constexpr char kWhiteout[] = ".wh.";
constexpr char kOpaque[] = ".wh..wh..opq";
// Names with this start are AUFS's own; none is a file of the image.
constexpr char kReserved[] = ".wh..wh.";
// Of the cap, on average.
constexpr size_t kBytesOfName = 64;

}  // namespace

uint32_t LayerView::Child(uint32_t folder, absl::string_view name) const {
  const auto child = children_.find(KeyView(folder, name));
  return child == children_.end() ? 0 : child->second;
}

uint32_t LayerView::MakeChild(uint32_t folder, absl::string_view name) {
  if (const uint32_t child = Child(folder, name)) return child;
  if (nodes_.size() > max_names_ ||
      name.size() > max_names_ * kBytesOfName - bytes_) {
    return 0;
  }
  bytes_ += name.size();
  const uint32_t made = static_cast<uint32_t>(nodes_.size());
  nodes_.emplace_back();
  children_.emplace(Key{folder, std::string(name)}, made);
  return made;
}

LayerView::Outcome LayerView::Add(absl::string_view path, bool directory) {
  if (path.empty()) return Outcome::kVisible;
  const size_t slash = path.rfind('/');
  absl::string_view name = path;
  uint32_t folder = 0;
  bool hidden = HidesContent(nodes_[0]);
  if (slash != absl::string_view::npos) {
    name = path.substr(slash + 1);
    for (const absl::string_view part :
         absl::StrSplit(path.substr(0, slash), '/')) {
      folder = MakeChild(folder, part);
      if (folder == 0) return Outcome::kFull;
      Set(nodes_[folder].any);
      hidden |= HidesContent(nodes_[folder]);
    }
  }
  if (name == kOpaque) {
    Set(nodes_[folder].opaque);
    return Outcome::kMark;
  }
  if (absl::StartsWith(name, kReserved)) return Outcome::kMark;
  const bool whiteout = absl::ConsumePrefix(&name, kWhiteout);
  if (whiteout && name.empty()) return Outcome::kMark;
  const uint32_t number = MakeChild(folder, name);
  if (number == 0) return Outcome::kFull;
  Node& node = nodes_[number];
  if (whiteout) {
    Set(node.removed);
    return Outcome::kMark;
  }
  hidden |= node.removed < layer_ || node.any < layer_;
  const bool twice = !directory && node.last_file == layer_;
  Set(node.any);
  if (!directory) {
    Set(node.file);
    node.last_file = layer_;
  }
  if (hidden) return Outcome::kHidden;
  return twice ? Outcome::kTwice : Outcome::kVisible;
}

LayerView::Place LayerView::Here(absl::string_view path) const {
  uint32_t number = 0;
  bool hidden = false;
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    hidden |= HidesContent(nodes_[number]);
    number = Child(number, part);
    if (number == 0) return Place::kNotInLayer;
  }
  const Node& node = nodes_[number];
  if (node.last_file != layer_) return Place::kNotInLayer;
  hidden |= node.removed < layer_ || node.any < layer_;
  return hidden ? Place::kHidden : Place::kVisible;
}

}  // namespace twinpath::inspect
