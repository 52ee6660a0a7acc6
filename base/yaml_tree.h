// The tree of a YAML document, built within stated bounds. yaml-cpp is confined
// to yaml_tree.cc. Internal to base/yaml_document.

#ifndef TWINPATH_BASE_YAML_TREE_H_
#define TWINPATH_BASE_YAML_TREE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace twinpath::yaml_internal {

// The largest text that is parsed.
inline constexpr uint64_t kMaxBytes = 8 << 20;

enum class Kind { kNull, kScalar, kSequence, kMapping };

struct YamlNode;

struct Entry {
  std::string key;
  int line = 0;
  int column = 0;
  YamlNode* value = nullptr;
  // Asked for by a reader.
  bool known = false;
};

struct YamlNode {
  Kind kind = Kind::kNull;
  // Lines and columns count from 1.
  int line = 1;
  int column = 1;
  // Written in quotes or as a block: text, whatever it looks like.
  bool quoted = false;
  // A wrong type has been reported.
  bool complained = false;
  std::string text;
  std::vector<YamlNode*> items;
  std::vector<Entry> entries;
  // Keys asked for, for the nearest name.
  std::vector<std::string> asked;
};

struct Mistake {
  int line;
  int column;
  std::string message;
};

struct State {
  std::string file;
  // A deque, since nodes point at each other.
  std::deque<YamlNode> nodes;
  YamlNode* root = nullptr;
  std::vector<Mistake> mistakes;
  size_t uncounted_mistakes = 0;

  // Adds a mistake; beyond 100 it is only counted.
  void Add(int line, int column, std::string message);
  // OK, or all mistakes in file order.
  absl::Status ToStatus() const;
};

// Parses one document. `root` is a mapping where the document is empty. Errors
// as YamlDocument::Parse.
absl::StatusOr<std::unique_ptr<State>> ParseTree(absl::string_view text,
                                                 absl::string_view file);

// Text of the file in a message: printable and short; and in quotes.
std::string Shown(absl::string_view text);
std::string Quoted(absl::string_view text);

}  // namespace twinpath::yaml_internal

#endif  // TWINPATH_BASE_YAML_TREE_H_
