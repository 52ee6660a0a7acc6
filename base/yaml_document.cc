#include "base/yaml_document.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <istream>
#include <limits>
#include <new>
#include <streambuf>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/mark.h"
#include "yaml-cpp/parser.h"

namespace twinpath {
namespace yaml_internal {

enum class Kind { kNull, kScalar, kSequence, kMapping };

struct Node;

struct Entry {
  std::string key;
  int line = 0;
  int column = 0;
  Node* value = nullptr;
  // Asked for by a reader.
  bool known = false;
};

struct Node {
  Kind kind = Kind::kNull;
  // Lines and columns count from 1.
  int line = 1;
  int column = 1;
  // Written in quotes or as a block: text, whatever it looks like.
  bool quoted = false;
  // A wrong type has been reported.
  bool complained = false;
  std::string text;
  std::vector<Node*> items;
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
  std::deque<Node> nodes;
  Node* root = nullptr;
  std::vector<Mistake> mistakes;
  size_t uncounted_mistakes = 0;

  void Add(int line, int column, std::string message);
  absl::Status ToStatus() const;
};

}  // namespace yaml_internal

namespace {

using yaml_internal::Entry;
using yaml_internal::Kind;
using yaml_internal::Mistake;
using yaml_internal::Node;
using yaml_internal::State;

constexpr uint64_t kMaxBytes = 8 << 20;
constexpr size_t kMaxNodes = 200'000;
constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxMistakes = 100;
constexpr size_t kMaxShown = 60;

// Text of the file in a message: printable and short.
std::string Shown(absl::string_view text) {
  if (text.size() <= kMaxShown) return Printable(text);
  return absl::StrCat(Printable(text.substr(0, kMaxShown)), "...");
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", Shown(text), "\"");
}

// Thrown out of yaml-cpp by the handler and caught in Parse.
struct StopParsing {};

// Builds the tree from yaml-cpp's events, which come while the text is read, so
// that the limits hold before memory is spent.
class TreeBuilder final : public YAML::EventHandler {
 public:
  // `text` is what is parsed, so that a mark's position is an offset in it.
  TreeBuilder(absl::string_view text, State& state)
      : text_(text), state_(state) {}

  // Behind the last event. yaml-cpp 0.7 accepts a quoted scalar that the end of
  // the file cuts short; such a one is always the last.
  void CheckLastQuote() {
    absl::string_view rest =
        text_.substr(static_cast<size_t>(last_quoted_.pos));
    if (rest.empty() || (rest[0] != '"' && rest[0] != '\'')) return;
    const char quote = rest[0];
    for (size_t i = 1; i < rest.size(); ++i) {
      const bool doubled = quote == '\'' && rest.substr(i, 2) == "''";
      const bool escape = quote == '"' && rest[i] == '\\';
      if (doubled || escape) {
        ++i;
      } else if (rest[i] == quote) {
        return;
      }
    }
    Complain(last_quoted_, "the quote is not closed");
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (document_seen_) {
      Stop(mark, "a second document begins; only one is read");
    }
    document_seen_ = true;
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    CheckProperties(mark, "", anchor);
    if (AwaitsKey()) Stop(mark, "a key is missing before \":\"");
    AddNode(mark, Kind::kNull);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Stop(mark, "aliases (*name) are not accepted; write the value out");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag,
                YAML::anchor_t anchor, const std::string& value) override {
    CheckProperties(mark, tag, anchor);
    // yaml-cpp gives plain scalars the tag "?" and all others "!".
    const bool quoted = tag != "?";
    if (quoted) last_quoted_ = mark;
    if (value.find('\0') != std::string::npos) {
      Stop(mark, "a NUL character is not accepted");
    }
    if (!IsValidUtf8(value)) Stop(mark, "the text is not valid UTF-8");
    if (AwaitsKey()) {
      AddKey(mark, value);
      return;
    }
    Node* node = AddNode(mark, Kind::kScalar);
    node->quoted = quoted;
    node->text = value;
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, Kind::kSequence);
  }
  void OnSequenceEnd() override { open_.pop_back(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag,
                  YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, Kind::kMapping);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  struct Frame {
    Node* node;
    bool awaits_key;
    // Key -> "line:column" of its first use.
    absl::flat_hash_map<std::string, std::string> keys;
  };

  void Complain(const YAML::Mark& mark, std::string message) {
    state_.Add(mark.line + 1, mark.column + 1, std::move(message));
  }
  [[noreturn]] void Stop(const YAML::Mark& mark, std::string message) {
    Complain(mark, std::move(message));
    throw StopParsing();
  }

  bool AwaitsKey() const { return !open_.empty() && open_.back().awaits_key; }

  void CheckProperties(const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor) {
    if (anchor != 0) Complain(mark, "anchors (&name) are not accepted");
    const bool bare = text_.substr(static_cast<size_t>(mark.pos), 1) == "!";
    if (tag.empty() || tag == "?" || (tag == "!" && !bare)) return;
    Complain(mark, absl::StrCat("tags are not accepted: ", Quoted(tag)));
  }

  void Open(const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor, Kind kind) {
    CheckProperties(mark, tag, anchor);
    if (AwaitsKey()) Stop(mark, "a key must be plain text");
    if (open_.size() >= kMaxDepth) {
      Stop(mark, absl::StrCat("more than ", kMaxDepth, " levels"));
    }
    Node* node = AddNode(mark, kind);
    open_.push_back(Frame{node, kind == Kind::kMapping, {}});
  }

  void AddKey(const YAML::Mark& mark, const std::string& key) {
    CountNode(mark);
    Frame& frame = open_.back();
    const auto [first, added] = frame.keys.try_emplace(
        key, absl::StrCat(mark.line + 1, ":", mark.column + 1));
    if (!added) {
      Complain(mark, absl::StrCat("key ", Quoted(key),
                                  " is given twice; first at ", first->second));
    }
    frame.node->entries.push_back(
        Entry{key, mark.line + 1, mark.column + 1, nullptr, false});
    frame.awaits_key = false;
  }

  Node* AddNode(const YAML::Mark& mark, Kind kind) {
    CountNode(mark);
    Node* node = &state_.nodes.emplace_back();
    node->kind = kind;
    node->line = mark.line + 1;
    node->column = mark.column + 1;
    if (open_.empty()) {
      state_.root = node;
    } else if (Frame& frame = open_.back();
               frame.node->kind == Kind::kSequence) {
      frame.node->items.push_back(node);
    } else {
      frame.node->entries.back().value = node;
      frame.awaits_key = true;
    }
    return node;
  }

  void CountNode(const YAML::Mark& mark) {
    if (++node_count_ > kMaxNodes) {
      Stop(mark, absl::StrCat("more than ", kMaxNodes, " values"));
    }
  }

  const absl::string_view text_;
  State& state_;
  std::vector<Frame> open_;
  YAML::Mark last_quoted_;
  size_t node_count_ = 0;
  bool document_seen_ = false;
};

// Reads memory without a copy.
class MemoryBuffer final : public std::streambuf {
 public:
  explicit MemoryBuffer(absl::string_view text) {
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

// Foreign bytes are refused up front: yaml-cpp takes a byte of 4 for the end of
// the file, guesses UTF-16 and UTF-32, and replaces what is not UTF-8.
absl::Status CheckCharacters(absl::string_view text, absl::string_view file) {
  int line = 1;
  int column = 1;
  for (const char c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c)) && c != '\n' &&
        c != '\r' && c != '\t') {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ":", line, ":", column, ": control character ",
                       Printable(absl::string_view(&c, 1))));
    }
    ++column;
    if (c == '\n') {
      ++line;
      column = 1;
    }
  }
  if (!IsValidUtf8(text)) {
    line = 1;
    while (true) {
      const size_t end = text.find('\n');
      if (!IsValidUtf8(text.substr(0, end))) break;
      if (end == absl::string_view::npos) break;
      text.remove_prefix(end + 1);
      ++line;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(file, ":", line, ":1: the line is not valid UTF-8"));
  }
  return absl::OkStatus();
}

void RunParser(absl::string_view text, State& state) {
  // yaml-cpp's positions do not count a byte order mark.
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  MemoryBuffer buffer(text);
  std::istream stream(&buffer);
  TreeBuilder builder(text, state);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    builder.CheckLastQuote();
  } catch (const StopParsing&) {
    // The handler has said why.
  } catch (const YAML::Exception& error) {
    state.Add(std::max(error.mark.line, 0) + 1,
              std::max(error.mark.column, 0) + 1, error.msg);
  } catch (const std::bad_alloc&) {
    state.Add(1, 1, "not enough memory to read the file");
  } catch (const std::exception& error) {
    state.Add(1, 1, absl::StrCat("cannot be read: ", error.what()));
  }
}

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

std::string Got(const Node& node) {
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

void yaml_internal::State::Add(int line, int column, std::string message) {
  if (mistakes.size() >= kMaxMistakes) {
    ++uncounted_mistakes;
    return;
  }
  mistakes.push_back(Mistake{line, column, std::move(message)});
}

absl::Status yaml_internal::State::ToStatus() const {
  if (mistakes.empty()) return absl::OkStatus();
  std::vector<Mistake> sorted = mistakes;
  std::stable_sort(
      sorted.begin(), sorted.end(), [](const Mistake& a, const Mistake& b) {
        return std::pair(a.line, a.column) < std::pair(b.line, b.column);
      });
  std::vector<std::string> lines;
  for (const Mistake& mistake : sorted) {
    lines.push_back(absl::StrCat(file, ":", mistake.line, ":", mistake.column,
                                 ": ", Printable(mistake.message)));
  }
  if (uncounted_mistakes > 0) {
    lines.push_back(
        absl::StrCat(file, ": and ", uncounted_mistakes, " more mistakes"));
  }
  return absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
}

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

YamlReader YamlReader::ReaderOf(Node* node, std::string name) const {
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
  Node* value = nullptr;
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
  auto state = std::make_unique<State>();
  state->file = Printable(file);
  if (text.size() > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(state->file, ":1:1: the file is larger than the ",
                     HumanBytes(kMaxBytes), " accepted here"));
  }
  TWINPATH_RETURN_IF_ERROR(CheckCharacters(text, state->file));
  RunParser(text, *state);
  TWINPATH_RETURN_IF_ERROR(state->ToStatus());
  if (state->root == nullptr || state->root->kind == Kind::kNull) {
    state->root = &state->nodes.emplace_back();
    state->root->kind = Kind::kMapping;
  }
  return YamlDocument(std::move(state));
}

absl::StatusOr<YamlDocument> YamlDocument::Load(const std::string& path) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxBytes));
  return Parse(text, path);
}

YamlReader YamlDocument::root() {
  return YamlReader(state_->root, state_->root, state_.get(), "");
}

absl::Status YamlDocument::status() const { return state_->ToStatus(); }

}  // namespace twinpath
