// The files of the cases, built by their recipes and read by the inspector:
// the report shows what the case says of it, and the predictions are those of
// the stored files (cases_test).

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_matchers.h"
#include "compat/predict.h"
#include "compat/reason.h"
#include "compat/target.h"
#include "tests/compat/case_file.h"
#include "tests/compat/recipe.h"

namespace twinpath::compat {
namespace {

class Recipes : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const char* bin = std::getenv("TWINPATH_BIN_DIR")) {
      ::setenv("TWINPATH_LIBEXEC", bin, 1);
    }
  }
  void TearDown() override { ::unsetenv("TWINPATH_LIBEXEC"); }
};

// Cases with a recipe.
std::vector<std::string> RecipeNames() {
  std::vector<std::string> names;
  for (const std::string& name : CaseNames()) {
    if (ReadCase(name).has_recipe()) names.push_back(name);
  }
  return names;
}

// "compute_80@9.0 sm_80 sm_90a", "-" for none.
std::string Holds(const v1::FileReport& file) {
  std::set<std::string> names;
  for (const v1::Fatbin& fatbin : file.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      std::string name = TargetName(image.kind(), image.target());
      if (image.kind() == v1::IMAGE_KIND_OTHER) {
        name = absl::StrCat("other", image.kind_number());
      }
      if (image.has_ptx_isa()) {
        absl::StrAppend(&name, "@", image.ptx_isa().major(), ".",
                        image.ptx_isa().minor());
      }
      if (image.kind() == v1::IMAGE_KIND_RELOCATABLE_SASS ||
          image.kind() == v1::IMAGE_KIND_RELOCATABLE_PTX) {
        name = "rel:" + name;
      }
      if (image.compression() == v1::COMPRESSION_ZSTD) name += "/zstd";
      names.insert(name);
    }
  }
  return names.empty() ? "-" : absl::StrJoin(names, " ");
}

void CheckInspected(const test::Case& the_case,
                    const v1::ArtifactReport& report) {
  std::map<std::string, const test::Inspected*> listed;
  for (const test::Inspected& inspected : the_case.inspected()) {
    listed[inspected.file()] = &inspected;
  }
  std::set<std::string> seen;
  for (const v1::FileReport& file : report.files()) {
    std::set<std::string> problems;
    std::string details;
    for (const v1::Reason& problem : file.problems()) {
      problems.insert(problem.code());
      absl::StrAppend(&details, "\n    ", DescribeReason(problem));
    }
    const auto it = listed.find(file.name());
    if (it == listed.end()) {
      EXPECT_TRUE(problems.empty())
          << file.name()
          << " has problems that the case does not name:" << details;
      continue;
    }
    seen.insert(file.name());
    const test::Inspected& inspected = *it->second;
    const std::set<std::string> expected(inspected.problems().begin(),
                                         inspected.problems().end());
    EXPECT_EQ(absl::StrJoin(problems, " "), absl::StrJoin(expected, " "))
        << file.name() << details;
    EXPECT_TRUE(absl::StrContains(details, inspected.says()))
        << file.name() << ": no \"" << inspected.says() << "\" in" << details;
    if (!inspected.kind().empty()) {
      EXPECT_EQ(v1::FileKind_Name(file.kind()), inspected.kind())
          << file.name();
    }
    EXPECT_TRUE(absl::StrContains(
        absl::StrJoin(file.carrier().promise().evidence(), "\n"),
        inspected.promises()))
        << file.name() << ": " << file.carrier().promise().ShortDebugString();
    if (!inspected.holds().empty()) {
      EXPECT_EQ(Holds(file), inspected.holds()) << file.name();
    }
  }
  for (const auto& [name, inspected] : listed) {
    EXPECT_TRUE(seen.contains(name))
        << "no report of " << name << " among "
        << absl::StrJoin(report.files(), " ",
                         [](std::string* out, const auto& file) {
                           out->append(file.name());
                         });
  }
}

TEST_P(Recipes, BuiltFilesGiveTheSameAnswers) {
  const test::Case the_case = ReadCase(GetParam());
  if (const std::string missing = MissingProgram(the_case.recipe());
      !missing.empty()) {
    GTEST_SKIP() << "this machine has no " << missing;
  }
  const auto report = BuildAndInspect(the_case.recipe());
  ASSERT_THAT(report, IsOk());
  CheckInspected(the_case, *report);
  const Predictor predictor(*report);
  for (const test::Expected& expected : the_case.expected()) {
    if (expected.stored_only()) continue;
    CheckAnswer(PredictionFor(predictor, expected), expected, "built");
  }
  for (const test::Resolved& resolved : the_case.resolved()) {
    CheckResolved(*report, resolved, "built");
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, Recipes, ::testing::ValuesIn(RecipeNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace twinpath::compat
