// Explain: what a reason code, a CUDA error number or name, an error text, an
// Xid, a compiler message or a whole log means, and what to do.

#ifndef TWINPATH_COMPAT_EXPLAIN_H_
#define TWINPATH_COMPAT_EXPLAIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/reason.h"
#include "compat/tables.h"

namespace twinpath::compat {

struct Explanation {
  // "TP204 ptx-newer-than-driver", "CUDA error 209 (cudaError...)".
  std::string title;
  // What it means.
  std::string meaning;
  // What to do.
  std::string action;
  // Reason code, where it is or leads to one.
  std::string reason_code;
  // CUDA error, where it is one; 0 else.
  uint32_t cuda_error = 0;
  // The line of the input that led here; empty when the input was a code.
  std::string found_in;
};

// Explains `input`, the likeliest first. Empty: nothing known in it.
std::vector<Explanation> Explain(absl::string_view input, const Tables& tables);
// The same with the installed tables; without tables, reason codes only.
std::vector<Explanation> Explain(absl::string_view input);

// The generated head of docs/reasons/<code>.md: everything up to and with the
// marker line below which text is written by hand.
std::string ReasonPage(const ReasonInfo& reason);
// The generated docs/reasons/README.md.
std::string ReasonIndexPage();

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_EXPLAIN_H_
