// Strict YAML: everything people edit is read through this. Sizes, depth and
// node count are bounded before parsing, aliases and duplicate keys refused,
// "yes" is a string and 0777 no number. Mistakes are collected with file, line
// and column, so that a person sees all of them at once. yaml-cpp is confined
// to yaml_tree.cc.
//
//   TWINPATH_ASSIGN_OR_RETURN(YamlDocument doc, YamlDocument::Load(path));
//   YamlReader root = doc.root();
//   spec.name = root.Required("name").String();
//   for (YamlReader item : root.Optional("entries").Sequence()) Read(item);
//   root.RejectUnknownKeys();  // names the nearest valid key
//   TWINPATH_RETURN_IF_ERROR(doc.status());

#ifndef TWINPATH_BASE_YAML_DOCUMENT_H_
#define TWINPATH_BASE_YAML_DOCUMENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace twinpath {

namespace yaml_internal {
struct YamlNode;
struct State;
}  // namespace yaml_internal

// A view of one node. A reader of an absent node is valid: it reads as empty
// values and reports nothing, so that callers need no branches. Reading a value
// of the wrong type adds an error to the document and yields an empty value.
class YamlReader {
 public:
  YamlReader() = default;

  // Whether the node exists and is not null.
  bool present() const { return node_ != nullptr; }
  // "line:column" of the node, from 1; of the mapping that lacks it if absent.
  std::string Place() const;

  // Mapping access. Required adds an error when the key is missing or has no
  // value. Both mark the key as known for RejectUnknownKeys.
  YamlReader Required(absl::string_view key);
  YamlReader Optional(absl::string_view key);
  // Adds an error for every key not asked for so far, with the nearest key that
  // was. Call it once all keys have been read.
  void RejectUnknownKeys();
  // Keys and values in file order, for free-form mappings. The reader of a key
  // without a value is absent.
  std::vector<std::pair<std::string, YamlReader>> Mapping();
  // Items of a sequence. A scalar where a sequence is wanted is an error, and
  // so is an item without a value.
  std::vector<YamlReader> Sequence();
  bool IsSequence() const;
  bool IsMapping() const;
  bool IsScalar() const;

  // Scalars. A plain number is accepted as a string, not the reverse.
  std::string String();
  std::vector<std::string> StringSequence();
  int64_t Int(int64_t min, int64_t max);
  // true or false, nothing else.
  bool Bool();
  // "90s", "5m", "1h30m", "250ms": whole numbers, each with its unit (d, h, m,
  // s, ms), largest first. At most 36500d.
  absl::Duration Duration();
  // "64KiB", "2GiB", "500MB", plain bytes. Whole numbers.
  uint64_t Bytes();
  // One of `choices`; the error names the nearest.
  std::string Choice(const std::vector<absl::string_view>& choices);

  // Adds an error at this node; for an absent one, at the mapping that lacks
  // it.
  void Error(absl::string_view message);

 private:
  friend class YamlDocument;
  YamlReader(yaml_internal::YamlNode* node, yaml_internal::YamlNode* place,
             yaml_internal::State* state, std::string name)
      : node_(node), place_(place), state_(state), name_(std::move(name)) {}
  YamlReader Find(absl::string_view key, bool required);
  YamlReader ReaderOf(yaml_internal::YamlNode* node, std::string name) const;
  std::string NameOf(absl::string_view key) const;
  // Adds "expected ..., got ..." unless this node has such an error already.
  void Expected(absl::string_view what);
  // The node's text if it is a scalar; otherwise an error and nullptr.
  const std::string* PlainText(absl::string_view what);

  // Null if absent.
  yaml_internal::YamlNode* node_ = nullptr;
  // Where errors are placed: the node, or what should hold it.
  yaml_internal::YamlNode* place_ = nullptr;
  yaml_internal::State* state_ = nullptr;
  std::string name_;
};

class YamlDocument {
 public:
  // Parses one document; an empty one reads as an empty mapping. `file` is only
  // for messages. INVALID_ARGUMENT with file:line:col for syntax errors,
  // duplicate keys, tags, anchors, aliases, control characters, a second
  // document, more than 64 levels, more than 200,000 nodes or 8 MiB. All
  // duplicate keys, tags and anchors are named at once; the other errors end
  // the parse.
  static absl::StatusOr<YamlDocument> Parse(absl::string_view text,
                                            absl::string_view file);
  // Reads and parses a file.
  static absl::StatusOr<YamlDocument> Load(const std::string& path);

  YamlDocument(YamlDocument&&) noexcept;
  YamlDocument& operator=(YamlDocument&&) noexcept;
  ~YamlDocument();

  // The top node. Readers live as long as the document.
  YamlReader root();
  // OK, or INVALID_ARGUMENT with every error, one a line, in file order:
  // "file:line:col: key: message". Beyond 100 errors the rest is counted.
  absl::Status status() const;

 private:
  explicit YamlDocument(std::unique_ptr<yaml_internal::State> state);
  std::unique_ptr<yaml_internal::State> state_;
};

}  // namespace twinpath

#endif  // TWINPATH_BASE_YAML_DOCUMENT_H_
