#include "cli/difference_view.h"

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/text.h"
#include "cli/table.h"
#include "verdict/differences.h"

namespace twinpath::cli {
namespace {

constexpr size_t kMaxRows = 20;

std::string Shown(const std::string& word) {
  return word.empty() ? "(the text ends)" : Printable(word);
}

// How far two numbers are apart: "0.25".
std::string Apart(const verdict::WordDifference& place) {
  if (!place.expected_number || !place.seen_number) return "";
  const double apart = std::fabs(*place.seen_number - *place.expected_number);
  return std::isfinite(apart) ? absl::StrFormat("%.3g", apart) : "";
}

class Rows {
 public:
  Rows()
      : table_({"DIFFERS", "AGAINST", "IN", "LINE", "WORD", "EXPECTED", "SEEN",
                "APART", "ENTRY", "HOST"}) {}

  void Add(const verdict::Difference& difference, const std::string& against,
           const v1::Cell& cell) {
    if (rows_ == kMaxRows) {
      ++more_;
      return;
    }
    ++rows_;
    table_.AddRow({difference.seen,
                   against,
                   difference.part,
                   absl::StrCat(difference.place.line),
                   absl::StrCat(difference.place.word),
                   Shown(difference.place.expected),
                   {Shown(difference.place.seen), Style::kBad},
                   Apart(difference.place),
                   cell.entry(),
                   cell.host_name()});
  }

  std::string Render(const ViewOptions& options) const {
    if (rows_ == 0) return "";
    std::string out = table_.Render(options.width, options.color);
    if (more_ > 0) absl::StrAppend(&out, "and ", more_, " more\n");
    return out;
  }

 private:
  Table table_;
  size_t rows_ = 0;
  size_t more_ = 0;
};

// One row for each finding that two hosts differ: a host of it against one that
// is none of it, or against another of it where all are.
void AddHosts(const v1::Sweep& sweep,
              const std::map<std::string, const v1::Entry*>& entries,
              Rows& rows) {
  for (const v1::Finding& finding : sweep.findings()) {
    if (finding.reason().code() != "TP403" &&
        finding.reason().code() != "TP433") {
      continue;
    }
    const std::set<absl::string_view> odd(finding.cell_ids().begin(),
                                          finding.cell_ids().end());
    const v1::Cell* one = nullptr;
    for (const v1::Cell& cell : sweep.cells()) {
      if (one == nullptr && odd.contains(cell.id())) one = &cell;
    }
    if (one == nullptr) continue;
    const v1::Cell* usual = nullptr;
    const v1::Cell* another = nullptr;
    for (const v1::Cell& cell : sweep.cells()) {
      if (cell.entry() != one->entry() || &cell == one) continue;
      const v1::Cell*& place = odd.contains(cell.id()) ? another : usual;
      if (place == nullptr) place = &cell;
    }
    const v1::Cell* other = usual != nullptr ? usual : another;
    const auto entry = entries.find(one->entry());
    if (other == nullptr || entry == entries.end()) continue;
    for (const verdict::Difference& difference : verdict::DifferencesBetween(
             *entry->second, other->result(), one->result())) {
      rows.Add(difference, other->host_name(), *one);
    }
  }
}

}  // namespace

std::string RenderDifferences(const v1::Sweep& sweep,
                              const ViewOptions& options) {
  std::map<std::string, const v1::Entry*> entries;
  for (const v1::Entry& entry : sweep.spec().release().entries()) {
    entries[entry.name()] = &entry;
  }
  Rows rows;
  for (const v1::Cell& cell : sweep.cells()) {
    const auto entry = entries.find(cell.entry());
    if (entry == entries.end()) continue;
    for (const verdict::Difference& difference :
         verdict::DifferencesOf(*entry->second, cell.result())) {
      rows.Add(difference, difference.against, cell);
    }
  }
  AddHosts(sweep, entries, rows);
  return rows.Render(options);
}

}  // namespace twinpath::cli
