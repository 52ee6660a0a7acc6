#include "trust/release.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/digest.h"
#include "base/status.h"
#include "base/target_name.h"
#include "trust/entry_rules.h"

namespace twinpath::trust {
namespace {

constexpr absl::string_view kHeader = "twinpath-release 1\n";
constexpr int32_t kNanosPerSecond = 1'000'000'000;
// Bounds of google.protobuf.Duration and Timestamp.
constexpr int64_t kMaxDurationSeconds = 315'576'000'000;
constexpr int64_t kMaxTimestampSeconds = 253'402'300'799;

absl::Status Bad(absl::string_view what, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", why));
}

bool IsEntryName(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
  });
}

bool IsVariableName(absl::string_view name) {
  if (name.empty() || absl::ascii_isdigit(name[0])) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

// "90.500000000": both parts decimal, nine digits behind the dot.
absl::StatusOr<std::string> Seconds(int64_t seconds, int32_t nanos, int64_t max,
                                    absl::string_view what) {
  if (seconds < 0 || seconds > max || nanos < 0 || nanos >= kNanosPerSecond) {
    return Bad(what, "is out of range");
  }
  return absl::StrFormat("%d.%09d", seconds, nanos);
}

absl::StatusOr<std::string> TargetText(absl::string_view prefix,
                                       const v1::Target& target) {
  switch (target.suffix()) {
    // A declaration without suffix means base code.
    case v1::TARGET_SUFFIX_UNSPECIFIED:
    case v1::TARGET_SUFFIX_NONE:
      return FormatTarget(prefix, target.number(), 0);
    case v1::TARGET_SUFFIX_ARCH:
      return FormatTarget(prefix, target.number(), 'a');
    case v1::TARGET_SUFFIX_FAMILY:
      return FormatTarget(prefix, target.number(), 'f');
    default:
      return Bad("expect", "a target's suffix is of a kind unknown here");
  }
}

// "1.0000000000000000e-06 0.0000000000000000e+00", and " nan" behind it where a
// NaN equals a NaN. 17 significant digits tell every double from its
// neighbours.
std::string ToleranceText(const v1::Tolerance& tolerance) {
  return absl::StrFormat("%.16e %.16e%s", tolerance.absolute(),
                         tolerance.relative(),
                         tolerance.nan_equals_nan() ? " nan" : "");
}

// A digest of 32 bytes, which CheckEntryRules has seen.
std::string DigestText(const v1::Digest& digest) {
  return absl::BytesToHexString(digest.sha256());
}

// One rule; `prefix` is "entry NAME output-" or "entry NAME file NNNNNN ".
absl::Status AddOutput(const v1::ExpectedOutput& output,
                       const std::string& prefix,
                       std::vector<std::string>& lines) {
  switch (output.rule_case()) {
    case v1::ExpectedOutput::kExact:
      lines.push_back(
          absl::StrCat(prefix, "exact=", EscapeReleaseValue(output.exact())));
      return absl::OkStatus();
    case v1::ExpectedOutput::kContains:
      lines.push_back(absl::StrCat(
          prefix, "contains=", EscapeReleaseValue(output.contains())));
      return absl::OkStatus();
    case v1::ExpectedOutput::kPattern:
      lines.push_back(absl::StrCat(
          prefix, "pattern=", EscapeReleaseValue(output.pattern())));
      return absl::OkStatus();
    case v1::ExpectedOutput::kNumbers:
      lines.push_back(absl::StrCat(
          prefix, "numbers ", ToleranceText(output.numbers().tolerance()), "=",
          EscapeReleaseValue(output.numbers().text())));
      return absl::OkStatus();
    case v1::ExpectedOutput::kDigest:
      lines.push_back(
          absl::StrCat(prefix, "digest=", DigestText(output.digest())));
      return absl::OkStatus();
    case v1::ExpectedOutput::RULE_NOT_SET:
      break;
  }
  return Bad(prefix, "an expected output is set and has no rule");
}

// What the entry is and how its results are judged and compared.
absl::Status AddResults(const v1::Entry& entry, const std::string& prefix,
                        std::vector<std::string>& lines) {
  switch (entry.kind()) {
    case v1::ENTRY_KIND_IMAGES:
      lines.push_back(absl::StrCat(prefix, "kind=images"));
      break;
    case v1::ENTRY_KIND_TOOLCHAIN:
      lines.push_back(absl::StrCat(prefix, "kind=toolchain"));
      break;
    case v1::ENTRY_KIND_OCI:
      lines.push_back(absl::StrCat(prefix, "kind=oci"));
      lines.push_back(absl::StrCat(prefix, "oci-image=", entry.oci_image()));
      break;
    default:
      break;
  }
  if (entry.trace() != v1::TRACE_RULE_UNSPECIFIED) {
    lines.push_back(absl::StrCat(
        prefix, "trace=",
        entry.trace() == v1::TRACE_RULE_REQUIRED ? "required" : "off"));
  }
  if (entry.has_expected_output()) {
    TWINPATH_RETURN_IF_ERROR(AddOutput(entry.expected_output(),
                                       absl::StrCat(prefix, "output-"), lines));
  }
  for (int i = 0; i < entry.expected_files_size(); ++i) {
    const v1::ExpectedFile& file = entry.expected_files(i);
    // A name may hold anything, so each file has a number.
    const std::string place = absl::StrFormat("%sfile %06d ", prefix, i);
    lines.push_back(
        absl::StrCat(place, "name=", EscapeReleaseValue(file.name())));
    if (file.has_content()) {
      TWINPATH_RETURN_IF_ERROR(AddOutput(file.content(), place, lines));
    }
  }
  if (entry.has_compare()) {
    const v1::Comparison& compare = entry.compare();
    lines.push_back(absl::StrCat(
        prefix, "compare=",
        compare.as() == v1::COMPARE_AS_OFF ? "off"
        : compare.as() == v1::COMPARE_AS_NUMBERS
            ? absl::StrCat("numbers ", ToleranceText(compare.tolerance()))
            : "exact"));
  }
  if (entry.has_reference()) {
    const v1::Reference& reference = entry.reference();
    lines.push_back(absl::StrCat(
        prefix, "reference stdout=", DigestText(reference.stdout_digest())));
    for (int i = 0; i < reference.files_size(); ++i) {
      const std::string place = absl::StrFormat("%sreference %06d ", prefix, i);
      lines.push_back(absl::StrCat(
          place, "name=", EscapeReleaseValue(reference.files(i).name())));
      lines.push_back(absl::StrCat(
          place, "digest=", DigestText(reference.files(i).digest())));
    }
  }
  return absl::OkStatus();
}

absl::Status AddEntry(const v1::Entry& entry, std::vector<std::string>& lines) {
  const std::string what = absl::StrCat("entry ", entry.name());
  const std::string prefix = absl::StrCat(what, " ");
  TWINPATH_RETURN_IF_ERROR_CTX(CheckEntryRules(entry), what);
  for (int i = 0; i < entry.command_size(); ++i) {
    // The order of words is part of the command, so each has its number.
    lines.push_back(absl::StrFormat("%scommand %06d=%s", prefix, i,
                                    EscapeReleaseValue(entry.command(i))));
  }
  std::set<absl::string_view> variables;
  for (const v1::EnvironmentVariable& variable : entry.environment()) {
    if (!IsVariableName(variable.name())) {
      return Bad(what, absl::StrCat("'", EscapeReleaseValue(variable.name()),
                                    "' is no variable name"));
    }
    if (!variables.insert(variable.name()).second) {
      return Bad(what, absl::StrCat(variable.name(), " is set twice"));
    }
    lines.push_back(absl::StrCat(prefix, "env ", variable.name(), "=",
                                 EscapeReleaseValue(variable.value())));
  }
  const uint32_t count = std::max(entry.gpus().count(), 1U);
  lines.push_back(absl::StrCat(
      prefix,
      "gpus=", entry.gpus().all() ? std::string("all") : absl::StrCat(count)));
  lines.push_back(absl::StrCat(prefix, "exit=", entry.expected_exit()));
  TWINPATH_RETURN_IF_ERROR(AddResults(entry, prefix, lines));
  for (const std::string& word : entry.covers()) {
    lines.push_back(absl::StrCat(prefix, "covers=", EscapeReleaseValue(word)));
  }
  for (const std::string& kernel : entry.must_launch()) {
    lines.push_back(
        absl::StrCat(prefix, "must-launch=", EscapeReleaseValue(kernel)));
  }
  if (entry.has_timeout()) {
    TWINPATH_ASSIGN_OR_RETURN(
        const std::string limit,
        Seconds(entry.timeout().seconds(), entry.timeout().nanos(),
                kMaxDurationSeconds, absl::StrCat(what, ": timeout")));
    lines.push_back(absl::StrCat(prefix, "timeout=", limit));
  }
  if (entry.has_jit_timeout()) {
    TWINPATH_ASSIGN_OR_RETURN(
        const std::string limit,
        Seconds(entry.jit_timeout().seconds(), entry.jit_timeout().nanos(),
                kMaxDurationSeconds, absl::StrCat(what, ": jit_timeout")));
    lines.push_back(absl::StrCat(prefix, "jit-timeout=", limit));
  }
  if (entry.memory_bytes() != 0) {
    lines.push_back(absl::StrCat(prefix, "memory=", entry.memory_bytes()));
  }
  return absl::OkStatus();
}

absl::Status AddExpectation(const v1::Expectation& expect,
                            std::vector<std::string>& lines) {
  for (const v1::Target& target : expect.sass_targets()) {
    TWINPATH_ASSIGN_OR_RETURN(const std::string name, TargetText("sm", target));
    lines.push_back(absl::StrCat("expect sass=", name));
  }
  for (const v1::Target& target : expect.ptx_targets()) {
    TWINPATH_ASSIGN_OR_RETURN(const std::string name,
                              TargetText("compute", target));
    lines.push_back(absl::StrCat("expect ptx=", name));
  }
  if (expect.has_ptx_isa_min()) {
    lines.push_back(
        absl::StrCat("expect ptx-isa-min=", expect.ptx_isa_min().major(), ".",
                     expect.ptx_isa_min().minor()));
  }
  if (expect.has_ptx_isa_max()) {
    lines.push_back(
        absl::StrCat("expect ptx-isa-max=", expect.ptx_isa_max().major(), ".",
                     expect.ptx_isa_max().minor()));
  }
  for (const v1::ExpectedKernel& kernel : expect.kernels()) {
    std::vector<std::string> targets;
    for (const v1::Target& target : kernel.targets()) {
      TWINPATH_ASSIGN_OR_RETURN(std::string name, TargetText("sm", target));
      targets.push_back(std::move(name));
    }
    std::sort(targets.begin(), targets.end());
    lines.push_back(absl::StrCat(
        "expect ", kernel.is_pattern() ? "kernel-pattern " : "kernel ",
        targets.empty() ? "any" : absl::StrJoin(targets, ","),
        kernel.ptx() ? " ptx=" : "=", EscapeReleaseValue(kernel.name())));
  }
  return absl::OkStatus();
}

}  // namespace

std::string EscapeReleaseValue(absl::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c >= 0x20 && c <= 0x7E && c != '\\') {
      text.push_back(c);
    } else {
      absl::StrAppendFormat(&text, "\\x%02X", static_cast<unsigned char>(c));
    }
  }
  return text;
}

absl::StatusOr<std::string> ReleaseText(const v1::Release& release) {
  const absl::StatusOr<Sha256> artifact =
      Sha256::FromRaw(release.artifact().digest().sha256());
  if (!artifact.ok()) return WithContext(artifact.status(), "artifact digest");
  std::vector<std::string> lines = {absl::StrCat("artifact=", artifact->Hex())};
  std::set<absl::string_view> names;
  for (const v1::Entry& entry : release.entries()) {
    if (!IsEntryName(entry.name())) {
      return Bad(absl::StrCat("entry '", EscapeReleaseValue(entry.name()), "'"),
                 "a name is made of letters, digits, '.', '_' and '-'");
    }
    if (!names.insert(entry.name()).second) {
      return Bad(absl::StrCat("entry ", entry.name()), "is there twice");
    }
    TWINPATH_RETURN_IF_ERROR(AddEntry(entry, lines));
  }
  TWINPATH_RETURN_IF_ERROR(AddExpectation(release.expect(), lines));
  for (const std::string& label : release.host_labels()) {
    lines.push_back(absl::StrCat("host-label=", EscapeReleaseValue(label)));
  }
  if (release.has_not_after()) {
    TWINPATH_ASSIGN_OR_RETURN(
        const std::string time,
        Seconds(release.not_after().seconds(), release.not_after().nanos(),
                kMaxTimestampSeconds, "not_after"));
    lines.push_back(absl::StrCat("not-after=", time));
  }
  if (!release.source_revision().empty()) {
    lines.push_back(absl::StrCat(
        "source-revision=", EscapeReleaseValue(release.source_revision())));
  }
  std::sort(lines.begin(), lines.end());
  std::string text(kHeader);
  for (const std::string& line : lines) absl::StrAppend(&text, line, "\n");
  return text;
}

absl::StatusOr<Sha256> ReleaseDigest(const v1::Release& release) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string text, ReleaseText(release));
  return Sha256Of(text);
}

}  // namespace twinpath::trust
