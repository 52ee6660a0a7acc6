#include "cli/table.h"

#include <locale.h>
#include <wchar.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/text.h"

namespace twinpath::cli {
namespace {

constexpr size_t kGap = 2;
// A column is never cut below this.
constexpr size_t kMinColumn = 8;
// Nor is a column that wraps made narrower than its longest word, up to this.
constexpr size_t kMaxWord = 32;

bool Continues(char c) {
  return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u;
}

// The C library's tables of characters, which a program in the "C" locale does
// not have by itself; null where the system has none.
locale_t Characters() {
  static const locale_t characters =
      newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t{});
  return characters;
}

// The character that begins at `at`, moved behind it, and its columns.
size_t NextColumns(absl::string_view text, size_t* at) {
  const auto byte = [&text](size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const unsigned char lead = byte(*at);
  ++*at;
  if (lead < 0x80) return 1;
  wchar_t code = lead >= 0xF0   ? lead & 0x07
                 : lead >= 0xE0 ? lead & 0x0F
                                : lead & 0x1F;
  for (; *at < text.size() && Continues(text[*at]); ++*at) {
    code = (code << 6) | (byte(*at) & 0x3F);
  }
  if (Characters() == locale_t{}) return 1;
  const locale_t before = uselocale(Characters());
  const int columns = wcwidth(code);
  uselocale(before);
  return columns < 0 ? 1 : static_cast<size_t>(columns);
}

// End of the longest beginning of `text` that takes at most `width` columns.
size_t EndWithin(absl::string_view text, size_t width) {
  size_t columns = 0;
  size_t end = 0;
  while (end < text.size()) {
    size_t next = end;
    columns += NextColumns(text, &next);
    if (columns > width) break;
    end = next;
  }
  return end;
}

size_t LongestWord(absl::string_view text) {
  size_t longest = 0;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    longest = std::max(longest, DisplayWidth(word));
  }
  return longest;
}

// `text` in lines of at most `width` columns, broken at spaces; a longer word
// goes over lines itself.
std::vector<std::string> LinesOf(absl::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) return {std::string(text)};
  std::vector<std::string> lines;
  // What a row begins with sets it apart from the other tables.
  std::string line(text.substr(0, text.find_first_not_of(' ')));
  bool empty = true;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    while (true) {
      const size_t taken = DisplayWidth(line) + (empty ? 0 : 1);
      if (taken + DisplayWidth(word) <= width) break;
      if (!empty) {
        lines.push_back(std::move(line));
        line.clear();
        empty = true;
        continue;
      }
      size_t end = EndWithin(word, width > taken ? width - taken : 1);
      if (end == 0) NextColumns(word, &end);
      absl::StrAppend(&line, word.substr(0, end));
      word.remove_prefix(end);
      empty = word.empty();
      if (word.empty()) break;
      lines.push_back(std::move(line));
      line.clear();
    }
    absl::StrAppend(&line, empty ? "" : " ", word);
    empty = false;
  }
  lines.push_back(std::move(line));
  return lines;
}

}  // namespace

size_t DisplayWidth(absl::string_view text) {
  size_t columns = 0;
  for (size_t at = 0; at < text.size();) columns += NextColumns(text, &at);
  return columns;
}

std::string Truncate(absl::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width == 0) return "";
  return absl::StrCat(text.substr(0, EndWithin(text, width - 1)), "…");
}

std::string Wrap(absl::string_view text, size_t width, size_t indent) {
  std::string out;
  size_t column = 0;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const size_t length = DisplayWidth(word);
    if (column == 0) {
      column = indent + length;
    } else if (column + 1 + length > width) {
      absl::StrAppend(&out, "\n", std::string(indent, ' '));
      column = indent + length;
    } else {
      out += ' ';
      column += 1 + length;
    }
    absl::StrAppend(&out, word);
  }
  return out;
}

Table::Table(std::vector<std::string> headers)
    : headers_(std::move(headers)), how_(headers_.size(), Narrow::kCut) {}

void Table::AddRow(std::vector<TableCell> cells) {
  for (TableCell& cell : cells) cell.text = Printable(cell.text);
  cells.resize(headers_.size(), TableCell(""));
  rows_.push_back(Row{std::move(cells), "", Style::kPlain});
}

void Table::AddNote(absl::string_view text, Style style) {
  rows_.push_back(Row{{}, Printable(text), style});
}

std::vector<size_t> Table::Widths(int width) const {
  std::vector<size_t> widths(headers_.size());
  // Below this a column does not go.
  std::vector<size_t> least(headers_.size());
  for (size_t i = 0; i < headers_.size(); ++i) {
    const auto see = [&](absl::string_view text) {
      widths[i] = std::max(widths[i], DisplayWidth(text));
      if (how_[i] == Narrow::kWrap) {
        least[i] =
            std::max(least[i], std::min(LongestWord(text), size_t{kMaxWord}));
      }
    };
    see(headers_[i]);
    for (const Row& row : rows_) {
      if (!row.cells.empty()) see(row.cells[i].text);
    }
    if (how_[i] == Narrow::kKeep) least[i] = widths[i];
    if (how_[i] == Narrow::kCut) least[i] = std::min(widths[i], kMinColumn);
  }
  if (width <= 0 || widths.empty()) return widths;
  size_t total = kGap * (widths.size() - 1);
  for (const size_t w : widths) total += w;
  for (const Narrow how : {Narrow::kWrap, Narrow::kCut}) {
    while (total > static_cast<size_t>(width)) {
      size_t widest = widths.size();
      for (size_t i = 0; i < widths.size(); ++i) {
        if (how_[i] != how || widths[i] <= least[i]) continue;
        if (widest == widths.size() || widths[i] > widths[widest]) widest = i;
      }
      if (widest == widths.size()) break;
      --widths[widest];
      --total;
    }
  }
  return widths;
}

std::string Table::Render(int width, bool color) const {
  const std::vector<size_t> widths = Widths(width);
  std::string out;
  const auto end_line = [&out] {
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  };
  // A row, over as many lines as its tallest cell takes.
  const auto row_of = [&](const std::vector<TableCell>& cells) {
    std::vector<std::vector<std::string>> lines(cells.size());
    size_t height = 1;
    for (size_t i = 0; i < cells.size(); ++i) {
      lines[i] =
          how_[i] == Narrow::kWrap
              ? LinesOf(cells[i].text, widths[i])
              : std::vector<std::string>{Truncate(cells[i].text, widths[i])};
      height = std::max(height, lines[i].size());
    }
    for (size_t l = 0; l < height; ++l) {
      for (size_t i = 0; i < cells.size(); ++i) {
        const std::string text = l < lines[i].size() ? lines[i][l] : "";
        absl::StrAppend(&out, Paint(text, cells[i].style, color));
        if (i + 1 < cells.size()) {
          out.append(widths[i] - std::min(widths[i], DisplayWidth(text)) + kGap,
                     ' ');
        }
      }
      end_line();
    }
  };
  std::vector<TableCell> head;
  for (const std::string& header : headers_) {
    head.emplace_back(header, Style::kBold);
  }
  row_of(head);
  for (const Row& row : rows_) {
    if (row.cells.empty()) {
      const size_t limit = width > 0 ? static_cast<size_t>(width) : SIZE_MAX;
      absl::StrAppend(&out, "    ",
                      Paint(Wrap(row.note, std::max<size_t>(limit, 40) - 4, 6),
                            row.note_style, color));
      end_line();
      continue;
    }
    row_of(row.cells);
  }
  return out;
}

std::string GroupHosts(std::vector<std::string> names, size_t max_groups) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  // Prefix, suffix and number of digits of the last run of digits.
  using Key = std::tuple<std::string, std::string, size_t>;
  std::map<Key, std::vector<uint64_t>> runs;
  for (const std::string& raw : names) {
    const std::string name = Printable(raw);
    size_t end = name.size();
    while (end > 0 &&
           !absl::ascii_isdigit(static_cast<unsigned char>(name[end - 1])))
      --end;
    size_t begin = end;
    while (begin > 0 &&
           absl::ascii_isdigit(static_cast<unsigned char>(name[begin - 1])) &&
           end - begin < 18) {
      --begin;
    }
    uint64_t number = 0;
    if (begin == end ||
        !absl::SimpleAtoi(name.substr(begin, end - begin), &number)) {
      runs[Key{name, "", 0}];
      continue;
    }
    runs[Key{name.substr(0, begin), name.substr(end), end - begin}].push_back(
        number);
  }
  std::vector<std::string> groups;
  size_t hidden = 0;
  for (auto& [key, numbers] : runs) {
    const auto& [prefix, suffix, digits] = key;
    if (max_groups > 0 && groups.size() >= max_groups) {
      hidden += std::max<size_t>(numbers.size(), 1);
      continue;
    }
    if (numbers.empty()) {
      groups.push_back(prefix);
      continue;
    }
    std::sort(numbers.begin(), numbers.end());
    const auto padded = [digits = digits](uint64_t n) {
      std::string text = absl::StrCat(n);
      if (text.size() < digits) text.insert(0, digits - text.size(), '0');
      return text;
    };
    if (numbers.size() == 1) {
      groups.push_back(absl::StrCat(prefix, padded(numbers[0]), suffix));
      continue;
    }
    std::vector<std::string> ranges;
    for (size_t i = 0; i < numbers.size();) {
      size_t j = i;
      while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
      ranges.push_back(
          i == j ? padded(numbers[i])
                 : absl::StrCat(padded(numbers[i]), "-", padded(numbers[j])));
      i = j + 1;
    }
    // Numbers that belong to a name (h100, h200) are no series.
    if (ranges.size() == numbers.size() && numbers.size() < 4) {
      for (const std::string& number : ranges) {
        groups.push_back(absl::StrCat(prefix, number, suffix));
      }
      continue;
    }
    groups.push_back(
        absl::StrCat(prefix, "[", absl::StrJoin(ranges, ","), "]", suffix));
  }
  std::string out = absl::StrJoin(groups, ", ");
  if (hidden > 0) absl::StrAppend(&out, " and ", hidden, " more");
  return out;
}

}  // namespace twinpath::cli
