// LayerView: which entries of an image's layers are there in the end. Layers
// come from the top to the lowest; an entry is hidden by what came before it.
//
// Rules (OCI image-spec, layer.md): an entry replaces what a lower layer has at
// its path, unless both are folders; with a folder that it replaces goes all
// that is in it. ".wh.NAME" removes NAME of lower layers, ".wh..wh..opq" all
// that lower layers have beside it. None of this applies to the same layer.
// Paths are taken as they are written: a link in a path is not followed.
//
// Memory: one node a distinct path and folder, up to a cap on their number and
// on the bytes of their names, 64 a name. Not thread-safe.

#ifndef TWINPATH_INSPECT_OCI_VIEW_H_
#define TWINPATH_INSPECT_OCI_VIEW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"

namespace twinpath::inspect {

class LayerView {
 public:
  enum class Outcome {
    kVisible,
    // A higher layer replaces or removes it.
    kHidden,
    // Visible, and the layer has had it before.
    kTwice,
    // A whiteout, or another mark of layered file systems.
    kMark,
    // The cap on names is reached; nothing can be said.
    kFull,
  };
  enum class Place { kNotInLayer, kVisible, kHidden };

  explicit LayerView(size_t max_names) : max_names_(max_names), nodes_(1) {}

  // Goes to the next lower layer; to be called before the top one too. At most
  // 65,000 times.
  void BeginLayer() { ++layer_; }

  // Takes an entry of the layer; `path` as CleanOciPath makes it.
  Outcome Add(absl::string_view path, bool directory);

  // Whether the layer has had an entry that is no folder at `path`.
  Place Here(absl::string_view path) const;

 private:
  using Layer = uint16_t;
  static constexpr Layer kNever = 0xFFFF;
  // The highest layers that did something to a path.
  struct Node {
    // Has anything there, be it only as the folder of something else.
    Layer any = kNever;
    // Has something there that is no folder.
    Layer file = kNever;
    // Removes it.
    Layer removed = kNever;
    // Removes what is in it.
    Layer opaque = kNever;
    // The lowest layer so far that has something there that is no folder.
    Layer last_file = kNever;
  };
  // A name in a folder.
  struct Key {
    uint32_t folder;
    std::string name;
  };
  using KeyView = std::pair<uint32_t, absl::string_view>;
  static KeyView View(const Key& key) { return {key.folder, key.name}; }
  static KeyView View(const KeyView& key) { return key; }
  struct Hash {
    using is_transparent = void;
    template <typename K>
    size_t operator()(const K& key) const {
      return absl::HashOf(View(key));
    }
  };
  struct Equal {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return View(a) == View(b);
    }
  };

  // Returns the number of the node of `name` in `folder`; 0, which is the
  // root's, if there is none, or no room for it.
  uint32_t Child(uint32_t folder, absl::string_view name) const;
  uint32_t MakeChild(uint32_t folder, absl::string_view name);
  bool HidesContent(const Node& node) const {
    return node.file < layer_ || node.removed < layer_ || node.opaque < layer_;
  }
  void Set(Layer& what) const { what = std::min(what, layer_); }

  size_t max_names_;
  // Of all names.
  size_t bytes_ = 0;
  // kNever + 1 is 0, the top layer.
  Layer layer_ = kNever;
  std::vector<Node> nodes_;
  absl::flat_hash_map<Key, uint32_t, Hash, Equal> children_;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_OCI_VIEW_H_
