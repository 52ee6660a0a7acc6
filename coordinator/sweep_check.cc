#include "coordinator/sweep_check.h"

#include <re2/re2.h>

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/text.h"
#include "coordinator/enrolment.h"
#include "coordinator/proto_time.h"
#include "trust/entry_rules.h"

namespace twinpath::coordinator {
namespace {

constexpr int kMaxEntries = 1000;
constexpr int kMaxWords = 4096;
constexpr size_t kMaxTextBytes = 128 << 10;
constexpr uint32_t kMaxGpus = 64;
// A lease carries one entry beside the manifest.
constexpr size_t kMaxEntryBytes = 1 << 20;
constexpr absl::Duration kMaxTimeout = absl::Hours(24);
constexpr int64_t kHostPage = 500;

// Variables that decide what a run proves, so that an entry may not set them
//.
bool IsReservedVariable(absl::string_view name) {
  return absl::StartsWith(name, "LD_") ||
         absl::StartsWith(name, "CUDA_FORCE_") ||
         absl::StartsWith(name, "CUDA_DISABLE_") ||
         absl::StartsWith(name, "CUDA_CACHE_") ||
         absl::StartsWith(name, "CUDA_INJECTION") ||
         name == "CUDA_DEVICE_ORDER" || name == "CUDA_VISIBLE_DEVICES" ||
         name == "CUDA_LOG_FILE" || name == "CUDA_MODULE_LOADING";
}

bool IsVariableName(absl::string_view name) {
  if (name.empty() || name.size() > 256 ||
      absl::ascii_isdigit(static_cast<unsigned char>(name[0]))) {
    return false;
  }
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
  });
}

// Collects mistakes, each with its place.
class Mistakes {
 public:
  void Add(absl::string_view place, absl::string_view what) {
    // A spec of mistakes only must not become a message without end.
    if (lines_.size() < 50) lines_.push_back(absl::StrCat(place, ": ", what));
  }
  absl::Status status() const {
    if (lines_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrJoin(lines_, "\n"));
  }

 private:
  std::vector<std::string> lines_;
};

void CheckPattern(absl::string_view place, absl::string_view pattern,
                  Mistakes& mistakes) {
  RE2::Options options;
  options.set_log_errors(false);
  const RE2 expression(re2::StringPiece(pattern.data(), pattern.size()),
                       options);
  if (!expression.ok()) {
    mistakes.Add(place, absl::StrCat("pattern '", Printable(pattern),
                                     "': ", expression.error()));
  }
}

void CheckCommand(absl::string_view place, const v1::Entry& entry,
                  const v1::Artifact& artifact, Mistakes& mistakes) {
  // CheckEntryRules says where one is missing or too many.
  if (entry.command_size() == 0) return;
  if (entry.command(0).empty()) {
    mistakes.Add(place, "has no command");
    return;
  }
  if (entry.command_size() > kMaxWords) {
    mistakes.Add(place, absl::StrCat("more than ", kMaxWords, " words"));
  }
  size_t bytes = 0;
  for (const std::string& word : entry.command()) {
    bytes += word.size();
    if (absl::StrContains(word, absl::string_view("\0", 1))) {
      mistakes.Add(place, "a word of the command holds a NUL byte");
    }
  }
  if (bytes > kMaxTextBytes) mistakes.Add(place, "the command is too long");
  const std::string& program = entry.command(0);
  // In a container it is a program of the image, looked up there.
  if (program[0] == '/' || entry.kind() == v1::ENTRY_KIND_OCI) return;
  std::vector<std::string> names;
  for (const v1::ArtifactFile& file : artifact.files()) {
    if (file.name() == program) return;
    names.push_back(file.name());
  }
  const std::string nearest = NearestWord(program, names);
  mistakes.Add(
      place,
      absl::StrCat("program '", Printable(program),
                   "' is neither a file of the artifact nor an absolute path",
                   nearest.empty() ? ""
                                   : absl::StrCat("; did you mean '",
                                                  Printable(nearest), "'?")));
}

void CheckTimeout(absl::string_view place, absl::string_view name, bool present,
                  const google::protobuf::Duration& duration,
                  Mistakes& mistakes) {
  if (!present) return;
  const absl::Duration value = FromProto(duration);
  if (value <= absl::ZeroDuration() || value > kMaxTimeout) {
    mistakes.Add(place, absl::StrCat(name, ": above 0, at most 24 h"));
  }
}

void CheckEntry(const v1::Entry& entry, const v1::Artifact& artifact,
                std::set<std::string>& names, Mistakes& mistakes) {
  const std::string place =
      absl::StrCat("entry '", Printable(entry.name()), "'");
  if (!IsPlainName(entry.name())) {
    mistakes.Add(place,
                 "name: 1 to 64 letters, digits, '.', '_', '-' are allowed");
  }
  if (!names.insert(entry.name()).second) {
    mistakes.Add(place, "two entries have this name");
  }
  if (const absl::Status status = trust::CheckEntryRules(entry); !status.ok()) {
    mistakes.Add(place, MessageOf(status));
  }
  CheckCommand(place, entry, artifact, mistakes);
  for (const v1::EnvironmentVariable& variable : entry.environment()) {
    if (!IsVariableName(variable.name())) {
      mistakes.Add(place, absl::StrCat("variable '", Printable(variable.name()),
                                       "' is no variable name"));
    } else if (IsReservedVariable(variable.name())) {
      mistakes.Add(place, absl::StrCat("variable ", variable.name(),
                                       " belongs to the paths and cannot be "
                                       "set by an entry"));
    }
    if (variable.value().size() > kMaxTextBytes) {
      mistakes.Add(place, absl::StrCat("variable ", variable.name(),
                                       ": value is too long"));
    }
  }
  if (entry.ByteSizeLong() > kMaxEntryBytes) {
    mistakes.Add(place, "takes more than 1 MiB");
  }
  if (entry.gpus().count() > kMaxGpus) {
    mistakes.Add(place, absl::StrCat("more than ", kMaxGpus, " GPUs"));
  }
  if (entry.gpus().all() && entry.gpus().count() > 0) {
    mistakes.Add(place, "GPUs: a number or all, not both");
  }
  if (entry.expected_exit() < 0 || entry.expected_exit() > 255) {
    mistakes.Add(place, "expected exit code: 0 to 255");
  }
  if (entry.expected_output().rule_case() == v1::ExpectedOutput::kPattern) {
    CheckPattern(place, entry.expected_output().pattern(), mistakes);
  }
  for (const v1::ExpectedFile& file : entry.expected_files()) {
    if (file.content().rule_case() == v1::ExpectedOutput::kPattern) {
      CheckPattern(place, file.content().pattern(), mistakes);
    }
  }
  CheckTimeout(place, "timeout", entry.has_timeout(), entry.timeout(),
               mistakes);
  CheckTimeout(place, "jit_timeout", entry.has_jit_timeout(),
               entry.jit_timeout(), mistakes);
}

bool IsRule(v1::PathRule rule) { return v1::PathRule_IsValid(rule); }

}  // namespace

absl::Status CheckSweepSpec(const v1::SweepSpec& spec,
                            const v1::Artifact& artifact, absl::Time now) {
  Mistakes mistakes;
  if (spec.name().size() > 256) {
    mistakes.Add("name", "at most 256 bytes");
  }
  const v1::Release& release = spec.release();
  if (release.entries_size() == 0) {
    mistakes.Add("entries", "at least one is needed");
  }
  if (release.entries_size() > kMaxEntries) {
    mistakes.Add("entries", absl::StrCat("at most ", kMaxEntries));
    return mistakes.status();
  }
  std::set<std::string> names;
  for (const v1::Entry& entry : release.entries()) {
    CheckEntry(entry, artifact, names, mistakes);
  }
  for (const v1::ExpectedKernel& kernel : release.expect().kernels()) {
    if (kernel.is_pattern()) {
      CheckPattern("expect", kernel.name(), mistakes);
    }
  }
  for (const auto* labels :
       {&spec.selector().labels(), &release.host_labels()}) {
    for (const std::string& label : *labels) {
      if (absl::Status status = CheckLabel(label); !status.ok()) {
        mistakes.Add("selector", MessageOf(status));
      }
    }
  }
  const v1::Policy& policy = spec.policy();
  if (!IsRule(policy.native()) || !IsRule(policy.ptx_jit()) ||
      !IsRule(policy.plain())) {
    mistakes.Add("policy", "a rule this version does not know");
  } else if (policy.native() == v1::PATH_RULE_SKIPPED &&
             policy.ptx_jit() == v1::PATH_RULE_SKIPPED &&
             policy.plain() == v1::PATH_RULE_SKIPPED) {
    mistakes.Add("policy", "every path is skipped, so nothing would be run");
  }
  if (spec.has_deadline()) {
    const absl::Duration deadline = FromProto(spec.deadline());
    if (deadline <= absl::ZeroDuration() || deadline > kMaxSweepDeadline) {
      mistakes.Add("deadline", "above 0, at most 30 days");
    }
  }
  if (release.has_not_after() && FromProto(release.not_after()) <= now) {
    mistakes.Add("release", "its not-after has passed; sign a newer one");
  }
  return mistakes.status();
}

bool HasLabels(const HostRow& host,
               const google::protobuf::RepeatedPtrField<std::string>& labels) {
  return std::all_of(
      labels.begin(), labels.end(), [&](const std::string& label) {
        return std::find(host.labels.begin(), host.labels.end(), label) !=
               host.labels.end();
      });
}

absl::StatusOr<std::vector<HostRow>> SelectHosts(
    const StoreView& view, const v1::HostSelector& selector) {
  std::vector<HostRow> hosts;
  if (selector.hosts_size() > 0) {
    std::set<std::string> ids;
    for (const std::string& wanted : selector.hosts()) {
      absl::StatusOr<HostRow> host = view.FindHost(wanted);
      if (absl::IsNotFound(host.status())) host = view.GetHost(wanted);
      if (absl::IsNotFound(host.status())) {
        TWINPATH_ASSIGN_OR_RETURN(const std::vector<HostName> known,
                                  view.ListHostNames());
        std::vector<std::string> names;
        for (const HostName& name : known) names.push_back(name.name);
        const std::string nearest = NearestWord(wanted, names);
        return absl::NotFoundError(absl::StrCat(
            "host '", Printable(wanted), "' is not known",
            nearest.empty() ? "; see: twinpath hosts"
                            : absl::StrCat("; did you mean '", nearest, "'?")));
      }
      TWINPATH_RETURN_IF_ERROR(host.status());
      if (ids.insert(host->id).second && HasLabels(*host, selector.labels())) {
        hosts.push_back(*std::move(host));
      }
    }
    std::sort(
        hosts.begin(), hosts.end(),
        [](const HostRow& a, const HostRow& b) { return a.name < b.name; });
    return hosts;
  }
  std::string after;
  while (true) {
    TWINPATH_ASSIGN_OR_RETURN(std::vector<HostRow> page,
                              view.ListHosts(after, kHostPage));
    if (page.empty()) return hosts;
    after = page.back().name;
    for (HostRow& host : page) {
      if (HasLabels(host, selector.labels())) hosts.push_back(std::move(host));
    }
  }
}

}  // namespace twinpath::coordinator
