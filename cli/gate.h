// The gate's exit code. Never 0 without positive evidence from a real host,
// whatever is asked for.

#ifndef TWINPATH_CLI_GATE_H_
#define TWINPATH_CLI_GATE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

struct GateAnswer {
  int exit_code = 0;
  // What a person must know about it; empty: nothing.
  std::string note;
};

// `inconclusive` says what an inconclusive verdict becomes: "" keeps exit code
// 3, "fail" makes it 1, "pass-with-warning" makes it 0, but only where at least
// one cell of a real host has passed and the sweep has ended.
GateAnswer AnswerGate(const v1::Sweep& sweep, absl::string_view inconclusive);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_GATE_H_
