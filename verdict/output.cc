#include "verdict/output.h"

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/digest.h"
#include "base/status.h"
#include "base/text.h"
#include "verdict/numbers.h"
#include "verdict/pattern.h"

namespace twinpath::verdict {
namespace {

OutputJudgement Unknown(std::string why) {
  return {OutputMatch::kUnknown, std::move(why)};
}

// What is judged, with the words for it: "standard output", "file x".
struct Judged {
  const v1::CapturedOutput& output;
  absl::string_view what;
};

OutputJudgement Search(const Judged& judged,
                       const std::function<bool(absl::string_view)>& holds,
                       absl::string_view rule) {
  const v1::CapturedOutput& output = judged.output;
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
    return Unknown(absl::StrCat(judged.what,
                                " was cut and the kept parts do not ", rule,
                                " what is expected"));
  }
  return {OutputMatch::kDiffers,
          absl::StrCat(judged.what, " does not ", rule, " what is expected")};
}

OutputJudgement JudgeExact(const Judged& judged, const std::string& expected) {
  const v1::CapturedOutput& output = judged.output;
  bool equal;
  if (IsCut(output)) {
    if (!output.has_digest()) {
      return Unknown(absl::StrCat(judged.what, " was cut and has no digest"));
    }
    equal = output.total_bytes() == expected.size() &&
            output.digest().sha256() == Sha256Of(expected).Raw();
  } else {
    equal = absl::StrCat(output.head(), output.tail()) == expected;
  }
  if (equal) return {OutputMatch::kMatches, ""};
  return {OutputMatch::kDiffers,
          absl::StrCat(judged.what, " is not byte for byte what is expected")};
}

OutputJudgement JudgeDigest(const Judged& judged, const v1::Digest& expected) {
  if (!judged.output.has_digest()) {
    return Unknown(absl::StrCat(judged.what, " has no digest"));
  }
  if (judged.output.digest().sha256() == expected.sha256()) {
    return {OutputMatch::kMatches, ""};
  }
  return {OutputMatch::kDiffers,
          absl::StrCat(judged.what, " has another digest than is expected")};
}

OutputJudgement JudgeNumbers(const Judged& judged,
                             const v1::ExpectedNumbers& expected) {
  const v1::CapturedOutput& output = judged.output;
  const bool cut = IsCut(output);
  const std::string seen =
      cut ? output.head() : absl::StrCat(output.head(), output.tail());
  if (CompareNumbers(expected.text(), seen, expected.tolerance(),
                     TextStarts{.seen = cut})) {
    return {OutputMatch::kDiffers,
            absl::StrCat(judged.what, " differs from the expected numbers")};
  }
  if (cut) {
    return Unknown(absl::StrCat(
        judged.what, " was cut, and its numbers cannot be judged to the end"));
  }
  return {OutputMatch::kMatches, ""};
}

OutputJudgement JudgeRule(const Judged& judged,
                          const v1::ExpectedOutput& rule) {
  const v1::CapturedOutput& output = judged.output;
  if (output.total_bytes() < output.head().size() + output.tail().size()) {
    return Unknown(absl::StrCat("what was recorded of ", judged.what,
                                " contradicts itself"));
  }
  switch (rule.rule_case()) {
    case v1::ExpectedOutput::kExact:
      return JudgeExact(judged, rule.exact());
    case v1::ExpectedOutput::kContains:
      return Search(
          judged,
          [&rule](absl::string_view text) {
            return absl::StrContains(text, rule.contains());
          },
          "contain");
    case v1::ExpectedOutput::kPattern: {
      const absl::StatusOr<Pattern> pattern = Pattern::Compile(rule.pattern());
      if (!pattern.ok()) {
        return Unknown(std::string(MessageOf(pattern.status())));
      }
      return Search(
          judged,
          [&pattern](absl::string_view text) { return pattern->Matches(text); },
          "match");
    }
    case v1::ExpectedOutput::kNumbers:
      return JudgeNumbers(judged, rule.numbers());
    case v1::ExpectedOutput::kDigest:
      return JudgeDigest(judged, rule.digest());
    case v1::ExpectedOutput::RULE_NOT_SET:
      break;
  }
  // A rule of a later version of the contract.
  return Unknown("the expectation is of a kind unknown here");
}

// The worse of two judgements; of equals the first.
int Rank(OutputMatch match) {
  switch (match) {
    case OutputMatch::kDiffers:
      return 3;
    case OutputMatch::kUnknown:
      return 2;
    case OutputMatch::kMatches:
      return 1;
    case OutputMatch::kNotJudged:
      return 0;
  }
  return 2;
}

}  // namespace

bool IsCut(const v1::CapturedOutput& output) {
  return output.total_bytes() > output.head().size() + output.tail().size();
}

const v1::OutputFile* FindFile(const v1::Observation& observation,
                               absl::string_view name) {
  for (const v1::OutputFile& file : observation.files()) {
    if (file.name() == name) return &file;
  }
  return nullptr;
}

OutputJudgement JudgeStandardOutput(const v1::Entry& entry,
                                    const v1::Observation& observation) {
  if (!entry.has_expected_output()) return {OutputMatch::kNotJudged, ""};
  if (!observation.has_stdout()) return Unknown("no output was recorded");
  return JudgeRule({observation.stdout(), "standard output"},
                   entry.expected_output());
}

OutputJudgement JudgeFile(const v1::ExpectedFile& expected,
                          const v1::Observation& observation) {
  const std::string what = absl::StrCat("file ", Printable(expected.name()));
  const v1::OutputFile* file = FindFile(observation, expected.name());
  if (file == nullptr) {
    return Unknown(absl::StrCat(what, " was not looked for"));
  }
  if (!file->problem().empty()) {
    const std::string why = absl::StrCat(what, " ", file->problem());
    // The runner's words for what is none of the program's doing.
    if (absl::StartsWith(file->problem(), "could not be")) return Unknown(why);
    return {OutputMatch::kDiffers, why, "TP338"};
  }
  if (!expected.has_content()) return {OutputMatch::kNotJudged, ""};
  if (!file->has_content()) {
    return Unknown(absl::StrCat("what is in ", what, " was not recorded"));
  }
  return JudgeRule({file->content(), what}, expected.content());
}

OutputJudgement JudgeOutput(const v1::Entry& entry,
                            const v1::Observation& observation) {
  OutputJudgement worst = JudgeStandardOutput(entry, observation);
  for (const v1::ExpectedFile& expected : entry.expected_files()) {
    OutputJudgement judgement = JudgeFile(expected, observation);
    if (Rank(judgement.match) > Rank(worst.match)) worst = std::move(judgement);
  }
  return worst;
}

}  // namespace twinpath::verdict
