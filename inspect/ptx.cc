#include "inspect/ptx.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

namespace twinpath::inspect {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '$' || c == '%';
}
bool IsWord(char c) { return IsWordStart(c) || IsDigit(c); }

enum class TokenKind {
  kEnd,
  kDirective,
  kWord,
  kNumber,
  kString,
  kPunctuation
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  // Without the dot of a directive; with the quotes of a string.
  absl::string_view text;
  char punctuation = 0;

  bool Is(char c) const {
    return kind == TokenKind::kPunctuation && punctuation == c;
  }
};

// Characters at which SkipBlock has to look.
constexpr std::array<bool, 256> StopTable() {
  std::array<bool, 256> table{};
  for (const char c : {'{', '}', '"', '/', '\0'}) {
    table[static_cast<unsigned char>(c)] = true;
  }
  return table;
}
constexpr std::array<bool, 256> kStops = StopTable();

// Passes a block's text from `at` on, counting braces in `depth`, up to behind
// the brace that makes it 0, to a string, a comment or a NUL, or to where less
// than a vector is left. Returns that place. Bodies are most of a text, and
// braces of vector operands stand everywhere in them.
const char* PassBracesBaseline(const char* at, const char* end, int&) {
  using Bytes = uint8_t __attribute__((vector_size(16)));
  using Words = uint64_t __attribute__((vector_size(16)));
  while (end - at >= static_cast<std::ptrdiff_t>(sizeof(Bytes))) {
    Bytes v;
    std::memcpy(&v, at, sizeof(v));
    const Words stops = reinterpret_cast<Words>(
        (v == '{') | (v == '}') | (v == '"') | (v == '/') | (v == 0));
    if ((stops[0] | stops[1]) != 0) {
      while (!kStops[static_cast<unsigned char>(*at)]) ++at;
      return at;
    }
    at += sizeof(Bytes);
  }
  return at;
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] const char* PassBracesAvx2(const char* at,
                                                   const char* end,
                                                   int& depth) {
  using Chars = char __attribute__((vector_size(32)));
  while (end - at >= static_cast<std::ptrdiff_t>(sizeof(Chars))) {
    Chars v;
    std::memcpy(&v, at, sizeof(v));
    const auto found = reinterpret_cast<Chars>(
        (v == '{') | (v == '}') | (v == '"') | (v == '/') | (v == 0));
    auto stops = static_cast<uint32_t>(__builtin_ia32_pmovmskb256(found));
    for (; stops != 0; stops &= stops - 1) {
      const char* const stop = at + std::countr_zero(stops);
      if (*stop != '{' && *stop != '}') return stop;
      depth += *stop == '{' ? 1 : -1;
      if (depth == 0) return stop + 1;
    }
    at += sizeof(Chars);
  }
  return at;
}
#endif

using BracePasser = const char* (*)(const char*, const char*, int&);
BracePasser ChooseBracePasser() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return PassBracesAvx2;
#endif
  return PassBracesBaseline;
}

class Lexer {
 public:
  // The text ends at its first NUL. That is found on the way: a search for it
  // would be one pass more over texts of many MiB.
  explicit Lexer(absl::string_view text)
      : at_(text.data()), end_(text.data() + text.size()) {}

  Token Next() {
    SkipBlank();
    if (AtEnd()) return {};
    const char* const start = at_;
    const char c = *at_;
    if (c == '"') {
      SkipString();
      return Make(TokenKind::kString, start);
    }
    if (c == '.' && at_ + 1 < end_ && IsWordStart(at_[1])) {
      ++at_;
      while (at_ < end_ && IsWord(*at_)) ++at_;
      return Make(TokenKind::kDirective, start + 1);
    }
    if (IsWordStart(c)) {
      while (at_ < end_ && IsWord(*at_)) ++at_;
      return Make(TokenKind::kWord, start);
    }
    if (IsDigit(c)) {
      // "3.2.target": the second dot belongs to the directive.
      while (at_ < end_ && IsWord(*at_)) ++at_;
      if (at_ + 1 < end_ && *at_ == '.' && IsDigit(at_[1])) {
        ++at_;
        while (at_ < end_ && IsDigit(*at_)) ++at_;
      }
      return Make(TokenKind::kNumber, start);
    }
    ++at_;
    Token token = Make(TokenKind::kPunctuation, start);
    token.punctuation = c;
    return token;
  }

  // Behind '{': skips to behind the matching '}'. Returns false at the end of
  // the text.
  bool SkipBlock() {
    static const BracePasser pass_braces = ChooseBracePasser();
    int depth = 1;
    while (at_ < end_) {
      at_ = pass_braces(at_, end_, depth);
      if (depth == 0) return true;
      if (AtEnd()) break;
      const char c = *at_;
      if (!kStops[static_cast<unsigned char>(c)]) {
        ++at_;
      } else if (c == '"') {
        SkipString();
      } else if (c == '/') {
        if (!SkipComment()) ++at_;
      } else {
        ++at_;
        depth += c == '{' ? 1 : -1;
        if (depth == 0) return true;
      }
    }
    return false;
  }

 private:
  // Whether nothing is left; finds the NUL.
  bool AtEnd() {
    if (at_ < end_ && *at_ == '\0') end_ = at_;
    return at_ == end_;
  }
  Token Make(TokenKind kind, const char* start) const {
    return {kind, absl::string_view(start, static_cast<size_t>(at_ - start)),
            0};
  }
  void SkipBlank() {
    while (at_ < end_) {
      if (IsSpace(*at_)) {
        ++at_;
      } else if (*at_ != '/' || !SkipComment()) {
        return;
      }
    }
  }
  bool SkipComment() {
    if (at_ + 1 >= end_) return false;
    if (at_[1] == '/') {
      while (!AtEnd() && *at_ != '\n') ++at_;
      if (at_ < end_) ++at_;
      return true;
    }
    if (at_[1] == '*') {
      at_ += 2;
      while (!AtEnd() && !(at_[0] == '*' && at_ + 1 < end_ && at_[1] == '/')) {
        ++at_;
      }
      if (at_ < end_) at_ += 2;
      return true;
    }
    return false;
  }
  void SkipString() {
    ++at_;
    while (!AtEnd() && *at_ != '"') {
      at_ += *at_ == '\\' && at_ + 1 < end_ && at_[1] != '\0' ? 2 : 1;
    }
    if (at_ < end_) ++at_;
  }

  const char* at_;
  const char* end_;
};

// Number in front of `text`; 0 if there is none or it is too large.
uint32_t LeadingNumber(absl::string_view text, size_t& used) {
  uint64_t value = 0;
  used = 0;
  while (used < text.size() && IsDigit(text[used]) && value < 1'000'000) {
    value = value * 10 + static_cast<uint64_t>(text[used] - '0');
    ++used;
  }
  return static_cast<uint32_t>(value);
}

class Parser {
 public:
  Parser(absl::string_view text, bool header_only)
      : lexer_(text), header_only_(header_only) {}

  PtxModule Run() {
    Advance();
    while (token_.kind != TokenKind::kEnd && !done_) {
      if (token_.Is('{')) {
        if (!lexer_.SkipBlock()) Complain("it ends inside a block");
        Advance();
      } else if (token_.kind != TokenKind::kDirective) {
        Advance();
      } else if (token_.text == "version") {
        Advance();
        Version();
      } else if (token_.text == "target") {
        Advance();
        Target();
      } else if (token_.text == "entry") {
        Advance();
        Entry();
      } else {
        Advance();
      }
    }
    if (module_.isa_major == 0) Complain("it has no .version");
    if (module_.target == 0) Complain("it has no .target");
    return std::move(module_);
  }

 private:
  void Advance() { token_ = lexer_.Next(); }
  void Complain(absl::string_view what) {
    if (module_.problem.empty()) {
      module_.problem = absl::StrCat("odd PTX text: ", what);
    }
  }

  void Version() {
    if (token_.kind != TokenKind::kNumber) return;
    size_t used = 0;
    const uint32_t major = LeadingNumber(token_.text, used);
    uint32_t minor = 0;
    if (used + 1 < token_.text.size() && token_.text[used] == '.') {
      size_t rest = 0;
      minor = LeadingNumber(token_.text.substr(used + 1), rest);
    }
    if (module_.isa_major == 0) {
      module_.isa_major = major;
      module_.isa_minor = minor;
    }
    Advance();
  }

  void Target() {
    while (token_.kind == TokenKind::kWord || token_.Is(',')) {
      if (token_.kind == TokenKind::kWord && module_.target == 0 &&
          token_.text.substr(0, 3) == "sm_") {
        size_t used = 0;
        module_.target = LeadingNumber(token_.text.substr(3), used);
        const absl::string_view rest = token_.text.substr(3 + used);
        if (rest == "a" || rest == "f") module_.suffix = rest[0];
      }
      Advance();
    }
    if (header_only_ && module_.target != 0) done_ = true;
  }

  // Behind ".entry": name, parameters, performance directives, body or ';'.
  void Entry() {
    if (token_.kind != TokenKind::kWord) {
      Complain(".entry without a name");
      return;
    }
    PtxKernel kernel{token_.text, std::nullopt};
    Advance();
    int parentheses = 0;
    while (token_.kind != TokenKind::kEnd) {
      if (token_.Is('(')) {
        ++parentheses;
      } else if (token_.Is(')')) {
        --parentheses;
      } else if (parentheses <= 0) {
        if (token_.Is(';')) {
          Advance();
          return;
        }
        if (token_.Is('{')) {
          if (!lexer_.SkipBlock()) Complain("it ends inside a kernel's body");
          if (module_.kernels.size() >= kMaxPtxKernels) {
            Complain(absl::StrCat("more than ", kMaxPtxKernels, " kernels"));
            done_ = true;
            return;
          }
          module_.kernels.push_back(kernel);
          Advance();
          return;
        }
        if (token_.kind == TokenKind::kDirective && token_.text == "pragma") {
          // Its ';' ends the pragma, not the kernel's head.
          while (token_.kind != TokenKind::kEnd && !token_.Is(';')) Advance();
          Advance();
          continue;
        }
        if (token_.kind == TokenKind::kDirective &&
            (token_.text == "maxntid" || token_.text == "reqntid")) {
          Advance();
          kernel.max_threads = Dimensions();
          continue;
        }
      }
      Advance();
    }
    Complain("it ends inside a kernel's head");
  }

  // "256, 1, 1" -> 256. Nothing for a product above 32 bits.
  std::optional<uint32_t> Dimensions() {
    uint64_t product = 1;
    int count = 0;
    while (token_.kind == TokenKind::kNumber || token_.Is(',')) {
      if (token_.kind == TokenKind::kNumber) {
        size_t used = 0;
        product *= LeadingNumber(token_.text, used);
        if (product > std::numeric_limits<uint32_t>::max()) product = 0;
        ++count;
      }
      Advance();
    }
    if (count == 0 || product == 0) return std::nullopt;
    return static_cast<uint32_t>(product);
  }

  Lexer lexer_;
  bool header_only_;
  bool done_ = false;
  Token token_;
  PtxModule module_;
};

}  // namespace

PtxModule ParsePtx(absl::string_view text, bool header_only) {
  return Parser(text, header_only).Run();
}

bool LooksLikePtx(absl::string_view text) {
  Lexer lexer(text);
  const Token first = lexer.Next();
  return first.kind == TokenKind::kDirective && first.text == "version" &&
         lexer.Next().kind == TokenKind::kNumber;
}

}  // namespace twinpath::inspect
