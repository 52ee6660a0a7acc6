// Tables for people: no borders, left-aligned, two spaces between columns, cut
// with a mark where the terminal is too narrow; and host names as ranges.

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

// Columns a text takes on a terminal: one a code point.
size_t DisplayWidth(absl::string_view text);

// Cuts `text` to `width` columns; the last one is "…" where something was cut.
std::string Truncate(absl::string_view text, size_t width);

// Breaks `text` at spaces into lines of at most `width` columns, every line but
// the first behind `indent` spaces. A word longer than that stays whole.
std::string Wrap(absl::string_view text, size_t width, size_t indent);

class Table {
 public:
  explicit Table(std::vector<std::string> headers);
  // Fewer cells than headers: the rest is empty. Texts are made printable.
  void AddRow(std::vector<TableCell> cells);
  // A line of its own under the last row, indented, wrapped.
  void AddNote(absl::string_view text, Style style = Style::kPlain);
  bool empty() const { return rows_.empty(); }
  // Rows fit into `width`: the widest columns are cut first. 0: no limit.
  std::string Render(int width, bool color) const;

 private:
  struct Row {
    std::vector<TableCell> cells;
    std::string note;
    Style note_style = Style::kPlain;
  };
  std::vector<std::string> headers_;
  std::vector<Row> rows_;
};

// "spark-001, spark-002, spark-003, gpu" -> "gpu, spark-[001-003]". Sorted,
// duplicates once. More than `max_groups` groups are cut with "and N more"
// (N hosts); 0: no limit.
std::string GroupHosts(std::vector<std::string> names, size_t max_groups = 0);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_TABLE_H_
