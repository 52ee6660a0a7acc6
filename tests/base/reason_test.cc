#include "base/reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/text.h"

namespace twinpath {
namespace {

using ::testing::MatchesRegex;

TEST(Reasons, CodesAreSortedAndUnique) {
  std::string last;
  for (const ReasonInfo& row : AllReasons()) {
    const std::string code(row.code);
    EXPECT_THAT(code, MatchesRegex("TP[1-5][0-9][0-9]"));
    EXPECT_LT(last, code);
    last = code;
  }
  EXPECT_FALSE(AllReasons().empty());
}

TEST(Reasons, NamesAreUniqueWords) {
  std::set<std::string> names;
  for (const ReasonInfo& row : AllReasons()) {
    const std::string name(row.name);
    EXPECT_THAT(name, MatchesRegex("[a-z0-9]+(-[a-z0-9]+)*"));
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

TEST(Reasons, TheHundredIsTheGroup) {
  for (const ReasonInfo& row : AllReasons()) {
    const char hundred = row.code[2];
    switch (row.group) {
      case ReasonGroup::kHost:
        EXPECT_EQ(hundred, '1') << row.code;
        break;
      case ReasonGroup::kArtifact:
      case ReasonGroup::kPrediction:
        EXPECT_EQ(hundred, '2') << row.code;
        break;
      case ReasonGroup::kRun:
        EXPECT_EQ(hundred, '3') << row.code;
        break;
      case ReasonGroup::kFleet:
        EXPECT_EQ(hundred, '4') << row.code;
        break;
      case ReasonGroup::kEvidence:
        EXPECT_EQ(hundred, '5') << row.code;
        break;
    }
  }
}

TEST(Reasons, TextAndRemedyAreSentences) {
  for (const ReasonInfo& row : AllReasons()) {
    for (const absl::string_view text : {row.text, row.remedy}) {
      ASSERT_FALSE(text.empty()) << row.code;
      EXPECT_EQ(text.back(), '.') << row.code;
      EXPECT_EQ(Printable(text), text) << row.code;
    }
  }
}

TEST(FindReason, TakesCodeOrNameInAnyCase) {
  const ReasonInfo* row = FindReason("TP204");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->name, "ptx-newer-than-driver");
  EXPECT_EQ(FindReason("tp204"), row);
  EXPECT_EQ(FindReason("PTX-newer-than-driver"), row);
  EXPECT_EQ(FindReason("TP999"), nullptr);
  EXPECT_EQ(FindReason(""), nullptr);
}

TEST(ReasonNames, AreTheWordsOfReports) {
  EXPECT_EQ(SeverityName(ReasonSeverity::kNote), "note");
  EXPECT_EQ(SeverityName(ReasonSeverity::kWarning), "warning");
  EXPECT_EQ(SeverityName(ReasonSeverity::kError), "error");
  EXPECT_EQ(GroupName(ReasonGroup::kHost), "host");
  EXPECT_EQ(GroupName(ReasonGroup::kArtifact), "artifact");
  EXPECT_EQ(GroupName(ReasonGroup::kPrediction), "prediction");
  EXPECT_EQ(GroupName(ReasonGroup::kRun), "run");
  EXPECT_EQ(GroupName(ReasonGroup::kFleet), "fleet");
  EXPECT_EQ(GroupName(ReasonGroup::kEvidence), "evidence");
}

}  // namespace
}  // namespace twinpath
