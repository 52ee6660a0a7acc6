// Explain: what a reason code, a CUDA error number or name, an error text, an
// Xid, a status of a library, a compiler message or a whole log means, and what
// to do.
//
// A log is read as a stream: LogExplainer keeps what it found, not what it
// read, so that a file of any size needs a few MB.

#ifndef TWINPATH_COMPAT_EXPLAIN_H_
#define TWINPATH_COMPAT_EXPLAIN_H_

#include <cstdint>
#include <memory>
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
  // "cause", "hint", "harmless" and the other effects of messages; "code" where
  // the input was a code.
  std::string effect;
  // The first line of the input that led here; empty when the input was a code.
  std::string found_in;
  // Its number, from 1; 0 when the input was a code.
  uint64_t first_line = 0;
  // Lines that say the same.
  uint64_t count = 0;
  // Of a code whose kind is known and that the tables do not have: false.
  bool known = true;
};

// Explains `input`, the likeliest first. Empty: nothing known in it.
std::vector<Explanation> Explain(absl::string_view input, const Tables& tables);
// The same with the installed tables; without tables, reason codes only.
std::vector<Explanation> Explain(absl::string_view input);

// Explains a log that is fed in pieces. Not thread-safe.
class LogExplainer {
 public:
  explicit LogExplainer(const Tables& tables);
  ~LogExplainer();
  LogExplainer(const LogExplainer&) = delete;
  LogExplainer& operator=(const LogExplainer&) = delete;

  // Any bytes; lines may go on in the next piece.
  void Feed(absl::string_view piece);
  // Ends the input and returns what was found, each thing once, with counts.
  // Causes first, in the order in which an engineer looks (could it be loaded,
  // device and memory, the CUDA error, the rest); then what the program did
  // about it; hints; what can be ignored. At most kMaxExplanations.
  std::vector<Explanation> Finish();
  // Lines read so far.
  uint64_t lines() const;

  static constexpr size_t kMaxExplanations = 40;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The generated head of docs/reasons/<code>.md: everything up to and with the
// marker line below which text is written by hand.
std::string ReasonPage(const ReasonInfo& reason);
// The generated docs/reasons/README.md.
std::string ReasonIndexPage();

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_EXPLAIN_H_
