// Tables for people: no borders, left-aligned, two spaces between columns.
// Where the terminal is too narrow, columns that say so go over several lines
// or stay whole, and the others are cut with a mark. And host names as ranges.

#ifndef TWINPATH_CLI_TABLE_H_
#define TWINPATH_CLI_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/console.h"

namespace twinpath::cli {

struct TableCell {
  std::string text;
  Style style = Style::kPlain;

  TableCell(std::string t) : text(std::move(t)) {}  // NOLINT: rows read better
  TableCell(const char* t) : text(t) {}             // NOLINT
  TableCell(std::string t, Style s) : text(std::move(t)), style(s) {}
};

// Columns a text takes on a terminal: two for East Asian characters, none for
// combining ones.
size_t DisplayWidth(absl::string_view text);

// Cuts `text` to `width` columns; the last one is "…" where something was cut.
std::string Truncate(absl::string_view text, size_t width);

// Breaks `text` at spaces into lines of at most `width` columns, every line but
// the first behind `indent` spaces. A word longer than that stays whole.
std::string Wrap(absl::string_view text, size_t width, size_t indent);

class Table {
 public:
  explicit Table(std::vector<std::string> headers);
  // The column is never cut, whatever the width.
  void KeepColumn(size_t column) { how_[column] = Narrow::kKeep; }
  // The column is broken at spaces into lines instead of being cut: for lists
  // of which nothing may get lost.
  void WrapColumn(size_t column) { how_[column] = Narrow::kWrap; }
  // Fewer cells than headers: the rest is empty. Texts are made printable.
  void AddRow(std::vector<TableCell> cells);
  // A line of its own under the last row, indented, wrapped.
  void AddNote(absl::string_view text, Style style = Style::kPlain);
  bool empty() const { return rows_.empty(); }
  // Rows fit into `width` where they can: columns that wrap give way first,
  // then the widest of the others are cut. 0: no limit.
  std::string Render(int width, bool color) const;

 private:
  struct Row {
    std::vector<TableCell> cells;
    std::string note;
    Style note_style = Style::kPlain;
  };
  // What becomes of a column where the width does not suffice.
  enum class Narrow { kCut, kKeep, kWrap };
  std::vector<size_t> Widths(int width) const;

  std::vector<std::string> headers_;
  std::vector<Narrow> how_;
  std::vector<Row> rows_;
};

// "spark-001, spark-002, spark-003, gpu" -> "gpu, spark-[001-003]". Sorted,
// duplicates once. More than `max_groups` groups are cut with "and N more"
// (N hosts); 0: no limit.
std::string GroupHosts(std::vector<std::string> names, size_t max_groups = 0);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_TABLE_H_
