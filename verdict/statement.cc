#include "verdict/statement.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/text.h"
#include "verdict/evaluated.h"
#include "verdict/judge.h"
#include "verdict/path_status.h"
#include "verdict/toolchain.h"

namespace twinpath::verdict {
namespace {

std::string Time(const google::protobuf::Timestamp& time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ",
                          absl::FromUnixSeconds(time.seconds()),
                          absl::UTCTimeZone());
}

std::string Hex(const v1::Digest& digest) {
  if (digest.sha256().empty()) return "not stated";
  return absl::StrCat("sha256:", absl::BytesToHexString(digest.sha256()));
}

absl::string_view CpuName(v1::CpuArchitecture architecture) {
  switch (architecture) {
    case v1::CPU_ARCHITECTURE_X86_64:
      return "x86-64";
    case v1::CPU_ARCHITECTURE_AARCH64:
      return "aarch64";
    case v1::CPU_ARCHITECTURE_OTHER:
      return "other CPU";
    default:
      return "unknown CPU";
  }
}

absl::string_view RuleName(v1::PathRule rule) {
  switch (rule) {
    case v1::PATH_RULE_OPTIONAL:
      return "optional";
    case v1::PATH_RULE_SKIPPED:
      return "skipped";
    default:
      return "required";
  }
}

std::string Join(const std::set<std::string>& names) {
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

// What a cell's paths have shown, "native proven, ptx-jit failed, plain ...".
std::string Paths(const v1::Cell& cell, const v1::Entry* entry) {
  const EvaluatedCell evaluated = EvaluateCell(cell, entry);
  if (evaluated.simulated) return "simulated";
  if (!evaluated.answered || entry == nullptr) return "no complete result";
  if (entry->kind() == v1::ENTRY_KIND_TOOLCHAIN) {
    return ToolchainStatement(cell.result().toolchain(), cell.gpu_uuid());
  }
  if (entry->kind() == v1::ENTRY_KIND_IMAGES) {
    const v1::ImageLoadReport& loads = cell.result().image_loads();
    return absl::StrCat(loads.tried(), " images given to the driver, ",
                        loads.loaded(), " loaded, ", loads.contradicted(),
                        " not as predicted, ", loads.left_out(), " left out");
  }
  return absl::StrJoin(kPaths, ", ", [&](std::string* out, v1::Path path) {
    absl::StrAppend(out, PathName(path), " ",
                    StatusName(evaluated.At(path).status));
  });
}

}  // namespace

absl::string_view VerdictName(v1::VerdictKind kind) {
  switch (kind) {
    case v1::VERDICT_KIND_PASS:
      return "pass";
    case v1::VERDICT_KIND_FAIL:
      return "fail";
    case v1::VERDICT_KIND_INCONCLUSIVE:
      return "inconclusive";
    case v1::VERDICT_KIND_STALE:
      return "stale";
    default:
      return "unspecified";
  }
}

std::string StatementOf(const v1::Sweep& sweep) {
  const v1::Release& release = sweep.spec().release();
  const v1::Policy& policy = sweep.spec().policy();
  std::map<std::string, const v1::Entry*> entries;
  for (const v1::Entry& entry : release.entries()) {
    entries.emplace(entry.name(), &entry);
  }

  // Hosts by what was shown, and under which conditions.
  std::map<std::string, std::set<std::string>> shown;
  for (const v1::Cell& cell : sweep.cells()) {
    const auto entry = entries.find(cell.entry());
    const std::string line = absl::StrCat(
        "entry ", cell.entry(), ": ", VerdictName(cell.verdict().kind()), ": ",
        Paths(cell, entry == entries.end() ? nullptr : entry->second),
        "; class ", Hex(cell.class_digest()), ", ",
        CpuName(cell.cpu_architecture()), ", driver ",
        cell.driver().empty() ? "not stated" : cell.driver(), ", GPU ",
        cell.gpu_name().empty() ? "none" : cell.gpu_name(),
        cell.gpu_name().empty()
            ? ""
            : absl::StrCat(" (", cell.compute_capability().major(), ".",
                           cell.compute_capability().minor(), ")"));
    shown[line].insert(cell.host_name());
  }

  std::vector<std::string> lines;
  lines.push_back(
      absl::StrCat("verdict: ", VerdictName(sweep.verdict().kind())));
  lines.push_back(absl::StrCat("artifact: ", release.artifact().name(), " ",
                               Hex(release.artifact().digest())));
  lines.push_back(
      absl::StrCat("source revision: ", release.source_revision().empty()
                                            ? "not stated"
                                            : release.source_revision()));
  lines.push_back(absl::StrCat(
      "entries: ", absl::StrJoin(release.entries(), ", ",
                                 [](std::string* out, const v1::Entry& entry) {
                                   absl::StrAppend(out, entry.name());
                                 })));
  lines.push_back(absl::StrCat(
      "policy: ",
      absl::StrJoin(kPaths, ", ",
                    [&policy](std::string* out, v1::Path path) {
                      absl::StrAppend(out, PathName(path), " ",
                                      RuleName(RuleFor(policy, path)));
                    }),
      policy.strict() ? ", strict" : ""));
  lines.push_back(absl::StrCat(
      "time: ",
      sweep.has_start_time() ? Time(sweep.start_time()) : "not stated", " to ",
      sweep.has_end_time() ? Time(sweep.end_time()) : "not ended",
      " (store's clock), sweep ", sweep.id()));
  for (const auto& [line, hosts] : shown) {
    lines.push_back(absl::StrCat(line, "; hosts ", Join(hosts)));
  }
  lines.push_back(absl::StrCat(
      "missing hosts: ",
      Join({sweep.missing_hosts().begin(), sweep.missing_hosts().end()})));
  lines.push_back(
      "limits: holds for this artifact, these entries, these paths and these "
      "conditions at this time, and for nothing else: not for another driver, "
      "device, or file of the same name. Code compiled from PTX is a "
      "compatibility path, not a promise for every driver. Simulated hosts "
      "prove nothing.");

  std::string statement;
  for (const std::string& line : lines) {
    absl::StrAppend(&statement, Printable(line), "\n");
  }
  return statement;
}

}  // namespace twinpath::verdict
