#include "verdict/results_equal.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "verdict/compiled.h"
#include "verdict/output.h"
#include "verdict/repeats.h"
#include "verdict/run_compare.h"
#include "verdict/trace.h"

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

// `varying`: parts known to vary by themselves in both results; where they do
// that they say nothing.
bool SameResults(const v1::Entry& entry, const std::set<int>& varying,
                 const Repeats& repeats_a, const v1::Observation& a,
                 const Repeats& repeats_b, const v1::Observation& b) {
  if (JudgeStandardOutput(entry, a).match !=
      JudgeStandardOutput(entry, b).match) {
    return false;
  }
  for (const v1::ExpectedFile& file : entry.expected_files()) {
    if (JudgeFile(file, a).match != JudgeFile(file, b).match) return false;
  }
  for (const PartDifference& part : CompareRuns(entry, a, b)) {
    if (part.differs && varying.contains(part.part) &&
        VariesAsRepeatsDo(entry, part.part, repeats_a, a, repeats_b, b)) {
      continue;
    }
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

// How many images of a file, kind and target ended how. Predictions are not of
// the result.
using LoadKey = std::tuple<std::string, int, uint32_t, int, int, uint32_t>;

std::map<LoadKey, uint64_t> Loads(const v1::CellResult& result) {
  std::map<LoadKey, uint64_t> loads;
  for (const v1::ImageLoadGroup& group : result.image_loads().groups()) {
    loads[{group.file(), group.kind(), group.target().number(),
           group.target().suffix(), group.state(), group.cuda_error()}] +=
        group.images();
  }
  return loads;
}

// The checks by toolkit, GPU and target, in an order that is theirs alone.
// Details of reasons may name folders of the run; codes decide.
std::multiset<std::vector<std::string>> Toolchains(
    const v1::CellResult& result) {
  std::multiset<std::vector<std::string>> checks;
  for (const v1::ToolchainCheck& check : result.toolchain()) {
    std::vector<std::string> lines = {
        check.toolkit().path(), check.toolkit().nvcc_version(),
        check.gpu_uuid(),
        absl::StrCat(check.target().number(), ".",
                     static_cast<int>(check.target().suffix())),
        check.holds() ? "holds" : "does not hold"};
    for (const v1::ToolchainStep& step : check.steps()) {
      for (const v1::Reason& reason : step.reasons()) {
        lines.push_back(absl::StrCat(step.name(), " ", reason.code(), " ",
                                     reason.cuda_error()));
      }
    }
    checks.insert(std::move(lines));
  }
  return checks;
}

// What the verdict of an entry that needs a trace goes by. Which other kernels
// were launched may differ from run to run, where a library measures first.
struct TraceEssence {
  bool traced = false;
  bool launched = false;
  bool refused = false;
  std::set<std::string> must_launch;
  bool operator==(const TraceEssence&) const = default;
};

TraceEssence TraceOf(const v1::Entry& entry, const v1::CellResult& result) {
  TraceEssence essence;
  const v1::Observation* run = TracedRun(result, v1::PATH_PLAIN);
  if (run == nullptr) run = TracedRun(result, v1::PATH_NATIVE);
  if (run == nullptr) return essence;
  essence.traced = run->trace().device_tracer().started();
  essence.launched = run->trace().launches() > 0;
  essence.refused = run->trace().refused_launches() > 0;
  const std::set<std::string> wanted(entry.must_launch().begin(),
                                     entry.must_launch().end());
  for (const v1::TracedKernel& kernel : run->trace().kernels()) {
    if (kernel.launches() > 0 && wanted.contains(kernel.name())) {
      essence.must_launch.insert(kernel.name());
    }
  }
  return essence;
}

}  // namespace

bool ResultsEqual(const v1::CellResult& a, const v1::CellResult& b,
                  const v1::Entry* entry) {
  const v1::Entry none;
  const v1::Entry& rules = entry == nullptr ? none : *entry;
  if (a.has_image_loads() != b.has_image_loads() || Loads(a) != Loads(b) ||
      Toolchains(a) != Toolchains(b) ||
      (NeedsTrace(rules) && !(TraceOf(rules, a) == TraceOf(rules, b)))) {
    return false;
  }
  const auto runs_a = Runs(a);
  const auto runs_b = Runs(b);
  if (runs_a.size() != runs_b.size()) return false;
  std::set<int> varying;
  Repeats repeats_a;
  Repeats repeats_b;
  if (!StatesComparison(rules)) {
    repeats_a = RepeatsOf(rules, a);
    repeats_b = RepeatsOf(rules, b);
    for (const int part : repeats_a.varying) {
      if (repeats_b.varying.contains(part)) varying.insert(part);
    }
  }
  for (const auto& [key, run] : runs_a) {
    const auto other = runs_b.find(key);
    if (other == runs_b.end()) return false;
    if (Essence(*run) != Essence(*other->second)) return false;
    if (run->ending() == v1::ENDING_EXITED &&
        !SameResults(rules, varying, repeats_a, *run, repeats_b,
                     *other->second)) {
      return false;
    }
  }
  return true;
}

}  // namespace twinpath::verdict
