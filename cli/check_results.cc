#include "cli/check_results.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/reference.h"
#include "trust/entry_rules.h"

namespace twinpath::cli {
namespace {

constexpr uint64_t kMaxTextBytes = 1u << 20;

absl::StatusOr<double> ParsePart(absl::string_view flag,
                                 const std::string& text) {
  if (text.empty()) return 0.0;
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value) || value < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " \"", Printable(text),
                     "\": expected a number of at least 0, such as 1e-6"));
  }
  return value;
}

absl::StatusOr<v1::Tolerance> ParseTolerance(
    const CheckResultOptions& options) {
  v1::Tolerance tolerance;
  TWINPATH_ASSIGN_OR_RETURN(const double absolute,
                            ParsePart("--absolute", options.absolute));
  TWINPATH_ASSIGN_OR_RETURN(const double relative,
                            ParsePart("--relative", options.relative));
  tolerance.set_absolute(absolute);
  tolerance.set_relative(relative);
  tolerance.set_nan_equals_nan(options.nan_equals_nan);
  return tolerance;
}

}  // namespace

absl::Status AddResultRules(const CheckResultOptions& options,
                            v1::Entry& entry) {
  TWINPATH_ASSIGN_OR_RETURN(const v1::Tolerance tolerance,
                            ParseTolerance(options));
  const bool states_tolerance = !options.absolute.empty() ||
                                !options.relative.empty() ||
                                options.nan_equals_nan;
  if (states_tolerance && options.expect_numbers.empty() &&
      options.compare != "numbers") {
    return absl::InvalidArgumentError(
        "--absolute, --relative and --nan-equals-nan need --compare numbers or "
        "--expect-numbers");
  }
  if (!options.expect_numbers.empty()) {
    if (entry.has_expected_output()) {
      return absl::InvalidArgumentError(
          "--expect-numbers excludes the other rules for the output");
    }
    TWINPATH_ASSIGN_OR_RETURN(std::string text,
                              ReadFile(options.expect_numbers, kMaxTextBytes));
    v1::ExpectedNumbers& numbers =
        *entry.mutable_expected_output()->mutable_numbers();
    numbers.set_text(std::move(text));
    *numbers.mutable_tolerance() = tolerance;
  }
  for (const std::string& name : options.files) {
    if (!trust::IsOutputFileName(name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--output-file \"", Printable(name),
          "\": expected a name below the working folder of the run: relative, "
          "without \"..\", \".\" or empty parts"));
    }
    entry.add_expected_files()->set_name(name);
  }
  if (options.compare == "numbers") {
    entry.mutable_compare()->set_as(v1::COMPARE_AS_NUMBERS);
    *entry.mutable_compare()->mutable_tolerance() = tolerance;
  } else if (options.compare == "off") {
    entry.mutable_compare()->set_as(v1::COMPARE_AS_OFF);
  } else if (options.compare == "exact") {
    entry.mutable_compare();
  }
  if (!options.reference.empty()) {
    TWINPATH_ASSIGN_OR_RETURN(*entry.mutable_reference(),
                              LoadReference(options.reference));
  }
  return trust::CheckEntryRules(entry);
}

absl::Status SaveReference(const CheckResultOptions& options,
                           const v1::Sweep& sweep, Console& console) {
  if (options.save_reference.empty()) return absl::OkStatus();
  TWINPATH_ASSIGN_OR_RETURN_CTX(const v1::Reference reference,
                                MakeReference(sweep, {}), "--save-reference");
  TWINPATH_RETURN_IF_ERROR(WriteReference(options.save_reference, reference));
  console.Say(
      absl::StrCat("reference written to ", Printable(options.save_reference)));
  return absl::OkStatus();
}

}  // namespace twinpath::cli
