#include "base/yaml_tree.h"

#include <algorithm>
#include <exception>
#include <istream>
#include <new>
#include <streambuf>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "base/text.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/mark.h"
#include "yaml-cpp/parser.h"

namespace twinpath::yaml_internal {
namespace {

constexpr size_t kMaxNodes = 200'000;
constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxMistakes = 100;
constexpr size_t kMaxShown = 60;

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
    YamlNode* node = AddNode(mark, Kind::kScalar);
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
    YamlNode* node;
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
    YamlNode* node = AddNode(mark, kind);
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

  YamlNode* AddNode(const YAML::Mark& mark, Kind kind) {
    CountNode(mark);
    YamlNode* node = &state_.nodes.emplace_back();
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

}  // namespace

std::string Shown(absl::string_view text) {
  if (text.size() <= kMaxShown) return Printable(text);
  return absl::StrCat(Printable(text.substr(0, kMaxShown)), "...");
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", Shown(text), "\"");
}

void State::Add(int line, int column, std::string message) {
  if (mistakes.size() >= kMaxMistakes) {
    ++uncounted_mistakes;
    return;
  }
  mistakes.push_back(Mistake{line, column, std::move(message)});
}

absl::Status State::ToStatus() const {
  if (mistakes.empty()) return absl::OkStatus();
  std::vector<Mistake> sorted = mistakes;
  std::stable_sort(
      sorted.begin(), sorted.end(), [](const Mistake& a, const Mistake& b) {
        return std::pair(a.line, a.column) < std::pair(b.line, b.column);
      });
  std::vector<std::string> lines;
  lines.reserve(sorted.size() + 1);
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

absl::StatusOr<std::unique_ptr<State>> ParseTree(absl::string_view text,
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
  return state;
}

}  // namespace twinpath::yaml_internal
