// What all cases come to: how much of them the model leaves open, and that each
// is in the table of docs/cases.md. Every answer asked of it counts as one cell
// a path. An `unknown` has to name the command that settles it, and at most 3 %
// may be unknown.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "compat/predict.h"
#include "tests/compat/case_file.h"

namespace twinpath::compat {
namespace {

constexpr const char* kPathNames[] = {"native", "ptx-jit", "plain"};

TEST(CaseCount, AtMostThreePercentIsUnknown) {
  size_t cells = 0;
  size_t with_recipe = 0;
  std::vector<std::string> unknown;
  const std::vector<std::string> names = CaseNames();
  for (const std::string& name : names) {
    const test::Case the_case = ReadCase(name);
    if (the_case.has_recipe()) ++with_recipe;
    const v1::ArtifactReport report = StoredReport(the_case);
    const Predictor predictor(report);
    for (const test::Expected& expected : the_case.expected()) {
      const auto paths = PredictionFor(predictor, expected);
      for (size_t i = 0; i < paths.size(); ++i) {
        ++cells;
        if (paths[i].outcome() != v1::OUTCOME_UNKNOWN) continue;
        EXPECT_FALSE(paths[i].settled_by().empty())
            << name << " on " << expected.on() << ", " << kPathNames[i];
        unknown.push_back(absl::StrCat(name, ", ", expected.on(), ", ",
                                       kPathNames[i], ": ",
                                       paths[i].settled_by()));
      }
    }
  }
  std::printf(
      "%zu cases, %zu of them built by a recipe; %zu cells, %zu "
      "unknown (%.1f %%)\n",
      names.size(), with_recipe, cells, unknown.size(),
      cells == 0 ? 0.0
                 : 100.0 * static_cast<double>(unknown.size()) /
                       static_cast<double>(cells));
  for (const std::string& line : unknown) std::printf("  %s\n", line.c_str());
  ASSERT_GT(cells, 0u);
  EXPECT_LE(unknown.size() * 100, cells * 3);
}

// docs/cases.md lists every case and every thread it cites.
TEST(CaseCount, EveryCaseIsInTheTable) {
  const auto table = ReadFile(SourcePath("docs/cases.md"), 1 << 20);
  ASSERT_THAT(table, IsOk());
  const std::vector<std::string> names = CaseNames();
  ASSERT_FALSE(names.empty());
  for (const std::string& name : names) {
    EXPECT_TRUE(absl::StrContains(*table, absl::StrCat("`", name, "`")))
        << name;
    const test::Case the_case = ReadCase(name);
    for (const std::string& thread : the_case.threads()) {
      EXPECT_TRUE(absl::StrContains(*table, thread)) << name << ": " << thread;
    }
  }
}

}  // namespace
}  // namespace twinpath::compat
