#include "verdict/output.h"

#include <gtest/gtest.h>

#include <string>

#include "base/status_matchers.h"
#include "tests/verdict/results.h"
#include "verdict/pattern.h"

namespace twinpath::verdict {
namespace {

v1::Observation Printed(absl::string_view text) {
  v1::Observation run;
  SetOutput(run, text);
  return run;
}

// Output of which only `head` and `tail` were kept.
v1::Observation Cut(const std::string& whole, size_t head, size_t tail) {
  v1::Observation run;
  run.mutable_stdout()->set_head(whole.substr(0, head));
  run.mutable_stdout()->set_tail(whole.substr(whole.size() - tail));
  run.mutable_stdout()->set_total_bytes(whole.size());
  *run.mutable_stdout()->mutable_digest() = DigestOf(whole);
  return run;
}

OutputMatch Judge(const v1::ExpectedOutput& rule, const v1::Observation& run) {
  v1::Entry entry;
  *entry.mutable_expected_output() = rule;
  return JudgeOutput(entry, run).match;
}

v1::ExpectedOutput Exact(absl::string_view text) {
  v1::ExpectedOutput rule;
  rule.set_exact(std::string(text));
  return rule;
}
v1::ExpectedOutput Holds(absl::string_view text) {
  v1::ExpectedOutput rule;
  rule.set_contains(std::string(text));
  return rule;
}
v1::ExpectedOutput Matching(absl::string_view text) {
  v1::ExpectedOutput rule;
  rule.set_pattern(std::string(text));
  return rule;
}

TEST(JudgeOutput, NoRuleIsNotJudged) {
  EXPECT_EQ(JudgeOutput({}, Printed("x")).match, OutputMatch::kNotJudged);
}

TEST(JudgeOutput, ExactIsByteForByte) {
  EXPECT_EQ(Judge(Exact("42\n"), Printed("42\n")), OutputMatch::kMatches);
  EXPECT_EQ(Judge(Exact("42\n"), Printed("42")), OutputMatch::kDiffers);
  EXPECT_EQ(Judge(Exact(""), Printed("")), OutputMatch::kMatches);
}

TEST(JudgeOutput, ExactOfCutOutputGoesByDigest) {
  const std::string whole(1000, 'a');
  EXPECT_EQ(Judge(Exact(whole), Cut(whole, 10, 10)), OutputMatch::kMatches);
  EXPECT_EQ(Judge(Exact(std::string(1000, 'b')), Cut(whole, 10, 10)),
            OutputMatch::kDiffers);
  v1::Observation without = Cut(whole, 10, 10);
  without.mutable_stdout()->clear_digest();
  EXPECT_EQ(Judge(Exact(whole), without), OutputMatch::kUnknown);
}

TEST(JudgeOutput, ContainsLooksInBothPieces) {
  const std::string whole = "begin " + std::string(1000, 'a') + " PASS";
  EXPECT_EQ(Judge(Holds("PASS"), Cut(whole, 10, 10)), OutputMatch::kMatches);
  EXPECT_EQ(Judge(Holds("begin"), Cut(whole, 10, 10)), OutputMatch::kMatches);
  EXPECT_EQ(Judge(Holds("FAIL"), Cut(whole, 10, 10)), OutputMatch::kUnknown);
  EXPECT_EQ(Judge(Holds("FAIL"), Printed("PASS")), OutputMatch::kDiffers);
}

TEST(JudgeOutput, NothingMatchesAcrossTheCut) {
  // Kept are "PA" and "SS": the two never stood side by side.
  EXPECT_EQ(Judge(Holds("PASS"), Cut("PAxxxxxSS", 2, 2)),
            OutputMatch::kUnknown);
}

TEST(JudgeOutput, UncutHeadAndTailAreOneText) {
  EXPECT_EQ(Judge(Holds("PASS"), Cut("PASS", 2, 2)), OutputMatch::kMatches);
}

TEST(JudgeOutput, PatternMatchesSomewhere) {
  EXPECT_EQ(Judge(Matching("value [0-9]+$"), Printed("the value 42")),
            OutputMatch::kMatches);
  EXPECT_EQ(Judge(Matching("^value"), Printed("the value 42")),
            OutputMatch::kDiffers);
}

TEST(JudgeOutput, PatternThatDoesNotCompileIsUnknown) {
  EXPECT_EQ(Judge(Matching("("), Printed("(")), OutputMatch::kUnknown);
}

TEST(JudgeOutput, MissingOutputIsUnknown) {
  EXPECT_EQ(Judge(Exact(""), {}), OutputMatch::kUnknown);
}

TEST(JudgeOutput, OutputThatContradictsItselfIsUnknown) {
  v1::Observation run = Printed("PASS");
  run.mutable_stdout()->set_total_bytes(1);
  EXPECT_EQ(Judge(Holds("PASS"), run), OutputMatch::kUnknown);
}

TEST(JudgeOutput, RuleOfUnknownKindIsUnknown) {
  EXPECT_EQ(Judge({}, Printed("PASS")), OutputMatch::kUnknown);
}

TEST(Pattern, HasLimits) {
  EXPECT_THAT(Pattern::Compile("a+"), IsOk());
  EXPECT_THAT(Pattern::Compile(std::string(5000, 'a')),
              StatusIs(absl::StatusCode::kInvalidArgument));
  // A thousand times a thousand: too large when compiled.
  EXPECT_THAT(Pattern::Compile("((a{100}){100}){100}"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Pattern::Compile("(?=a)"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Pattern, TakesBytesThatAreNotUtf8) {
  const auto pattern = Pattern::Compile("PASS");
  ASSERT_THAT(pattern, IsOk());
  EXPECT_TRUE(pattern->Matches("\xff\xfe PASS \x80"));
}

}  // namespace
}  // namespace twinpath::verdict
