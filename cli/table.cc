#include "cli/table.h"

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

bool Continues(char c) {
  return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u;
}

}  // namespace

size_t DisplayWidth(absl::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return !Continues(c); }));
}

std::string Truncate(absl::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width == 0) return "";
  size_t columns = 0;
  size_t end = 0;
  while (end < text.size()) {
    if (!Continues(text[end]) && ++columns == width) break;
    ++end;
  }
  return absl::StrCat(text.substr(0, end), "…");
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

Table::Table(std::vector<std::string> headers) : headers_(std::move(headers)) {}

void Table::AddRow(std::vector<TableCell> cells) {
  for (TableCell& cell : cells) cell.text = Printable(cell.text);
  cells.resize(headers_.size(), TableCell(""));
  rows_.push_back(Row{std::move(cells), "", Style::kPlain});
}

void Table::AddNote(absl::string_view text, Style style) {
  rows_.push_back(Row{{}, Printable(text), style});
}

std::string Table::Render(int width, bool color) const {
  std::vector<size_t> widths(headers_.size());
  for (size_t i = 0; i < headers_.size(); ++i) {
    widths[i] = DisplayWidth(headers_[i]);
    for (const Row& row : rows_) {
      if (!row.cells.empty()) {
        widths[i] = std::max(widths[i], DisplayWidth(row.cells[i].text));
      }
    }
  }
  if (width > 0 && !widths.empty()) {
    size_t total = kGap * (widths.size() - 1);
    for (size_t w : widths) total += w;
    while (total > static_cast<size_t>(width)) {
      const auto widest = std::max_element(widths.begin(), widths.end());
      if (*widest <= kMinColumn) break;
      --*widest;
      --total;
    }
  }
  std::string out;
  const auto line = [&](size_t i, absl::string_view text, Style style) {
    const std::string cut = Truncate(text, widths[i]);
    absl::StrAppend(&out, Paint(cut, style, color));
    if (i + 1 < widths.size()) {
      out.append(widths[i] - DisplayWidth(cut) + kGap, ' ');
    }
  };
  const auto end_line = [&out] {
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  };
  for (size_t i = 0; i < headers_.size(); ++i) {
    line(i, headers_[i], Style::kBold);
  }
  end_line();
  for (const Row& row : rows_) {
    if (row.cells.empty()) {
      const size_t limit = width > 0 ? static_cast<size_t>(width) : SIZE_MAX;
      absl::StrAppend(&out, "    ",
                      Paint(Wrap(row.note, std::max<size_t>(limit, 40) - 4, 6),
                            row.note_style, color));
      end_line();
      continue;
    }
    for (size_t i = 0; i < row.cells.size(); ++i) {
      line(i, row.cells[i].text, row.cells[i].style);
    }
    end_line();
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
