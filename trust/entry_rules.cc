#include "trust/entry_rules.h"

#include <cmath>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/digest.h"
#include "base/status.h"
#include "base/text.h"

namespace twinpath::trust {
namespace {

constexpr size_t kMaxPartBytes = 255;
constexpr size_t kDigestBytes = 32;

absl::Status Bad(absl::string_view why) {
  return absl::InvalidArgumentError(std::string(why));
}

// A digest that must be there, and bytes that may be.
absl::Status CheckKept(absl::string_view what, const v1::Digest& digest,
                       const std::string* bytes) {
  if (digest.sha256().size() != kDigestBytes) {
    return Bad(absl::StrCat(what, ": the digest is not 32 bytes"));
  }
  if (bytes != nullptr && Sha256Of(*bytes).Raw() != digest.sha256()) {
    return Bad(absl::StrCat(what, ": the bytes kept have another digest"));
  }
  return absl::OkStatus();
}

bool HasResult(const v1::Entry& entry) {
  return entry.kind() == v1::ENTRY_KIND_UNSPECIFIED ||
         entry.kind() == v1::ENTRY_KIND_OCI;
}

// What only a command's result can have; empty if there is nothing of it.
absl::string_view NeedsResult(const v1::Entry& entry) {
  if (!entry.command().empty()) return "a command";
  if (!entry.environment().empty()) return "an environment";
  if (entry.has_gpus()) return "a number of GPUs";
  if (entry.expected_exit() != 0) return "an expected exit code";
  if (entry.has_expected_output()) return "an expected output";
  if (!entry.expected_files().empty()) return "expected files";
  if (!entry.must_launch().empty()) return "kernels that must be launched";
  if (entry.trace() != v1::TRACE_RULE_UNSPECIFIED) return "a trace rule";
  if (entry.has_compare()) return "a comparison";
  if (entry.has_reference()) return "a reference";
  return "";
}

absl::string_view KindName(v1::EntryKind kind) {
  switch (kind) {
    case v1::ENTRY_KIND_IMAGES:
      return "images";
    case v1::ENTRY_KIND_TOOLCHAIN:
      return "toolchain";
    case v1::ENTRY_KIND_OCI:
      return "oci";
    default:
      return "command";
  }
}

}  // namespace

bool IsOutputFileName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxFileNameBytes ||
      name.find('\0') != absl::string_view::npos) {
    return false;
  }
  for (const absl::string_view part : absl::StrSplit(name, '/')) {
    if (part.empty() || part == "." || part == ".." ||
        part.size() > kMaxPartBytes) {
      return false;
    }
  }
  return true;
}

bool IsOciDigest(absl::string_view text) {
  constexpr absl::string_view kPrefix = "sha256:";
  if (text.substr(0, kPrefix.size()) != kPrefix) return false;
  text.remove_prefix(kPrefix.size());
  if (text.size() != 2 * kDigestBytes) return false;
  for (const char c : text) {
    if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) return false;
  }
  return true;
}

absl::Status CheckTolerance(const v1::Tolerance& tolerance) {
  for (const double part : {tolerance.absolute(), tolerance.relative()}) {
    if (!std::isfinite(part) || part < 0) {
      return Bad("a tolerance is a finite number of at least 0");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckExpectedOutput(const v1::ExpectedOutput& output) {
  switch (output.rule_case()) {
    case v1::ExpectedOutput::kExact:
    case v1::ExpectedOutput::kContains:
    case v1::ExpectedOutput::kPattern:
      return absl::OkStatus();
    case v1::ExpectedOutput::kNumbers:
      return CheckTolerance(output.numbers().tolerance());
    case v1::ExpectedOutput::kDigest:
      return CheckKept("expected output", output.digest(), nullptr);
    case v1::ExpectedOutput::RULE_NOT_SET:
      break;
  }
  return Bad("an expected output is set and has no rule");
}

absl::Status CheckReference(const v1::Reference& reference) {
  TWINPATH_RETURN_IF_ERROR(
      CheckKept("reference: stdout", reference.stdout_digest(),
                reference.has_stdout() ? &reference.stdout() : nullptr));
  if (reference.files_size() > kMaxEntryFiles) {
    return Bad(absl::StrCat("reference: more than ", kMaxEntryFiles, " files"));
  }
  std::set<absl::string_view> names;
  for (const v1::ReferenceFile& file : reference.files()) {
    const std::string what =
        absl::StrCat("reference: file '", Printable(file.name()), "'");
    if (!IsOutputFileName(file.name())) {
      return Bad(absl::StrCat(what, " is no name below a folder"));
    }
    if (!names.insert(file.name()).second) {
      return Bad(absl::StrCat(what, " is there twice"));
    }
    TWINPATH_RETURN_IF_ERROR(CheckKept(
        what, file.digest(), file.has_content() ? &file.content() : nullptr));
  }
  return absl::OkStatus();
}

absl::Status CheckEntryRules(const v1::Entry& entry) {
  if (!v1::EntryKind_IsValid(entry.kind())) {
    return Bad("is of a kind unknown here");
  }
  if (!v1::TraceRule_IsValid(entry.trace())) {
    return Bad("has a trace rule unknown here");
  }
  const absl::string_view kind = KindName(entry.kind());
  if (HasResult(entry)) {
    if (entry.command().empty()) return Bad("has no command");
  } else if (const absl::string_view what = NeedsResult(entry); !what.empty()) {
    return Bad(absl::StrCat("is of kind ", kind, ", which has no program of ",
                            "its own, and states ", what));
  }
  if (entry.kind() == v1::ENTRY_KIND_OCI) {
    if (!IsOciDigest(entry.oci_image())) {
      return Bad(
          "oci_image is not \"sha256:\" and 64 lower-case hexadecimal digits");
    }
  } else if (!entry.oci_image().empty()) {
    return Bad(absl::StrCat("has an oci_image and is of kind ", kind));
  }
  if (entry.trace() == v1::TRACE_RULE_OFF && !entry.must_launch().empty()) {
    return Bad("must_launch needs tracing, which is off");
  }
  if (entry.has_expected_output()) {
    TWINPATH_RETURN_IF_ERROR(CheckExpectedOutput(entry.expected_output()));
  }
  if (entry.expected_files_size() > kMaxEntryFiles) {
    return Bad(absl::StrCat("names more than ", kMaxEntryFiles, " files"));
  }
  std::set<absl::string_view> names;
  for (const v1::ExpectedFile& file : entry.expected_files()) {
    const std::string what =
        absl::StrCat("file '", Printable(file.name()), "'");
    if (!IsOutputFileName(file.name())) {
      return Bad(absl::StrCat(what, " is no name below the working folder"));
    }
    if (!names.insert(file.name()).second) {
      return Bad(absl::StrCat(what, " is named twice"));
    }
    if (file.has_content()) {
      TWINPATH_RETURN_IF_ERROR_CTX(CheckExpectedOutput(file.content()), what);
    }
  }
  if (entry.has_compare()) {
    if (!v1::CompareAs_IsValid(entry.compare().as())) {
      return Bad("is compared in a way unknown here");
    }
    TWINPATH_RETURN_IF_ERROR(CheckTolerance(entry.compare().tolerance()));
  }
  if (entry.has_reference()) {
    if (entry.compare().as() == v1::COMPARE_AS_OFF) {
      return Bad("has a reference and is compared with nothing");
    }
    TWINPATH_RETURN_IF_ERROR(CheckReference(entry.reference()));
  }
  return absl::OkStatus();
}

}  // namespace twinpath::trust
