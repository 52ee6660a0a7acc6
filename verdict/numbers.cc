#include "verdict/numbers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <system_error>

#include "absl/numeric/int128.h"
#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace twinpath::verdict {
namespace {

constexpr absl::string_view kSeparators = ",;:=()[]{}<>|\"'%~";

bool IsSeparator(char c) {
  return kSeparators.find(c) != absl::string_view::npos;
}

bool IsSpace(char c) {
  return absl::ascii_isspace(static_cast<unsigned char>(c));
}

// Takes words off a text and knows where the last one stood.
class Words {
 public:
  explicit Words(absl::string_view text) : text_(text) {}

  // The next word; empty at the end.
  absl::string_view Next() {
    while (at_ < text_.size() && IsSpace(text_[at_])) {
      if (text_[at_] == '\n') {
        ++line_;
        word_ = 0;
      }
      ++at_;
    }
    const size_t begin = at_;
    while (at_ < text_.size() && !IsSpace(text_[at_])) ++at_;
    if (at_ > begin) ++word_;
    return text_.substr(begin, at_ - begin);
  }

  // Whether nothing stands behind the last word, so that it may be cut.
  bool AtEnd() const { return at_ >= text_.size(); }
  size_t line() const { return line_; }
  size_t word() const { return word_; }

 private:
  absl::string_view text_;
  size_t at_ = 0;
  size_t line_ = 1;
  size_t word_ = 0;
};

// Takes the next piece off a word: a separator, or what stands up to the next.
absl::string_view TakePiece(absl::string_view& word) {
  size_t end = 0;
  while (end < word.size() && !IsSeparator(word[end])) ++end;
  if (end == 0 && !word.empty()) end = 1;
  const absl::string_view piece = word.substr(0, end);
  word.remove_prefix(end);
  return piece;
}

// Takes the full stops off that end a sentence behind a number.
absl::string_view TakeStops(absl::string_view& piece) {
  const size_t last = piece.find_last_not_of('.');
  if (last == absl::string_view::npos) return "";
  // A number may end with one, "3.".
  for (const size_t size : {last + 2, last + 1}) {
    if (size > piece.size() || !ReadNumber(piece.substr(0, size))) continue;
    const absl::string_view stops = piece.substr(size);
    piece = piece.substr(0, size);
    return stops;
  }
  return "";
}

// Whole numbers of 64 bits are compared exactly, which a double would not.
bool ReadWhole(absl::string_view text, absl::int128* out) {
  if (absl::ConsumePrefix(&text, "+") && absl::StartsWith(text, "-")) {
    return false;
  }
  const bool negative = absl::ConsumePrefix(&text, "-");
  uint64_t value = 0;
  if (text.empty() || !absl::ascii_isdigit(text[0]) ||
      !absl::SimpleAtoi(text, &value)) {
    return false;
  }
  *out = negative ? -absl::int128(value) : absl::int128(value);
  return true;
}

bool PiecesAgree(absl::string_view expected, absl::string_view seen,
                 const v1::Tolerance& tolerance, WordDifference& difference) {
  const absl::string_view whole_expected = expected;
  const absl::string_view whole_seen = seen;
  const absl::string_view stops_expected = TakeStops(expected);
  const absl::string_view stops_seen = TakeStops(seen);
  const std::optional<double> a = ReadNumber(expected);
  const std::optional<double> b = ReadNumber(seen);
  if (!a || !b || stops_expected != stops_seen) {
    // A NaN equals itself only if that is asked for, though its bytes do.
    return whole_expected == whole_seen && !a;
  }
  absl::int128 whole_a;
  absl::int128 whole_b;
  if (ReadWhole(expected, &whole_a) && ReadWhole(seen, &whole_b)) {
    const absl::int128 apart =
        whole_a > whole_b ? whole_a - whole_b : whole_b - whole_a;
    if (apart == 0) return true;
    if (static_cast<double>(apart) <=
        tolerance.absolute() + tolerance.relative() * std::fabs(*a)) {
      return true;
    }
  } else if (NumbersAgree(*a, *b, tolerance)) {
    return true;
  }
  difference.expected_number = a;
  difference.seen_number = b;
  return false;
}

bool WordsAgree(absl::string_view expected, absl::string_view seen,
                const v1::Tolerance& tolerance, WordDifference& difference) {
  while (!expected.empty() || !seen.empty()) {
    if (expected.empty() || seen.empty()) return false;
    if (!PiecesAgree(TakePiece(expected), TakePiece(seen), tolerance,
                     difference)) {
      return false;
    }
  }
  return true;
}

std::string Shown(absl::string_view word) {
  return std::string(word.substr(0, kShownWordBytes));
}

}  // namespace

std::optional<double> ReadNumber(absl::string_view text) {
  absl::string_view rest = text;
  const bool negative = absl::StartsWith(rest, "-");
  if (negative || absl::StartsWith(rest, "+")) rest.remove_prefix(1);
  if (rest.empty()) return std::nullopt;
  const double sign = negative ? -1 : 1;
  if (absl::EqualsIgnoreCase(rest, "inf") ||
      absl::EqualsIgnoreCase(rest, "infinity")) {
    return sign * std::numeric_limits<double>::infinity();
  }
  if (absl::EqualsIgnoreCase(rest, "nan")) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  absl::chars_format format = absl::chars_format::general;
  if (absl::StartsWithIgnoreCase(rest, "0x")) {
    // from_chars takes hexadecimal without its prefix.
    rest.remove_prefix(2);
    if (!absl::StrContains(rest, 'p') && !absl::StrContains(rest, 'P')) {
      return std::nullopt;
    }
    format = absl::chars_format::hex;
  }
  if (rest.empty()) return std::nullopt;
  // from_chars takes "inf" and a second sign as well, which are none here.
  const char first = rest[0];
  const bool starts = format == absl::chars_format::hex
                          ? absl::ascii_isxdigit(first) || first == '.'
                          : absl::ascii_isdigit(first) || first == '.';
  if (!starts) return std::nullopt;
  double value = 0;
  const absl::from_chars_result result =
      absl::from_chars(rest.data(), rest.data() + rest.size(), value, format);
  if (result.ptr != rest.data() + rest.size()) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) {
    if (std::fabs(value) > 1) return std::nullopt;
    value = 0;
  } else if (result.ec != std::errc()) {
    return std::nullopt;
  }
  return sign * value;
}

bool NumbersAgree(double expected, double seen,
                  const v1::Tolerance& tolerance) {
  if (std::isnan(expected) || std::isnan(seen)) {
    return tolerance.nan_equals_nan() && std::isnan(expected) &&
           std::isnan(seen);
  }
  if (expected == seen) return true;
  if (std::isinf(expected) || std::isinf(seen)) return false;
  return std::fabs(seen - expected) <=
         tolerance.absolute() + tolerance.relative() * std::fabs(expected);
}

std::vector<absl::string_view> PiecesOf(absl::string_view text) {
  std::vector<absl::string_view> pieces;
  Words words(text);
  for (absl::string_view word = words.Next(); !word.empty();
       word = words.Next()) {
    while (!word.empty()) pieces.push_back(TakePiece(word));
  }
  return pieces;
}

std::optional<WordDifference> CompareNumbers(absl::string_view expected,
                                             absl::string_view seen,
                                             const v1::Tolerance& tolerance,
                                             const TextStarts& starts) {
  Words expected_words(expected);
  Words seen_words(seen);
  while (true) {
    const absl::string_view a = expected_words.Next();
    const absl::string_view b = seen_words.Next();
    if ((starts.expected && expected_words.AtEnd()) ||
        (starts.seen && seen_words.AtEnd())) {
      return std::nullopt;
    }
    if (a.empty() && b.empty()) return std::nullopt;
    WordDifference difference;
    if (!a.empty() && !b.empty() && WordsAgree(a, b, tolerance, difference)) {
      continue;
    }
    const Words& place = b.empty() ? expected_words : seen_words;
    difference.line = place.line();
    difference.word = place.word();
    difference.expected = Shown(a);
    difference.seen = Shown(b);
    return difference;
  }
}

std::optional<WordDifference> CompareBytes(absl::string_view expected,
                                           absl::string_view seen) {
  if (expected == seen) return std::nullopt;
  size_t at = 0;
  while (at < expected.size() && at < seen.size() && expected[at] == seen[at]) {
    ++at;
  }
  // From the start of the word in which they part.
  while (at > 0 && !IsSpace(expected[at - 1])) --at;
  Words before(seen.substr(0, at));
  while (!before.Next().empty()) {
  }
  WordDifference difference;
  difference.line = before.line();
  difference.word = before.word() + 1;
  const auto shown = [at](absl::string_view text) {
    absl::string_view rest = text.substr(std::min(at, text.size()));
    size_t end = 0;
    while (end < rest.size() && !IsSpace(rest[end])) ++end;
    // Only blanks differ where no word begins: they are shown.
    return Shown(rest.substr(0, end == 0 ? 1 : end));
  };
  difference.expected = shown(expected);
  difference.seen = shown(seen);
  const std::optional<double> a = ReadNumber(difference.expected);
  const std::optional<double> b = ReadNumber(difference.seen);
  if (a && b) {
    difference.expected_number = a;
    difference.seen_number = b;
  }
  return difference;
}

}  // namespace twinpath::verdict
