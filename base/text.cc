#include "base/text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace twinpath {
namespace {

// Length of the well-formed UTF-8 sequence at the start of `bytes` and its code
// point; 0 if there is none (Unicode 15, table 3-7).
size_t DecodeUtf8(absl::string_view bytes, uint32_t& code_point) {
  const auto at = [&bytes](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(bytes[i]));
  };
  const uint32_t first = at(0);
  if (first < 0x80) {
    code_point = first;
    return 1;
  }
  size_t length = 0;
  uint32_t least = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
    least = 0x80;
    code_point = first & 0x1F;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    least = 0x800;
    code_point = first & 0x0F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    least = 0x10000;
    code_point = first & 0x07;
  } else {
    return 0;
  }
  if (bytes.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
    code_point = (code_point << 6) | (at(i) & 0x3F);
  }
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (code_point < least || surrogate || code_point > 0x10FFFF) return 0;
  return length;
}

// Controls, and the marks that reorder what a terminal shows
// (https://trojansource.codes).
bool Unprintable(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x061C ||
         (c >= 0x200E && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

void AppendEscaped(absl::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(c));
  }
}

constexpr size_t kLongestWord = 64;

// Edits (insert, delete, replace, swap of neighbours) from `a` to `b`.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::array<std::array<size_t, kLongestWord + 1>, 3> rows{};
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i - 1) % 3];
    const auto& twice_above = rows[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], twice_above[j - 2] + 1);
      }
    }
  }
  return rows[a.size() % 3][b.size()];
}

}  // namespace

std::string Printable(absl::string_view bytes, bool keep_lines) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    uint32_t code_point = 0;
    const size_t length = DecodeUtf8(bytes, code_point);
    const absl::string_view piece =
        bytes.substr(0, std::max<size_t>(length, 1));
    const bool kept_line =
        keep_lines && (code_point == '\n' || code_point == '\t');
    if (length > 0 && (kept_line || !Unprintable(code_point))) {
      absl::StrAppend(&out, piece);
    } else {
      AppendEscaped(piece, out);
    }
    bytes.remove_prefix(piece.size());
  }
  return out;
}

bool IsValidUtf8(absl::string_view bytes) {
  while (!bytes.empty()) {
    uint32_t code_point = 0;
    const size_t length = DecodeUtf8(bytes, code_point);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string NearestWord(absl::string_view word,
                        const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > kLongestWord) return "";
  const std::string lower = absl::AsciiStrToLower(word);
  // A third of the letters may be wrong, and one in a short word.
  const size_t limit = std::max<size_t>(1, word.size() / 3);
  size_t best = limit + 1;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    if (candidate.empty() || candidate.size() > kLongestWord) continue;
    const size_t distance =
        EditDistance(lower, absl::AsciiStrToLower(candidate));
    // A word of one letter is near to every other such word.
    if (distance >= std::max(word.size(), candidate.size())) continue;
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string HumanBytes(uint64_t bytes) {
  if (bytes < 1000) return absl::StrCat(bytes, " B");
  static constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes) / 1000.0;
  size_t unit = 0;
  // 999.95 would be printed as 1000.0.
  while (value >= 999.95 && unit + 1 < std::size(kUnits)) {
    value /= 1000.0;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

}  // namespace twinpath
