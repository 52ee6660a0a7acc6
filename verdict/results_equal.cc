#include "verdict/results_equal.h"

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "verdict/compiled.h"
#include "verdict/output.h"
#include "verdict/run_compare.h"

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

// Everything of a run that two results must agree on, but for what it printed
// and left behind.
auto Essence(const v1::Observation& run) {
  const bool exited = run.ending() == v1::ENDING_EXITED;
  return std::make_tuple(run.ending(), exited ? run.exit_code() : 0,
                         run.ending() == v1::ENDING_SIGNALED ? run.signal() : 0,
                         DecisiveError(run), run.cache().observed(),
                         run.cache().observed() && DriverCompiled(run.cache()));
}

// Whether a rule stands for the bytes of the part: one that lets them vary,
// where the entry does not state how results are compared.
bool RuleDecides(const v1::Entry& entry, int part) {
  if (StatesComparison(entry) || !HasRule(entry, part)) return false;
  const v1::ExpectedOutput& rule = part == kStandardOutput
                                       ? entry.expected_output()
                                       : entry.expected_files(part).content();
  return rule.rule_case() != v1::ExpectedOutput::kExact;
}

bool SameResults(const v1::Entry& entry, const v1::Observation& a,
                 const v1::Observation& b) {
  if (JudgeStandardOutput(entry, a).match !=
      JudgeStandardOutput(entry, b).match) {
    return false;
  }
  for (const v1::ExpectedFile& file : entry.expected_files()) {
    if (JudgeFile(file, a).match != JudgeFile(file, b).match) return false;
  }
  for (const PartDifference& part : CompareRuns(entry, a, b)) {
    if (!RuleDecides(entry, part.part)) return false;
  }
  return true;
}

// The last run of each path; proofs apart.
std::map<RunKey, const v1::Observation*> Runs(const v1::CellResult& result) {
  std::map<RunKey, const v1::Observation*> runs;
  for (const v1::Observation& observation : result.observations()) {
    // A traced repeat decides nothing of its own; the proof is one either way.
    if (Ran(observation) &&
        (observation.jit_proof() || !observation.traced())) {
      runs[{observation.path(), observation.jit_proof()}] = &observation;
    }
  }
  return runs;
}

}  // namespace

bool ResultsEqual(const v1::CellResult& a, const v1::CellResult& b,
                  const v1::Entry* entry) {
  const v1::Entry none;
  const v1::Entry& rules = entry == nullptr ? none : *entry;
  const auto runs_a = Runs(a);
  const auto runs_b = Runs(b);
  if (runs_a.size() != runs_b.size()) return false;
  for (const auto& [key, run] : runs_a) {
    const auto other = runs_b.find(key);
    if (other == runs_b.end()) return false;
    if (Essence(*run) != Essence(*other->second)) return false;
    if (run->ending() == v1::ENDING_EXITED &&
        !SameResults(rules, *run, *other->second)) {
      return false;
    }
  }
  return true;
}

}  // namespace twinpath::verdict
