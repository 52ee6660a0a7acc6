#include "base/yaml_document.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "base/yaml_tree.h"

namespace twinpath {
namespace {

using yaml_internal::Entry;
using yaml_internal::Kind;
using yaml_internal::Quoted;
using yaml_internal::Shown;
using yaml_internal::State;
using yaml_internal::YamlNode;

absl::string_view NameOfKind(Kind kind) {
  switch (kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kScalar:
      return "text";
    case Kind::kSequence:
      return "a list";
    case Kind::kMapping:
      return "a mapping";
  }
  return "nothing";
}

std::string Got(const YamlNode& node) {
  if (node.kind != Kind::kScalar) return std::string(NameOfKind(node.kind));
  if (node.quoted) return absl::StrCat("the quoted text ", Quoted(node.text));
  return Quoted(node.text);
}

std::string DidYouMean(absl::string_view word,
                       const std::vector<std::string>& candidates) {
  const std::string nearest = NearestWord(word, candidates);
  if (nearest.empty()) return "";
  return absl::StrCat("; did you mean ", Quoted(nearest), "?");
}

// Splits leading digits off. Returns false if there are none or too many.
bool ConsumeNumber(absl::string_view& text, uint64_t& number) {
  size_t length = 0;
  while (length < text.size() &&
         absl::ascii_isdigit(static_cast<unsigned char>(text[length]))) {
    ++length;
  }
  if (!absl::SimpleAtoi(text.substr(0, length), &number)) return false;
  text.remove_prefix(length);
  return true;
}

// 0 or digits without a leading zero, after an optional minus.
bool LooksLikeInt(absl::string_view text) {
  if (!text.empty() && text[0] == '-') text.remove_prefix(1);
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

struct DurationUnit {
  absl::string_view name;
  absl::Duration length;
};

bool ParseDurationText(absl::string_view text, absl::Duration& duration) {
  static const DurationUnit kUnits[] = {{"d", absl::Hours(24)},
                                        {"h", absl::Hours(1)},
                                        {"m", absl::Minutes(1)},
                                        {"s", absl::Seconds(1)},
                                        {"ms", absl::Milliseconds(1)}};
  constexpr uint64_t kLargest = 1'000'000'000'000;
  duration = absl::ZeroDuration();
  size_t next_unit = 0;
  if (text.empty()) return false;
  while (!text.empty()) {
    uint64_t number = 0;
    if (!ConsumeNumber(text, number) || number > kLargest) return false;
    size_t length = 0;
    while (length < text.size() &&
           absl::ascii_isalpha(static_cast<unsigned char>(text[length]))) {
      ++length;
    }
    const absl::string_view unit = text.substr(0, length);
    text.remove_prefix(length);
    size_t i = next_unit;
    while (i < std::size(kUnits) && kUnits[i].name != unit) ++i;
    if (i == std::size(kUnits)) return false;
    duration += static_cast<int64_t>(number) * kUnits[i].length;
    next_unit = i + 1;
  }
  return duration <= 36500 * absl::Hours(24);
}

bool ParseBytesText(absl::string_view text, uint64_t& bytes) {
  struct Unit {
    absl::string_view name;
    uint64_t size;
  };
  static constexpr Unit kUnits[] = {{"", 1},
                                    {"B", 1},
                                    {"kB", 1'000},
                                    {"KB", 1'000},
                                    {"MB", 1'000'000},
                                    {"GB", 1'000'000'000},
                                    {"TB", 1'000'000'000'000},
                                    {"KiB", uint64_t{1} << 10},
                                    {"MiB", uint64_t{1} << 20},
                                    {"GiB", uint64_t{1} << 30},
                                    {"TiB", uint64_t{1} << 40}};
  if (text.size() > 1 && text[0] == '0') return false;
  uint64_t number = 0;
  if (!ConsumeNumber(text, number)) return false;
  if (text.size() > 1 && text[0] == ' ') text.remove_prefix(1);
  for (const Unit& unit : kUnits) {
    if (unit.name != text) continue;
    if (number > std::numeric_limits<uint64_t>::max() / unit.size) return false;
    bytes = number * unit.size;
    return true;
  }
  return false;
}

}  // namespace

std::string YamlReader::Place() const {
  if (place_ == nullptr) return "";
  return absl::StrCat(place_->line, ":", place_->column);
}

std::string YamlReader::NameOf(absl::string_view key) const {
  return name_.empty() ? Shown(key) : absl::StrCat(name_, ".", Shown(key));
}

void YamlReader::Error(absl::string_view message) {
  if (place_ == nullptr) return;
  state_->Add(place_->line, place_->column,
              name_.empty() ? std::string(message)
                            : absl::StrCat(name_, ": ", message));
}

void YamlReader::Expected(absl::string_view what) {
  if (node_ == nullptr || node_->complained) return;
  node_->complained = true;
  Error(absl::StrCat("expected ", what, ", got ", Got(*node_)));
}

YamlReader YamlReader::ReaderOf(YamlNode* node, std::string name) const {
  if (node == nullptr) return YamlReader(nullptr, place_, state_, name);
  return YamlReader(node->kind == Kind::kNull ? nullptr : node, node, state_,
                    std::move(name));
}

YamlReader YamlReader::Find(absl::string_view key, bool required) {
  if (node_ == nullptr) return ReaderOf(nullptr, NameOf(key));
  if (node_->kind != Kind::kMapping) {
    Expected("a mapping");
    return YamlReader();
  }
  if (std::find(node_->asked.begin(), node_->asked.end(), key) ==
      node_->asked.end()) {
    node_->asked.emplace_back(key);
  }
  YamlNode* value = nullptr;
  for (Entry& entry : node_->entries) {
    if (entry.key != key) continue;
    entry.known = true;
    value = entry.value;
  }
  YamlReader reader = ReaderOf(value, NameOf(key));
  if (required && !reader.present()) {
    reader.Error(value == nullptr ? "missing key" : "has no value");
  }
  return reader;
}

YamlReader YamlReader::Required(absl::string_view key) {
  return Find(key, /*required=*/true);
}

YamlReader YamlReader::Optional(absl::string_view key) {
  return Find(key, /*required=*/false);
}

void YamlReader::RejectUnknownKeys() {
  if (node_ == nullptr) return;
  if (node_->kind != Kind::kMapping) {
    Expected("a mapping");
    return;
  }
  for (const Entry& entry : node_->entries) {
    if (entry.known) continue;
    state_->Add(entry.line, entry.column,
                absl::StrCat(NameOf(entry.key), ": unknown key",
                             DidYouMean(entry.key, node_->asked)));
  }
}

std::vector<std::pair<std::string, YamlReader>> YamlReader::Mapping() {
  std::vector<std::pair<std::string, YamlReader>> result;
  if (node_ == nullptr) return result;
  if (node_->kind != Kind::kMapping) {
    Expected("a mapping");
    return result;
  }
  for (Entry& entry : node_->entries) {
    entry.known = true;
    result.emplace_back(entry.key, ReaderOf(entry.value, NameOf(entry.key)));
  }
  return result;
}

std::vector<YamlReader> YamlReader::Sequence() {
  std::vector<YamlReader> result;
  if (node_ == nullptr) return result;
  if (node_->kind != Kind::kSequence) {
    Expected("a list");
    return result;
  }
  for (size_t i = 0; i < node_->items.size(); ++i) {
    YamlReader item =
        ReaderOf(node_->items[i], absl::StrCat(name_, "[", i, "]"));
    if (item.present()) {
      result.push_back(std::move(item));
    } else {
      item.Error("has no value");
    }
  }
  return result;
}

bool YamlReader::IsSequence() const {
  return node_ != nullptr && node_->kind == Kind::kSequence;
}
bool YamlReader::IsMapping() const {
  return node_ != nullptr && node_->kind == Kind::kMapping;
}
bool YamlReader::IsScalar() const {
  return node_ != nullptr && node_->kind == Kind::kScalar;
}

std::string YamlReader::String() {
  if (node_ == nullptr) return "";
  if (node_->kind != Kind::kScalar) {
    Expected("text");
    return "";
  }
  return node_->text;
}

std::vector<std::string> YamlReader::StringSequence() {
  std::vector<std::string> result;
  for (YamlReader& item : Sequence()) {
    if (!item.IsScalar()) {
      item.Expected("text");
      continue;
    }
    result.push_back(item.String());
  }
  return result;
}

const std::string* YamlReader::PlainText(absl::string_view what) {
  if (node_ == nullptr) return nullptr;
  if (node_->kind == Kind::kScalar && !node_->quoted) return &node_->text;
  Expected(what);
  return nullptr;
}

int64_t YamlReader::Int(int64_t min, int64_t max) {
  const std::string what =
      absl::StrCat("a whole number from ", min, " to ", max);
  const std::string* text = PlainText(what);
  if (text == nullptr) return 0;
  int64_t value = 0;
  if (!LooksLikeInt(*text) || !absl::SimpleAtoi(*text, &value) || value < min ||
      value > max) {
    const bool zeros = text->size() > 1 && (*text)[0] == '0';
    Expected(zeros ? absl::StrCat(what, " without leading zeros") : what);
    return 0;
  }
  return value;
}

bool YamlReader::Bool() {
  constexpr absl::string_view kWhat = "true or false";
  const std::string* text = PlainText(kWhat);
  if (text == nullptr) return false;
  if (*text == "true") return true;
  if (*text != "false") Expected(kWhat);
  return false;
}

absl::Duration YamlReader::Duration() {
  if (node_ == nullptr) return absl::ZeroDuration();
  absl::Duration value;
  if (node_->kind != Kind::kScalar || !ParseDurationText(node_->text, value)) {
    Expected("a duration with its unit, such as 90s, 5m or 1h30m");
    return absl::ZeroDuration();
  }
  return value;
}

uint64_t YamlReader::Bytes() {
  if (node_ == nullptr) return 0;
  uint64_t value = 0;
  if (node_->kind != Kind::kScalar || !ParseBytesText(node_->text, value)) {
    Expected("a size, such as 64KiB, 500MB or 2GiB");
    return 0;
  }
  return value;
}

std::string YamlReader::Choice(const std::vector<absl::string_view>& choices) {
  if (node_ == nullptr) return "";
  const std::string what =
      absl::StrCat("one of ", absl::StrJoin(choices, ", "));
  if (node_->kind != Kind::kScalar) {
    Expected(what);
    return "";
  }
  if (std::find(choices.begin(), choices.end(), node_->text) != choices.end()) {
    return node_->text;
  }
  if (node_->complained) return "";
  node_->complained = true;
  Error(absl::StrCat(
      "expected ", what, ", got ", Quoted(node_->text),
      DidYouMean(node_->text,
                 std::vector<std::string>(choices.begin(), choices.end()))));
  return "";
}

YamlDocument::YamlDocument(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
YamlDocument::YamlDocument(YamlDocument&&) noexcept = default;
YamlDocument& YamlDocument::operator=(YamlDocument&&) noexcept = default;
YamlDocument::~YamlDocument() = default;

absl::StatusOr<YamlDocument> YamlDocument::Parse(absl::string_view text,
                                                 absl::string_view file) {
  TWINPATH_ASSIGN_OR_RETURN(std::unique_ptr<State> state,
                            yaml_internal::ParseTree(text, file));
  return YamlDocument(std::move(state));
}

absl::StatusOr<YamlDocument> YamlDocument::Load(const std::string& path) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string text,
                            ReadFile(path, yaml_internal::kMaxBytes));
  return Parse(text, path);
}

YamlReader YamlDocument::root() {
  return YamlReader(state_->root, state_->root, state_.get(), "");
}

absl::Status YamlDocument::status() const { return state_->ToStatus(); }

}  // namespace twinpath
