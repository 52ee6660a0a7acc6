#include "verdict/builder.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "compat/reason.h"
#include "verdict/evaluated.h"

namespace twinpath::verdict {
namespace {

// Adds reasons to a verdict, each once. A set and no search: a hostile host
// may send very many.
class Adder {
 public:
  explicit Adder(v1::Verdict& verdict) : verdict_(verdict) {}

  void Add(const v1::Reason& reason) {
    v1::Reason* added = verdict_.add_reasons();
    *added = reason;
    // What the verdict holds does not move.
    if (!seen_.emplace(added->code(), added->detail()).second) {
      verdict_.mutable_reasons()->RemoveLast();
    }
  }
  void Add(const std::vector<v1::Reason>& reasons) {
    for (const v1::Reason& reason : reasons) Add(reason);
  }

 private:
  v1::Verdict& verdict_;
  absl::flat_hash_set<std::pair<absl::string_view, absl::string_view>> seen_;
};

}  // namespace

void VerdictBuilder::Fail(v1::Reason reason) {
  fail_.push_back(std::move(reason));
}
void VerdictBuilder::Inconclusive(v1::Reason reason) {
  inconclusive_.push_back(std::move(reason));
}
void VerdictBuilder::Warn(v1::Reason reason) {
  warn_.push_back(std::move(reason));
}
void VerdictBuilder::Note(v1::Reason reason) {
  note_.push_back(std::move(reason));
}

v1::Verdict VerdictBuilder::Build(bool strict,
                                  absl::string_view pass_detail) const {
  v1::Verdict verdict;
  Adder adder(verdict);
  const bool strict_fail = strict && !warn_.empty();
  if (!fail_.empty() || strict_fail) {
    verdict.set_kind(v1::VERDICT_KIND_FAIL);
  } else if (!inconclusive_.empty() || !proven_) {
    verdict.set_kind(v1::VERDICT_KIND_INCONCLUSIVE);
  } else {
    verdict.set_kind(v1::VERDICT_KIND_PASS);
    adder.Add(compat::MakeReason("TP420", pass_detail));
  }
  adder.Add(fail_);
  if (strict_fail) adder.Add(warn_);
  adder.Add(inconclusive_);
  if (verdict.kind() == v1::VERDICT_KIND_INCONCLUSIVE &&
      inconclusive_.empty()) {
    adder.Add(compat::MakeReason("TP418", "nothing was shown to hold"));
  }
  adder.Add(warn_);
  adder.Add(note_);
  return verdict;
}

std::vector<v1::Finding> VerdictBuilder::Findings(const v1::Cell& cell) const {
  std::vector<v1::Finding> findings;
  const auto add = [&](const v1::Reason& reason, v1::Severity severity) {
    v1::Finding finding = CellFinding(cell, reason, severity, false);
    // A missing host and a host's own faults are about the host.
    if (reason.code() == "TP411" || absl::StartsWith(reason.code(), "TP1")) {
      finding.set_scope(v1::FINDING_SCOPE_HOST);
    }
    findings.push_back(std::move(finding));
  };
  for (const v1::Reason& reason : fail_) add(reason, v1::SEVERITY_ERROR);
  for (const v1::Reason& reason : inconclusive_) {
    add(reason, compat::SeverityOf(reason));
  }
  for (const v1::Reason& reason : warn_) add(reason, v1::SEVERITY_WARNING);
  return findings;
}

}  // namespace twinpath::verdict
