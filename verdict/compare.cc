#include "verdict/compare.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "compat/reason.h"
#include "verdict/compare_outputs.h"
#include "verdict/compiled.h"
#include "verdict/cuda_error.h"
#include "verdict/evaluated.h"
#include "verdict/group.h"
#include "verdict/output.h"
#include "verdict/path_status.h"
#include "verdict/repeats.h"
#include "verdict/run_compare.h"

namespace twinpath::verdict {
namespace {

constexpr absl::string_view kContradictionFix =
    "Either the entry launches no kernel of the artifact (make it), or the "
    "model is wrong: report it with the evidence.";

constexpr absl::string_view kCompareFix =
    "State in the sweep file what is expected and how it is compared (compare: "
    "numbers within a tolerance, or off), so that what matters is compared.";

// CUDA errors a prediction of failure names.
std::vector<uint32_t> PredictedErrors(const v1::PathPrediction& prediction) {
  std::vector<uint32_t> errors;
  for (const v1::Reason& reason : prediction.reasons()) {
    if (reason.cuda_error() != 0) errors.push_back(reason.cuda_error());
  }
  return errors;
}

bool Contains(const std::vector<uint32_t>& errors, uint32_t error) {
  for (const uint32_t e : errors) {
    if (IsSameError(e, error)) return true;
  }
  return false;
}

// Part of the artifact is native and part is compiled: whether a run compiles
// depends on what it launches (compat/predict.h).
bool IsMixed(const v1::PathPrediction& prediction) {
  bool native = false;
  bool jit = false;
  for (const v1::Reason& reason : prediction.reasons()) {
    native |= reason.code() == "TP200";
    jit |= reason.code() == "TP235" || reason.code() == "TP206";
  }
  return native && jit;
}

// Whether code that the files do not hold takes part: made at run time, or of a
// library of the host that may not follow forced compilation.
bool HasForeignCode(const v1::PathPrediction& prediction) {
  for (const v1::Reason& reason : prediction.reasons()) {
    if (reason.code() == "TP214" || reason.code() == "TP222") return true;
  }
  return false;
}

// What was observed that `prediction` excludes; empty if nothing.
std::string Contradiction(const v1::PathPrediction& prediction,
                          const PathEvaluation& seen,
                          const v1::CellResult& result) {
  const bool proven = seen.status == PathStatus::kProven;
  const bool failed = seen.status == PathStatus::kFailed;
  switch (prediction.outcome()) {
    case v1::OUTCOME_FAILS: {
      const std::vector<uint32_t> errors = PredictedErrors(prediction);
      const std::string predicted =
          errors.empty()
              ? "predicted to fail"
              : absl::StrCat("predicted to fail with CUDA error ", errors[0]);
      // With gaps the failure is certain only for part of the artifact; a run
      // that launches none of that part contradicts nothing.
      if (proven && prediction.gaps() == 0) {
        return absl::StrCat(predicted, ", and it ran");
      }
      if (failed && !errors.empty() &&
          (IsLoadError(seen.cuda_error) || IsExecutionError(seen.cuda_error)) &&
          !Contains(errors, seen.cuda_error)) {
        return absl::StrCat(predicted, ", observed ", seen.cuda_error);
      }
      return "";
    }
    case v1::OUTCOME_NATIVE:
    case v1::OUTCOME_JIT: {
      const bool jit = prediction.outcome() == v1::OUTCOME_JIT;
      const absl::string_view predicted =
          jit ? "predicted to run by compiling PTX"
              : "predicted to run from machine code";
      // With gaps the prediction holds for what the GPU has code for; which
      // kernel a run needs is known only afterwards.
      const bool foreign = HasForeignCode(prediction);
      if (failed && prediction.gaps() == 0 && !foreign &&
          IsLoadError(seen.cuda_error)) {
        return absl::StrCat(predicted, ", failed with CUDA error ",
                            seen.cuda_error);
      }
      if (!proven || prediction.path() != v1::PATH_PLAIN) return "";
      const v1::Observation* run = MainRun(result, v1::PATH_PLAIN);
      if (run == nullptr || !run->cache().observed()) return "";
      if (IsMixed(prediction)) return "";
      if (!jit && !foreign && DriverCompiled(run->cache())) {
        return absl::StrCat(predicted, ", and PTX was compiled");
      }
      if (jit && !DriverCompiled(run->cache())) {
        return absl::StrCat(predicted, ", and nothing was compiled");
      }
      return "";
    }
    default:
      return "";
  }
}

// What two cells of one class are compared by on a path; empty where the cell
// says nothing there.
std::string Signature(const PathEvaluation& seen) {
  switch (seen.status) {
    case PathStatus::kProven:
      return "proven";
    case PathStatus::kFailed:
      if (seen.cuda_error != 0) {
        return absl::StrCat("failed with CUDA error ", seen.cuda_error);
      }
      return absl::StrCat(
          "failed", seen.reasons.empty()
                        ? ""
                        : absl::StrCat(" (", seen.reasons[0].code(), ")"));
    default:
      return "";
  }
}

using Groups = std::map<std::string, std::vector<const EvaluatedCell*>>;

// The key held by more than half of the cells; nullptr if there is none.
const std::string* Majority(const Groups& groups) {
  size_t total = 0;
  for (const auto& [key, cells] : groups) total += cells.size();
  for (const auto& [key, cells] : groups) {
    if (cells.size() * 2 > total) return &key;
  }
  return nullptr;
}

// One finding for the cells that differ by outcome on `path`.
void CompareOutcomes(const std::vector<const EvaluatedCell*>& cells,
                     v1::Path path, std::vector<v1::Finding>& findings) {
  Groups groups;
  for (const EvaluatedCell* cell : cells) {
    std::string signature = Signature(cell->At(path));
    if (!signature.empty()) groups[std::move(signature)].push_back(cell);
  }
  if (groups.size() < 2) return;
  const std::string* usual = Majority(groups);
  for (const auto& [signature, odd] : groups) {
    if (usual != nullptr && signature == *usual) continue;
    const std::string detail =
        usual != nullptr
            ? absl::StrCat(PathName(path), ": ", signature,
                           " where most of its class: ", *usual)
            : absl::StrCat(PathName(path), ": hosts of one class disagree: ",
                           absl::StrJoin(groups, ", ",
                                         [](std::string* out, const auto& g) {
                                           absl::StrAppend(out, g.first);
                                         }));
    for (const EvaluatedCell* cell : odd) {
      findings.push_back(CellFinding(*cell->cell,
                                     compat::MakeReason("TP403", detail),
                                     v1::SEVERITY_ERROR, true));
    }
  }
}

// Why a part that differs says nothing about the code, behind "standard output
// differs".
absl::string_view Unexplained(Blame blame) {
  switch (blame) {
    case Blame::kBeyondRepeats:
      return " also where runs of the same code agree, and varies by itself";
    case Blame::kUnaligned:
      return " and varies by itself, so that it does not show whether "
             "something else differs too";
    case Blame::kTimes:
      return " only in times or rates, which compiling changes";
    case Blame::kNoRepeat:
      return ", and no two runs of the same code show whether it does so by "
             "itself";
    default:
      return "";
  }
}

bool IsRequired(v1::PathRule rule) {
  return rule != v1::PATH_RULE_OPTIONAL && rule != v1::PATH_RULE_SKIPPED;
}

}  // namespace

std::vector<v1::Reason> ContradictionsOf(const EvaluatedCell& cell) {
  std::vector<v1::Reason> reasons;
  if (!cell.IsEvidence()) return reasons;
  for (const v1::PathPrediction& prediction : cell.cell->predictions()) {
    const PathEvaluation& seen = cell.At(prediction.path());
    const std::string what =
        Contradiction(prediction, seen, cell.cell->result());
    if (what.empty()) continue;
    reasons.push_back(compat::MakeReason(
        "TP401", absl::StrCat(PathName(prediction.path()), ": ", what),
        seen.status == PathStatus::kProven ? kContradictionFix
                                           : absl::string_view(),
        seen.cuda_error));
  }
  return reasons;
}

std::vector<v1::Finding> ComparePathsOf(const EvaluatedCell& cell,
                                        const v1::Policy& policy) {
  if (!cell.IsEvidence() || !IsCompared(*cell.entry)) return {};
  const v1::CellResult& result = cell.cell->result();
  const v1::Entry& entry = *cell.entry;
  const v1::Observation* native = MainRun(result, v1::PATH_NATIVE);
  const v1::Observation* forced = MainRun(result, v1::PATH_PTX_JIT);
  for (const v1::Observation* run : {native, forced}) {
    if (run == nullptr || run->ending() != v1::ENDING_EXITED ||
        run->exit_code() != entry.expected_exit() ||
        JudgeOutput(entry, *run).match == OutputMatch::kDiffers) {
      return {};
    }
  }
  const std::vector<PartDifference> parts =
      CompareRuns(entry, *native, *forced);
  if (parts.empty()) return {};
  const bool required =
      IsRequired(policy.native()) && IsRequired(policy.ptx_jit());
  const v1::Severity severity =
      required ? v1::SEVERITY_ERROR : v1::SEVERITY_WARNING;
  // What is known to differ and nothing excuses; what differs as runs of the
  // same code do; what differs, and runs of the same code do not show why; what
  // differs and meets its rule; what cannot be compared. A part excuses itself
  // alone: a time in standard output says nothing about a file.
  const bool stated = StatesComparison(entry);
  std::vector<std::string> differing;
  std::vector<std::string> varying;
  std::vector<std::string> unexplained;
  std::vector<std::string> by_rule;
  std::vector<std::string> unknown;
  bool only_numbers = true;
  for (const PartDifference& part : parts) {
    if (!part.differs) {
      unknown.push_back(part.why);
      continue;
    }
    if (!stated && cell.repeats.varying.contains(part.part) &&
        HasRule(entry, part.part)) {
      varying.push_back(part.why);
      continue;
    }
    if (!stated && HasRule(entry, part.part)) {
      by_rule.push_back(part.why);
      continue;
    }
    const Blame blame =
        stated ? Blame::kCode
               : BlameFor(entry, cell.repeats, part.part, *native, *forced);
    if (blame == Blame::kCode) {
      differing.push_back(part.why);
      only_numbers &= part.only_numbers;
    } else if (blame == Blame::kRepeats) {
      varying.push_back(part.why);
    } else {
      unexplained.push_back(absl::StrCat(part.why, Unexplained(blame)));
    }
  }
  std::vector<v1::Finding> findings;
  const auto add = [&](absl::string_view code, absl::string_view detail,
                       v1::Severity how, absl::string_view fix = "") {
    findings.push_back(CellFinding(
        *cell.cell, compat::MakeReason(code, detail, fix), how, true));
  };
  if (!differing.empty()) {
    add("TP402",
        absl::StrCat("native and ptx-jit both exited well: ",
                     absl::StrJoin(differing, ", ")),
        severity,
        only_numbers ? "Only numbers differ. If they may, say how far: "
                       "compare: {numbers: {...}} in the sweep file, "
                       "--compare numbers with check. If not, look for code "
                       "guarded by __CUDA_ARCH__."
                     : "");
  }
  if (!varying.empty()) {
    add("TP402",
        absl::StrCat(absl::StrJoin(varying, ", "),
                     ", as between two runs of the same code"),
        v1::SEVERITY_WARNING, kCompareFix);
  } else if (!by_rule.empty() && differing.empty()) {
    add("TP402",
        "both outputs meet the release's rule, and other parts of them differ",
        v1::SEVERITY_WARNING);
  }
  if (!unexplained.empty()) {
    add("TP434",
        absl::StrCat("native and ptx-jit: ", absl::StrJoin(unexplained, "; ")),
        severity, kCompareFix);
  }
  if (!unknown.empty()) {
    add("TP434",
        absl::StrCat("native and ptx-jit: ", absl::StrJoin(unknown, ", ")),
        severity);
  }
  return findings;
}

std::vector<v1::Finding> CompareClasses(
    const std::vector<EvaluatedCell>& cells) {
  // A class is one of hosts; a host may hold different GPUs, and only equal
  // ones are expected to agree. Where a host's class is unknown its own equal
  // GPUs still are. Entry first, so that the classes of one lie together;
  // within an entry in the order of their first cells.
  std::map<std::string, std::vector<CellClass>> entries;
  absl::flat_hash_map<std::string, size_t> index;
  for (const EvaluatedCell& cell : cells) {
    const v1::Cell& c = *cell.cell;
    if (!cell.IsEvidence()) continue;
    const std::string key = absl::StrCat(
        c.entry(), "\n", c.compute_capability().major(), ".",
        c.compute_capability().minor(), "\n", c.gpu_name(), "\n",
        c.class_digest().sha256().empty()
            ? absl::StrCat("host ", c.host_id(), " ", c.host_name())
            : absl::StrCat("class ", c.class_digest().sha256()));
    std::vector<CellClass>& classes = entries[c.entry()];
    const auto [it, is_new] = index.emplace(key, classes.size());
    if (is_new) classes.emplace_back();
    classes[it->second].push_back(&cell);
  }
  std::vector<v1::Finding> findings;
  for (const auto& [entry, classes] : entries) {
    for (const CellClass& members : classes) {
      if (members.size() < 2) continue;
      for (const v1::Path path : kPaths) {
        CompareOutcomes(members, path, findings);
      }
      CompareInClass(members, findings);
    }
    CompareAcrossClasses(classes, findings);
  }
  return findings;
}

std::vector<v1::Reason> CompareStaged(const v1::Cell& cell,
                                      const v1::Artifact& artifact) {
  absl::flat_hash_map<absl::string_view, absl::string_view> on_host;
  std::vector<v1::Reason> reasons;
  for (const v1::StagedFile& file : cell.result().staged()) {
    const auto [it, is_new] =
        on_host.emplace(file.name(), file.digest().sha256());
    if (!is_new && it->second != file.digest().sha256()) {
      reasons.push_back(compat::MakeReason(
          "TP405",
          absl::StrCat("the host stated two digests for ", file.name())));
    }
  }
  size_t matched = 0;
  for (const v1::ArtifactFile& file : artifact.files()) {
    const auto found = on_host.find(file.name());
    if (found != on_host.end()) ++matched;
    // A member of a kind that is not stated needs its digest like a file.
    if (file.type() == v1::FILE_TYPE_SYMLINK) continue;
    if (found == on_host.end() || found->second.empty()) {
      reasons.push_back(compat::MakeReason(
          "TP418",
          absl::StrCat("the host stated no digest for ", file.name())));
    } else if (found->second != file.digest().sha256()) {
      reasons.push_back(compat::MakeReason(
          "TP405",
          absl::StrCat(file.name(), " is not the file that was dispatched")));
    }
  }
  if (matched < on_host.size()) {
    reasons.push_back(compat::MakeReason(
        "TP405", "the host staged a file that is not in the artifact"));
  }
  return reasons;
}

std::vector<v1::Reason> Contradictions(const v1::Cell& cell,
                                       const v1::Entry& entry) {
  return ContradictionsOf(EvaluateCell(cell, &entry));
}

std::vector<v1::Finding> ComparePaths(const v1::Cell& cell,
                                      const v1::Entry& entry,
                                      const v1::Policy& policy) {
  return ComparePathsOf(EvaluateCell(cell, &entry), policy);
}

std::vector<v1::Finding> CompareCells(const v1::Sweep& sweep) {
  const std::vector<EvaluatedCell> cells = EvaluateCells(sweep);
  std::vector<v1::Finding> findings = CompareClasses(cells);
  for (const EvaluatedCell& cell : cells) {
    if (!cell.IsEvidence()) continue;
    for (v1::Reason& reason : ContradictionsOf(cell)) {
      findings.push_back(
          CellFinding(*cell.cell, std::move(reason), v1::SEVERITY_ERROR, true));
    }
    for (v1::Finding& finding : ComparePathsOf(cell, sweep.spec().policy())) {
      findings.push_back(std::move(finding));
    }
    for (v1::Finding& finding :
         CompareWithReferenceOf(cell, sweep.spec().policy())) {
      findings.push_back(std::move(finding));
    }
    for (v1::Reason& reason :
         CompareStaged(*cell.cell, sweep.spec().release().artifact())) {
      const bool differs = reason.code() == "TP405";
      findings.push_back(CellFinding(
          *cell.cell, std::move(reason),
          differs ? v1::SEVERITY_ERROR : v1::SEVERITY_WARNING, differs));
    }
  }
  return GroupFindings(std::move(findings));
}

}  // namespace twinpath::verdict
