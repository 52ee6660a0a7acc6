#include "verdict/compare_outputs.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/digest.h"
#include "compat/reason.h"
#include "verdict/judge.h"
#include "verdict/output.h"
#include "verdict/run_compare.h"

namespace twinpath::verdict {
namespace {

// Being within a tolerance is not transitive, so what is usual is the result
// that most cells are within the tolerance of. So many different results are
// tried for it, the most frequent first, with so many comparisons in all: a
// fleet of 10,000 hosts that all print something else takes seconds.
constexpr size_t kMaxCandidates = 16;
constexpr size_t kMaxComparisons = 20'000;

struct Group {
  // The run that stands for the group, of its first cell.
  const v1::Observation* run = nullptr;
  CellClass cells;
};

// Whether the part decides between cells of the entry.
bool Counts(const v1::Entry& entry, int part) {
  return StatesComparison(entry) || !HasRule(entry, part);
}

// The run by which a cell's part is compared with that of others; nullptr if it
// is not.
const v1::Observation* ComparedRun(const EvaluatedCell& cell, int part) {
  if (cell.At(v1::PATH_NATIVE).status != PathStatus::kProven ||
      cell.repeats.varying.contains(part)) {
    return nullptr;
  }
  return MainRun(cell.cell->result(), v1::PATH_NATIVE);
}

// Equal keys are equal results in the part; empty: equal to none other, since
// it cannot be compared. Where results are compared byte for byte the reverse
// holds too.
std::string KeyOf(const v1::Entry& entry, int part,
                  const v1::Observation& run) {
  const auto key = [](bool recorded, const v1::CapturedOutput& output) {
    if (!recorded) return std::string();
    const std::string& digest = output.digest().sha256();
    if (!digest.empty()) return absl::StrCat("digest:", digest);
    if (IsCut(output)) return std::string();
    return absl::StrCat(
        "digest:", Sha256Of(absl::StrCat(output.head(), output.tail())).Raw());
  };
  if (part == kStandardOutput) return key(run.has_stdout(), run.stdout());
  const v1::OutputFile* file = FindFile(run, entry.expected_files(part).name());
  if (file == nullptr) return "-";
  if (!file->problem().empty())
    return absl::StrCat("problem:", file->problem());
  return key(file->has_content(), file->content());
}

// Groups cells of equal keys, in the order of their first members.
std::vector<Group> EqualGroups(const CellClass& cells, int part) {
  std::vector<Group> groups;
  absl::flat_hash_map<std::string, size_t> by_key;
  for (const EvaluatedCell* cell : cells) {
    const v1::Observation* run = ComparedRun(*cell, part);
    if (run == nullptr) continue;
    std::string key = KeyOf(*cell->entry, part, *run);
    size_t index = groups.size();
    if (!key.empty()) {
      index = by_key.emplace(std::move(key), index).first->second;
    }
    if (index == groups.size()) groups.push_back({run, {}});
    groups[index].cells.push_back(cell);
  }
  return groups;
}

bool Agree(const v1::Entry& entry, int part, const Group& expected,
           const Group& seen) {
  return CompareRunsIn(entry, part, *expected.run, *seen.run).empty();
}

// Groups cells whose results are equal. Numbers within a tolerance: the group
// with most cells within the tolerance of its first one comes first, all others
// are those of equal bytes.
std::vector<Group> GroupsOf(const CellClass& cells, int part) {
  std::vector<Group> groups = EqualGroups(cells, part);
  if (groups.size() < 2 ||
      cells[0]->entry->compare().as() != v1::COMPARE_AS_NUMBERS) {
    return groups;
  }
  const v1::Entry& entry = *cells[0]->entry;
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) {
                     return a.cells.size() > b.cells.size();
                   });
  std::vector<size_t> best;
  size_t best_cells = 0;
  size_t total = 0;
  for (const Group& group : groups) total += group.cells.size();
  const size_t candidates =
      std::min({groups.size(), kMaxCandidates,
                std::max<size_t>(kMaxComparisons / groups.size(), 1)});
  for (size_t i = 0; i < candidates && best_cells < total; ++i) {
    std::vector<size_t> near = {i};
    size_t near_cells = groups[i].cells.size();
    for (size_t j = 0; j < groups.size(); ++j) {
      if (j == i || !Agree(entry, part, groups[i], groups[j])) continue;
      near.push_back(j);
      near_cells += groups[j].cells.size();
    }
    if (near_cells > best_cells) {
      best = std::move(near);
      best_cells = near_cells;
    }
  }
  std::vector<Group> merged = {{groups[best[0]].run, {}}};
  for (const size_t i : best) {
    merged[0].cells.insert(merged[0].cells.end(), groups[i].cells.begin(),
                           groups[i].cells.end());
    groups[i].cells.clear();
  }
  for (Group& group : groups) {
    if (!group.cells.empty()) merged.push_back(std::move(group));
  }
  return merged;
}

// The group with more than half of the cells; nullptr if there is none.
const Group* Majority(const std::vector<Group>& groups) {
  size_t total = 0;
  for (const Group& group : groups) total += group.cells.size();
  for (const Group& group : groups) {
    if (group.cells.size() * 2 > total) return &group;
  }
  return nullptr;
}

std::string Clauses(const std::vector<PartDifference>& parts, bool differing) {
  std::vector<std::string> clauses;
  for (const PartDifference& part : parts) {
    if (part.differs == differing) clauses.push_back(part.why);
  }
  return absl::StrJoin(clauses, ", ");
}

// Findings of several parts: one a cell for all parts of which the same is to
// be said.
class PartFindings {
 public:
  // How the part of `group` is not `usual`'s, for each of its cells.
  void Add(const Group& group, int part, const v1::Observation& usual,
           absl::string_view code, absl::string_view than,
           absl::string_view fix, v1::Severity severity) {
    const v1::Entry& entry = *group.cells[0]->entry;
    for (const PartDifference& difference :
         CompareRunsIn(entry, part, usual, *group.run)) {
      const Kind kind = difference.differs
                            ? Kind{std::string(code), absl::StrCat(" ", than),
                                   std::string(fix), severity}
                            : Kind{"TP434", "", "", severity};
      for (const EvaluatedCell* cell : group.cells) {
        const auto [known, is_new] =
            index_.try_emplace({cell, kind}, found_.size());
        if (is_new) found_.push_back({cell, kind, {}});
        found_[known->second].clauses.push_back(difference.why);
      }
    }
  }

  void AppendTo(std::vector<v1::Finding>& findings) const {
    for (const Found& found : found_) {
      const auto& [code, than, fix, severity] = found.kind;
      findings.push_back(CellFinding(
          *found.cell->cell,
          compat::MakeReason(
              code,
              absl::StrCat("native: ", absl::StrJoin(found.clauses, ", "),
                           than),
              fix),
          severity, true));
    }
  }

 private:
  // Code, what it differs from, remedy, severity.
  using Kind = std::tuple<std::string, std::string, std::string, v1::Severity>;
  struct Found {
    const EvaluatedCell* cell = nullptr;
    Kind kind;
    std::vector<std::string> clauses;
  };

  std::vector<Found> found_;
  std::map<std::pair<const EvaluatedCell*, Kind>, size_t> index_;
};

// CompareInClass for one part.
void ComparePartInClass(const CellClass& cells, int part,
                        PartFindings& findings) {
  const std::vector<Group> groups = GroupsOf(cells, part);
  if (groups.size() < 2) return;
  const Group* usual = Majority(groups);
  const bool counts = usual != nullptr || StatesComparison(*cells[0]->entry);
  const v1::Severity severity =
      counts ? v1::SEVERITY_ERROR : v1::SEVERITY_WARNING;
  for (const Group& group : groups) {
    if (&group == usual) continue;
    if (usual != nullptr) {
      findings.Add(group, part, *usual->run, "TP403",
                   "from that of most of its class", "", severity);
    } else {
      // Nobody is right: each against another of them.
      const Group& other = &group == &groups[0] ? groups[1] : groups[0];
      findings.Add(group, part, *other.run, "TP403", "inside the class",
                   "State compare: in the sweep file: numbers within a "
                   "tolerance, or off for a program that prints something of "
                   "its host.",
                   severity);
    }
  }
}

// CompareAcrossClasses for one part.
void ComparePartAcrossClasses(const std::vector<CellClass>& classes, int part,
                              PartFindings& findings) {
  const v1::Entry& entry = *classes[0][0]->entry;
  // What a class does not agree on in itself has been found there.
  std::vector<Group> usual;
  for (const CellClass& cells : classes) {
    std::vector<Group> groups = GroupsOf(cells, part);
    if (groups.empty()) continue;
    usual.push_back(*std::max_element(groups.begin(), groups.end(),
                                      [](const Group& a, const Group& b) {
                                        return a.cells.size() < b.cells.size();
                                      }));
  }
  if (usual.size() < 2) return;
  const Group& most = *std::max_element(
      usual.begin(), usual.end(), [](const Group& a, const Group& b) {
        return a.cells.size() < b.cells.size();
      });
  const v1::Severity severity =
      StatesComparison(entry) ? v1::SEVERITY_ERROR : v1::SEVERITY_WARNING;
  for (const Group& group : usual) {
    if (&group == &most) continue;
    findings.Add(group, part, *most.run, "TP433",
                 "from that of the other classes", "", severity);
  }
}

}  // namespace

void CompareInClass(const CellClass& cells,
                    std::vector<v1::Finding>& findings) {
  if (cells.size() < 2 || !IsCompared(*cells[0]->entry)) return;
  const v1::Entry& entry = *cells[0]->entry;
  PartFindings found;
  for (int part = kStandardOutput; part < entry.expected_files_size(); ++part) {
    if (Counts(entry, part)) ComparePartInClass(cells, part, found);
  }
  found.AppendTo(findings);
}

void CompareAcrossClasses(const std::vector<CellClass>& classes,
                          std::vector<v1::Finding>& findings) {
  if (classes.size() < 2) return;
  const v1::Entry& entry = *classes[0][0]->entry;
  if (!IsCompared(entry) || entry.has_reference()) return;
  PartFindings found;
  for (int part = kStandardOutput; part < entry.expected_files_size(); ++part) {
    if (Counts(entry, part)) ComparePartAcrossClasses(classes, part, found);
  }
  found.AppendTo(findings);
}

std::vector<v1::Finding> CompareWithReferenceOf(const EvaluatedCell& cell,
                                                const v1::Policy& policy) {
  if (!cell.IsEvidence() || !cell.entry->has_reference()) return {};
  const v1::Entry& entry = *cell.entry;
  struct Clause {
    std::vector<absl::string_view> paths;
    bool required = false;
    bool differs = false;
  };
  // By what is said, so that three paths that differ alike are one finding.
  std::map<std::string, Clause> clauses;
  for (const v1::Path path : kPaths) {
    const v1::PathRule rule = RuleFor(policy, path);
    const v1::Observation* run = MainRun(cell.cell->result(), path);
    if (rule == v1::PATH_RULE_SKIPPED || run == nullptr ||
        run->ending() != v1::ENDING_EXITED ||
        run->exit_code() != entry.expected_exit() ||
        JudgeOutput(entry, *run).match == OutputMatch::kDiffers) {
      continue;
    }
    const std::vector<PartDifference> parts = CompareWithReference(entry, *run);
    if (parts.empty()) continue;
    const bool differs = AnyDiffers(parts);
    Clause& clause = clauses[absl::StrCat(
        Clauses(parts, differs), differs ? " from the reference" : "")];
    clause.paths.push_back(PathName(path));
    clause.required |= rule == v1::PATH_RULE_REQUIRED;
    clause.differs = differs;
  }
  std::vector<v1::Finding> findings;
  for (const auto& [text, clause] : clauses) {
    findings.push_back(CellFinding(
        *cell.cell,
        compat::MakeReason(
            clause.differs ? "TP432" : "TP434",
            absl::StrCat(absl::StrJoin(clause.paths, ", "), ": ", text)),
        clause.required ? v1::SEVERITY_ERROR : v1::SEVERITY_WARNING, true));
  }
  return findings;
}

}  // namespace twinpath::verdict
