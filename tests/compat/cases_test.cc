// Public failure reports as data (tests/compat/cases): what each host should
// have been told before the rollout, what a run should have been diagnosed as.
// recipes_test asks the same of files built by the recipes.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compat/diagnose.h"
#include "compat/explain.h"
#include "compat/predict.h"
#include "compat/reach.h"
#include "compat/reason.h"
#include "tests/compat/case_file.h"
#include "tests/compat/fake_host.h"

namespace twinpath::compat {
namespace {

class Cases : public ::testing::TestWithParam<std::string> {};

void CheckObserved(const test::Observed& observed) {
  const std::vector<v1::Reason> reasons =
      Diagnose(observed.observation(), TestTables());
  std::vector<std::string> codes;
  std::string described;
  for (const v1::Reason& reason : reasons) {
    codes.push_back(
        reason.cuda_error() == 0
            ? reason.code()
            : absl::StrCat(reason.code(), ":", reason.cuda_error()));
    absl::StrAppend(&described, "\n    ", DescribeReason(reason),
                    " FIX: ", reason.fix());
  }
  EXPECT_EQ(absl::StrJoin(codes, " "), absl::StrJoin(observed.codes(), " "))
      << observed.observation().ShortDebugString() << described;
  if (reasons.empty()) return;
  EXPECT_TRUE(absl::StrContains(
      absl::StrCat(reasons[0].detail(), "\n", reasons[0].fix()),
      observed.says()))
      << "no \"" << observed.says() << "\"" << described;
}

void CheckExplained(const test::Explained& explained) {
  const std::vector<Explanation> found =
      Explain(explained.text(), TestTables());
  ASSERT_FALSE(found.empty()) << "nothing known in: " << explained.text();
  const std::string all = absl::StrCat(found[0].title, "\n", found[0].meaning,
                                       "\n", found[0].action);
  EXPECT_EQ(found[0].reason_code, explained.code()) << all;
  EXPECT_EQ(found[0].cuda_error, explained.cuda_error()) << all;
  EXPECT_TRUE(absl::StrContains(all, explained.says()))
      << "no \"" << explained.says() << "\" in " << all;
}

std::string PointName(const v1::DriverFloor& floor) {
  return floor.has_oldest() ? absl::StrCat("R", floor.oldest().branch()) : "";
}

void CheckReached(const v1::ArtifactReport& stored,
                  const test::Reached& reached) {
  v1::ArtifactReport report;
  for (const v1::FileReport& file : stored.files()) {
    if (reached.files().empty() ||
        std::find(reached.files().begin(), reached.files().end(),
                  file.name()) != reached.files().end()) {
      *report.add_files() = file;
    }
  }
  const v1::Reach reach = ReachOf(report, Predictor(report), TestTables());
  ASSERT_EQ(reach.floor().paths_size(), 2);
  EXPECT_EQ(PointName(reach.floor().paths(0)), reached.native());
  EXPECT_EQ(PointName(reach.floor().paths(1)), reached.ptx_jit());
  std::vector<std::string> codes;
  std::string described;
  for (const v1::Reason& reason : reach.findings()) {
    codes.push_back(reason.code());
    absl::StrAppend(&described, "\n    ", DescribeReason(reason));
  }
  EXPECT_EQ(absl::StrJoin(codes, " "), absl::StrJoin(reached.findings(), " "))
      << described;
}

TEST_P(Cases, AnswersAsTheThreadFound) {
  const test::Case the_case = ReadCase(GetParam());
  EXPECT_GT(the_case.threads_size(), 0) << "every case cites its thread";
  EXPECT_FALSE(the_case.summary().empty());
  EXPECT_GT(the_case.expected_size() + the_case.inspected_size() +
                the_case.declared_size() + the_case.observed_size() +
                the_case.explained_size() + the_case.compared_size() +
                the_case.reached_size() + the_case.resolved_size(),
            0)
      << "a case expects something";
  if (the_case.expected_size() > 0) {
    EXPECT_GT(the_case.stored_size(), 0)
        << "answers are asked of the stored files where nothing can be built";
  }
  const v1::ArtifactReport report = StoredReport(the_case);
  const Predictor predictor(report);
  for (const test::Expected& expected : the_case.expected()) {
    CheckAnswer(PredictionFor(predictor, expected), expected, "stored");
  }
  for (const test::Resolved& resolved : the_case.resolved()) {
    CheckResolved(report, resolved, "stored");
  }
  for (const test::Reached& reached : the_case.reached()) {
    CheckReached(report, reached);
  }
  for (const test::Observed& observed : the_case.observed()) {
    CheckObserved(observed);
  }
  for (const test::Explained& explained : the_case.explained()) {
    CheckExplained(explained);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, Cases, ::testing::ValuesIn(CaseNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace twinpath::compat
