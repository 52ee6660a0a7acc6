#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/exit_code.h"
#include "compat/reason.h"
#include "verdict/builder.h"
#include "verdict/compare.h"
#include "verdict/compare_outputs.h"
#include "verdict/evaluated.h"
#include "verdict/expect.h"
#include "verdict/group.h"
#include "verdict/judge.h"
#include "verdict/judge_cell.h"
#include "verdict/statement.h"

namespace twinpath::verdict {
namespace {

// Whether the sweep takes no more results.
bool HasEnded(const v1::Sweep& sweep) {
  return sweep.state() == v1::SWEEP_STATE_DONE ||
         sweep.state() == v1::SWEEP_STATE_DEADLINE ||
         sweep.state() == v1::SWEEP_STATE_CANCELLED;
}

// Applies a mismatch to the cell it is about. What was dispatched is not what
// ran, or one program has two answers, or another than the release holds: that
// is a failure. A contradiction between evidence and something else is none,
// and no pass either.
void Apply(const v1::Finding& finding, VerdictBuilder& builder) {
  if (finding.severity() != v1::SEVERITY_ERROR) {
    builder.Warn(finding.reason());
  } else if (finding.reason().code() == "TP402" ||
             finding.reason().code() == "TP405" ||
             finding.reason().code() == "TP432") {
    builder.Fail(finding.reason());
  } else {
    builder.Inconclusive(finding.reason());
  }
}

// Key by which cells and hosts belong together.
const std::string& HostKey(const v1::Cell& cell) {
  return cell.host_id().empty() ? cell.host_name() : cell.host_id();
}

// One host's part of a sweep.
struct HostPart {
  std::string id;
  std::string name;
  bool simulated = false;
  bool missing = false;
  std::set<std::string> entries;
  VerdictBuilder builder;
};

// What a part that does not pass says to the whole. Notes explain a pass only,
// unless nothing else is said: a part that is no pass never counts for nothing.
std::vector<v1::Reason> WhyNot(const v1::Verdict& verdict) {
  std::vector<v1::Reason> reasons;
  for (const v1::Reason& reason : verdict.reasons()) {
    if (compat::SeverityOf(reason) != v1::SEVERITY_NOTE) {
      reasons.push_back(reason);
    }
  }
  if (reasons.empty()) {
    reasons.assign(verdict.reasons().begin(), verdict.reasons().end());
  }
  if (reasons.empty()) {
    reasons.push_back(
        compat::MakeReason("TP418", "a part has no verdict and no reason"));
  }
  return reasons;
}

void AddVerdict(const v1::Verdict& verdict, VerdictBuilder& builder) {
  switch (verdict.kind()) {
    case v1::VERDICT_KIND_PASS:
      builder.Proven();
      for (const v1::Reason& reason : verdict.reasons()) {
        if (reason.code() != "TP420" &&
            compat::SeverityOf(reason) != v1::SEVERITY_NOTE) {
          builder.Note(reason);
        }
      }
      return;
    case v1::VERDICT_KIND_FAIL:
      for (v1::Reason& reason : WhyNot(verdict)) {
        builder.Fail(std::move(reason));
      }
      return;
    default:
      for (v1::Reason& reason : WhyNot(verdict)) {
        builder.Inconclusive(std::move(reason));
      }
  }
}

// Hosts in the order of their names.
std::vector<HostPart> HostParts(const v1::Sweep& sweep) {
  std::map<std::pair<std::string, std::string>, HostPart> hosts;
  for (const v1::Cell& cell : sweep.cells()) {
    HostPart& host = hosts[{cell.host_name(), HostKey(cell)}];
    host.id = cell.host_id();
    host.name = cell.host_name();
    host.simulated |= cell.simulated() || cell.result().simulated();
    host.missing |= cell.state() != v1::CELL_STATE_DONE || !cell.has_result() ||
                    !cell.result().complete();
    host.entries.insert(cell.entry());
    AddVerdict(cell.verdict(), host.builder);
  }
  std::vector<HostPart> parts;
  parts.reserve(hosts.size());
  for (auto& [key, host] : hosts) parts.push_back(std::move(host));
  return parts;
}

// Adds what the artifact lacks of its release's declaration.
void AddExpectation(const std::vector<v1::Finding>& findings,
                    VerdictBuilder& builder) {
  for (const v1::Finding& finding : findings) {
    // What could not be read may be there.
    if (finding.reason().code() == "TP232") {
      builder.Inconclusive(finding.reason());
    } else {
      builder.Fail(finding.reason());
    }
  }
}

// The report must be the sweep's artifact's where anything is expected of it.
bool IsReportOf(const v1::ArtifactReport& report,
                const v1::Artifact& artifact) {
  return report.artifact_digest().sha256() == artifact.digest().sha256();
}

}  // namespace

void JudgeSweep(v1::Sweep& sweep, const v1::ArtifactReport& report) {
  const v1::Policy& policy = sweep.spec().policy();
  const v1::Release& release = sweep.spec().release();
  const bool ended = HasEnded(sweep);

  // Cells: each by itself, then what comparing them shows.
  const std::vector<EvaluatedCell> cells = EvaluateCells(sweep);
  std::vector<VerdictBuilder> builders;
  std::vector<v1::Finding> mismatches = CompareClasses(cells);
  absl::flat_hash_map<absl::string_view, size_t> index;
  size_t answered = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    const EvaluatedCell& cell = cells[i];
    builders.push_back(JudgeEvaluated(cell, policy, ended));
    index.emplace(cell.cell->id(), i);
    if (cell.answered) ++answered;
    for (v1::Reason& reason : ContradictionsOf(cell)) {
      mismatches.push_back(
          CellFinding(*cell.cell, std::move(reason), v1::SEVERITY_ERROR, true));
    }
    for (v1::Finding& finding : ComparePathsOf(cell, policy)) {
      mismatches.push_back(std::move(finding));
    }
    for (v1::Finding& finding : CompareWithReferenceOf(cell, policy)) {
      mismatches.push_back(std::move(finding));
    }
    if (!cell.IsEvidence()) continue;
    for (v1::Reason& reason : CompareStaged(*cell.cell, release.artifact())) {
      if (reason.code() == "TP405") {
        mismatches.push_back(CellFinding(*cell.cell, std::move(reason),
                                         v1::SEVERITY_ERROR, true));
      } else {
        builders[i].Inconclusive(std::move(reason));
      }
    }
  }
  for (const v1::Finding& finding : mismatches) {
    // A contradiction of the model is in the cell's own verdict already.
    if (finding.reason().code() == "TP401") continue;
    for (const std::string& id : finding.cell_ids()) {
      const auto cell = index.find(id);
      if (cell != index.end()) Apply(finding, builders[cell->second]);
    }
  }
  // What comparing has found is not found again in the cell's own reasons.
  std::set<std::pair<std::string, std::string>> known;
  for (const v1::Finding& finding : mismatches) {
    for (const std::string& id : finding.cell_ids()) {
      known.emplace(finding.reason().code(), id);
    }
  }
  std::vector<v1::Finding> findings = std::move(mismatches);
  for (size_t i = 0; i < cells.size(); ++i) {
    v1::Cell& cell = *sweep.mutable_cells(static_cast<int>(i));
    for (v1::Finding& finding : builders[i].Findings(cell)) {
      if (known.contains({finding.reason().code(), cell.id()})) continue;
      findings.push_back(std::move(finding));
    }
    *cell.mutable_verdict() =
        builders[i].Build(policy.strict(), kCellPassDetail);
  }

  VerdictBuilder whole;
  std::vector<v1::Finding> expectation =
      CheckExpectation(release.expect(), report);
  const bool expects =
      release.has_expect() && release.expect().ByteSizeLong() > 0;
  if (expects && !IsReportOf(report, release.artifact())) {
    whole.Inconclusive(compat::MakeReason(
        "TP418", "the report at hand is not of the artifact's files"));
  } else {
    AddExpectation(expectation, whole);
    for (v1::Finding& finding : expectation) {
      findings.push_back(std::move(finding));
    }
  }

  // Evidence is about exact bytes or about nothing.
  if (release.artifact().digest().sha256().empty() ||
      release.artifact().files().empty()) {
    whole.Inconclusive(
        compat::MakeReason("TP418", "the sweep states no artifact"));
  }

  // Hosts.
  std::vector<HostPart> hosts = HostParts(sweep);
  std::set<std::string> missing;
  std::set<std::string> with_cells;
  sweep.clear_hosts();
  for (HostPart& host : hosts) {
    with_cells.insert(host.name);
    if (host.missing) missing.insert(host.name);
    for (const v1::Entry& entry : release.entries()) {
      if (host.entries.contains(entry.name())) continue;
      host.builder.Inconclusive(compat::MakeReason(
          "TP418", absl::StrCat("no cell for entry ", entry.name())));
    }
    v1::HostVerdict& verdict = *sweep.add_hosts();
    verdict.set_host_id(host.id);
    verdict.set_host_name(host.name);
    verdict.set_simulated(host.simulated);
    *verdict.mutable_verdict() = host.builder.Build(
        false, "every cell of the host has positive evidence");
    AddVerdict(verdict.verdict(), whole);
  }
  // Selected hosts that have no cell at all; the coordinator named them.
  std::set<std::string> without_cells;
  for (const std::string& name : sweep.missing_hosts()) {
    if (!with_cells.contains(name)) without_cells.insert(name);
  }
  for (const std::string& name : without_cells) {
    v1::Reason reason =
        compat::MakeReason("TP411", "selected, and no cell could be made");
    v1::Finding finding;
    *finding.mutable_reason() = reason;
    finding.set_severity(v1::SEVERITY_WARNING);
    finding.set_scope(v1::FINDING_SCOPE_HOST);
    finding.add_hosts(name);
    findings.push_back(std::move(finding));
    v1::HostVerdict& verdict = *sweep.add_hosts();
    verdict.set_host_name(name);
    verdict.mutable_verdict()->set_kind(v1::VERDICT_KIND_INCONCLUSIVE);
    *verdict.mutable_verdict()->add_reasons() = reason;
    whole.Inconclusive(std::move(reason));
  }
  if (ended) {
    missing.insert(without_cells.begin(), without_cells.end());
    sweep.clear_missing_hosts();
    for (const std::string& name : missing) sweep.add_missing_hosts(name);
  }

  // The sweep.
  switch (sweep.state()) {
    case v1::SWEEP_STATE_DONE:
      break;
    case v1::SWEEP_STATE_DEADLINE:
      if (!missing.empty() || cells.empty()) {
        whole.Inconclusive(compat::MakeReason(
            "TP413", "the deadline came before every host had answered"));
      }
      break;
    case v1::SWEEP_STATE_CANCELLED:
      whole.Inconclusive(
          compat::MakeReason("TP416", "a person ended the sweep"));
      break;
    default:
      whole.Inconclusive(
          compat::MakeReason("TP418", "the sweep has not ended"));
  }
  if (cells.empty() && without_cells.empty()) {
    whole.Inconclusive(
        compat::MakeReason("TP412", "the selector matches no host"));
  }
  v1::Verdict verdict = whole.Build(
      false, "every required path of every cell has positive evidence");
  if (sweep.state() == v1::SWEEP_STATE_DEADLINE && answered == 0 &&
      verdict.kind() == v1::VERDICT_KIND_INCONCLUSIVE) {
    // No answer at all has an exit code of its own; it is told by its reason.
    const auto deadline = std::find_if(
        verdict.mutable_reasons()->begin(), verdict.mutable_reasons()->end(),
        [](const v1::Reason& r) { return r.code() == "TP413"; });
    if (deadline != verdict.mutable_reasons()->end()) {
      std::rotate(verdict.mutable_reasons()->begin(), deadline, deadline + 1);
    }
  }
  *sweep.mutable_verdict() = std::move(verdict);

  sweep.clear_findings();
  for (v1::Finding& finding : GroupFindings(std::move(findings))) {
    *sweep.add_findings() = std::move(finding);
  }
  sweep.mutable_verdict()->set_statement(StatementOf(sweep));
}

ExitCode ExitCodeOf(const v1::Verdict& verdict) {
  switch (verdict.kind()) {
    case v1::VERDICT_KIND_PASS:
      return kExitPass;
    case v1::VERDICT_KIND_FAIL:
      return kExitFail;
    default:
      break;
  }
  // JudgeSweep puts the deadline first only where no host had answered.
  if (verdict.kind() == v1::VERDICT_KIND_INCONCLUSIVE &&
      verdict.reasons_size() > 0 && verdict.reasons(0).code() == "TP413") {
    return kExitUnreachable;
  }
  return kExitInconclusive;
}

}  // namespace twinpath::verdict
