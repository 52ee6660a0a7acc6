#include "verdict/output.h"

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/digest.h"
#include "base/status.h"
#include "verdict/pattern.h"

namespace twinpath::verdict {
namespace {

OutputJudgement Search(const v1::CapturedOutput& output,
                       const std::function<bool(absl::string_view)>& holds,
                       absl::string_view rule) {
  const bool cut = IsCut(output);
  bool found;
  if (cut) {
    // Nothing may match across the place where bytes are missing.
    found = holds(output.head()) || holds(output.tail());
  } else {
    found = holds(absl::StrCat(output.head(), output.tail()));
  }
  if (found) return {OutputMatch::kMatches, ""};
  if (cut) {
    return {OutputMatch::kUnknown,
            absl::StrCat("the output was cut and the kept parts do not ", rule,
                         " what is expected")};
  }
  return {OutputMatch::kDiffers,
          absl::StrCat("standard output does not ", rule, " what is expected")};
}

OutputJudgement JudgeExact(const v1::CapturedOutput& output,
                           const std::string& expected) {
  bool equal;
  if (IsCut(output)) {
    if (!output.has_digest()) {
      return {OutputMatch::kUnknown, "the output was cut and has no digest"};
    }
    equal = output.total_bytes() == expected.size() &&
            output.digest().sha256() == Sha256Of(expected).Raw();
  } else {
    equal = absl::StrCat(output.head(), output.tail()) == expected;
  }
  if (equal) return {OutputMatch::kMatches, ""};
  return {OutputMatch::kDiffers,
          "standard output is not byte for byte what is expected"};
}

}  // namespace

bool IsCut(const v1::CapturedOutput& output) {
  return output.total_bytes() > output.head().size() + output.tail().size();
}

OutputJudgement JudgeOutput(const v1::Entry& entry,
                            const v1::Observation& observation) {
  if (!entry.has_expected_output()) return {OutputMatch::kNotJudged, ""};
  if (!observation.has_stdout()) {
    return {OutputMatch::kUnknown, "no output was recorded"};
  }
  const v1::CapturedOutput& output = observation.stdout();
  if (output.total_bytes() < output.head().size() + output.tail().size()) {
    return {OutputMatch::kUnknown, "the recorded output contradicts itself"};
  }
  const v1::ExpectedOutput& rule = entry.expected_output();
  switch (rule.rule_case()) {
    case v1::ExpectedOutput::kExact:
      return JudgeExact(output, rule.exact());
    case v1::ExpectedOutput::kContains:
      return Search(
          output,
          [&rule](absl::string_view text) {
            return absl::StrContains(text, rule.contains());
          },
          "contain");
    case v1::ExpectedOutput::kPattern: {
      const absl::StatusOr<Pattern> pattern = Pattern::Compile(rule.pattern());
      if (!pattern.ok()) {
        return {OutputMatch::kUnknown,
                std::string(MessageOf(pattern.status()))};
      }
      return Search(
          output,
          [&pattern](absl::string_view text) { return pattern->Matches(text); },
          "match");
    }
    case v1::ExpectedOutput::RULE_NOT_SET:
      break;
  }
  // A rule of a later version of the contract.
  return {OutputMatch::kUnknown, "the expectation is of a kind unknown here"};
}

}  // namespace twinpath::verdict
