#include "cli/gate.h"

#include <string>

#include "base/exit_code.h"
#include "verdict/judge.h"

namespace twinpath::cli {

GateAnswer AnswerGate(const v1::Sweep& sweep, absl::string_view inconclusive) {
  GateAnswer answer;
  answer.exit_code = verdict::ExitCodeOf(sweep.verdict());
  const bool running = sweep.state() == v1::SWEEP_STATE_RUNNING ||
                       sweep.state() == v1::SWEEP_STATE_UNSPECIFIED;
  if (running) {
    answer.exit_code = kExitInconclusive;
    answer.note = "the sweep is still running: no verdict yet";
    return answer;
  }
  if (sweep.verdict().kind() != v1::VERDICT_KIND_INCONCLUSIVE) return answer;
  if (inconclusive == "fail") {
    answer.exit_code = kExitFail;
    answer.note = "inconclusive counts as failed (--inconclusive=fail)";
  } else if (inconclusive == "pass-with-warning") {
    for (const v1::Cell& cell : sweep.cells()) {
      if (!cell.simulated() && cell.verdict().kind() == v1::VERDICT_KIND_PASS) {
        answer.exit_code = kExitPass;
        answer.note =
            "inconclusive is let through (--inconclusive=pass-with-warning); "
            "see the reasons";
        return answer;
      }
    }
    answer.note =
        "inconclusive is not let through: no cell of a real host has passed";
  }
  return answer;
}

}  // namespace twinpath::cli
