#include "verdict/results_equal.h"

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "verdict/compiled.h"
#include "verdict/output.h"

namespace twinpath::verdict {
namespace {

using RunKey = std::pair<v1::Path, bool>;

bool Ran(const v1::Observation& observation) {
  return observation.ending() != v1::ENDING_SKIPPED &&
         observation.ending() != v1::ENDING_INTERRUPTED;
}

uint32_t DecisiveError(const v1::Observation& observation) {
  for (const v1::Reason& reason : observation.errors()) {
    if (reason.cuda_error() != 0) return reason.cuda_error();
  }
  return 0;
}

// Everything of a run that two results must agree on.
auto Essence(const v1::Observation& run, const v1::Entry* entry) {
  const bool exited = run.ending() == v1::ENDING_EXITED;
  const bool by_rule =
      entry != nullptr && entry->has_expected_output() &&
      entry->expected_output().rule_case() != v1::ExpectedOutput::kExact;
  std::string output;
  if (exited && by_rule) {
    output = std::to_string(static_cast<int>(JudgeOutput(*entry, run).match));
  } else if (exited) {
    output = run.stdout().has_digest() ? run.stdout().digest().sha256()
                                       : run.stdout().head();
  }
  return std::make_tuple(run.ending(), exited ? run.exit_code() : 0,
                         run.ending() == v1::ENDING_SIGNALED ? run.signal() : 0,
                         DecisiveError(run), output, run.cache().observed(),
                         run.cache().observed() && DriverCompiled(run.cache()));
}

// The last run of each path; proofs apart.
std::map<RunKey, const v1::Observation*> Runs(const v1::CellResult& result) {
  std::map<RunKey, const v1::Observation*> runs;
  for (const v1::Observation& observation : result.observations()) {
    if (Ran(observation)) {
      runs[{observation.path(), observation.jit_proof()}] = &observation;
    }
  }
  return runs;
}

}  // namespace

bool ResultsEqual(const v1::CellResult& a, const v1::CellResult& b,
                  const v1::Entry* entry) {
  const auto runs_a = Runs(a);
  const auto runs_b = Runs(b);
  if (runs_a.size() != runs_b.size()) return false;
  for (const auto& [key, run] : runs_a) {
    const auto other = runs_b.find(key);
    if (other == runs_b.end()) return false;
    if (Essence(*run, entry) != Essence(*other->second, entry)) return false;
  }
  return true;
}

}  // namespace twinpath::verdict
