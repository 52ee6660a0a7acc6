// What a look over loaded tables finds: rows without a public source, and
// statements of two tables that contradict each other. Loading has seen to
// form; this is about content. Pure; thread-safe.

#ifndef TWINPATH_COMPAT_TABLE_CHECK_H_
#define TWINPATH_COMPAT_TABLE_CHECK_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/reason.h"
#include "compat/tables.h"

namespace twinpath::compat {

struct TableFinding {
  // kError: two rows cannot both be true. kWarning: predictions may miss
  // something. kNote: worth knowing.
  ReasonSeverity severity = ReasonSeverity::kError;
  // "drivers.yaml: 580".
  std::string place;
  std::string text;
};

// Findings, errors first.
std::vector<TableFinding> CheckTables(const Tables& tables);

// Names of the tables and their rows.
std::vector<std::pair<std::string, uint64_t>> CountRows(const Tables& tables);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_TABLE_CHECK_H_
