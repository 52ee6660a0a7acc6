#include "cli/difference_view.h"

#include <cmath>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

}  // namespace

std::string RenderDifferences(const v1::Sweep& sweep,
                              const ViewOptions& options) {
  std::map<std::string, const v1::Entry*> entries;
  for (const v1::Entry& entry : sweep.spec().release().entries()) {
    entries[entry.name()] = &entry;
  }
  Table table({"DIFFERS", "AGAINST", "IN", "LINE", "WORD", "EXPECTED", "SEEN",
               "APART", "ENTRY", "HOST"});
  size_t rows = 0;
  size_t more = 0;
  for (const v1::Cell& cell : sweep.cells()) {
    const auto entry = entries.find(cell.entry());
    if (entry == entries.end()) continue;
    for (const verdict::Difference& difference :
         verdict::DifferencesOf(*entry->second, cell.result())) {
      if (rows == kMaxRows) {
        ++more;
        continue;
      }
      ++rows;
      table.AddRow({difference.seen,
                    difference.against,
                    difference.part,
                    absl::StrCat(difference.place.line),
                    absl::StrCat(difference.place.word),
                    Shown(difference.place.expected),
                    {Shown(difference.place.seen), Style::kBad},
                    Apart(difference.place),
                    cell.entry(),
                    cell.host_name()});
    }
  }
  if (rows == 0) return "";
  std::string out = table.Render(options.width, options.color);
  if (more > 0) absl::StrAppend(&out, "and ", more, " more\n");
  return out;
}

}  // namespace twinpath::cli
