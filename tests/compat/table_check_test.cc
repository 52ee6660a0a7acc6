#include "compat/table_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/compat/fake_host.h"

namespace twinpath::compat {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string SourceTables() {
  return absl::StrCat(std::getenv("TWINPATH_SOURCE_DIR"), "/compat/tables");
}

// The tables with texts replaced, the first occurrence of each.
absl::StatusOr<Tables> Changed(
    const std::string& file,
    const std::vector<std::pair<std::string, std::string>>& changes) {
  auto dir = TempDirectory::Make();
  EXPECT_TRUE(dir.ok());
  for (const char* name : {"gpus.yaml", "drivers.yaml", "toolkits.yaml",
                           "errors.yaml", "messages.yaml"}) {
    auto text = ReadFile(JoinPath(SourceTables(), name), 4 << 20);
    EXPECT_TRUE(text.ok());
    if (file == name) {
      for (const auto& [from, to] : changes) {
        const size_t at = text->find(from);
        EXPECT_NE(at, std::string::npos) << from << " is not in " << file;
        if (at != std::string::npos) text->replace(at, from.size(), to);
      }
    }
    EXPECT_TRUE(WriteFileAtomic(JoinPath(dir->path(), name), *text).ok());
  }
  return Tables::Load(dir->path());
}

std::vector<std::string> Texts(const Tables& tables, ReasonSeverity severity) {
  std::vector<std::string> texts;
  for (const TableFinding& finding : CheckTables(tables)) {
    if (finding.severity != severity) continue;
    texts.push_back(absl::StrCat(finding.place, ": ", finding.text));
  }
  return texts;
}

std::vector<std::string> Errors(const absl::StatusOr<Tables>& tables) {
  EXPECT_TRUE(tables.ok()) << tables.status();
  return tables.ok() ? Texts(*tables, ReasonSeverity::kError)
                     : std::vector<std::string>();
}

TEST(TableCheck, OurOwnTablesContradictNothingAndCiteTheirSources) {
  EXPECT_THAT(Texts(TestTables(), ReasonSeverity::kError), IsEmpty());
  EXPECT_THAT(Texts(TestTables(), ReasonSeverity::kWarning), IsEmpty());
  EXPECT_THAT(TestTables().rows_without_address(), IsEmpty());
  for (const auto& [name, rows] : CountRows(TestTables())) {
    EXPECT_GT(rows, 20u) << name;
  }
}

// 200 and 300 have one text: known, and no mistake.
TEST(TableCheck, EqualTextsAreNoted) {
  EXPECT_THAT(Texts(TestTables(), ReasonSeverity::kNote),
              Contains(HasSubstr("errors.yaml: 300")));
}

TEST(TableCheck, DriverAndToolkitOfOneCudaHaveOnePtxIsa) {
  EXPECT_THAT(Errors(Changed("drivers.yaml",
                             {{"  cuda: \"13.0\"\n  ptx_isa: \"9.0\"",
                               "  cuda: \"13.0\"\n  ptx_isa: \"8.9\""}})),
              Contains(HasSubstr("drivers.yaml: 580: PTX ISA 8.9")));
}

TEST(TableCheck, AGpuAndTheToolkitThatBroughtItAgree) {
  EXPECT_THAT(Errors(Changed("gpus.yaml", {{"  ptx_isa_min: \"7.8\"",
                                            "  ptx_isa_min: \"9.1\""}})),
              Contains(HasSubstr("needs 9.1")));
}

TEST(TableCheck, ASourceWithoutAddressIsNoPublicSource) {
  const auto tables = Changed(
      "errors.yaml",
      {{"  NVERROR_H: \"https://github.com/NVIDIA/open-gpu-kernel-modules",
        "  NVERROR_H: \"open-gpu-kernel-modules"}});
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_FALSE(tables->rows_without_address().empty());
  EXPECT_THAT(Texts(*tables, ReasonSeverity::kWarning),
              Contains(HasSubstr("no source of the row has an address")));
}

// What is newer than this version degrades: it is known to be unknown.
TEST(TableCheck, ErrorsOfANewerToolkitAreTaken) {
  const auto tables = Changed(
      "errors.yaml",
      {{"errors:\n",
        "errors:\n- code: 990\n  driver: CUDA_ERROR_OF_TOMORROW\n  phase: any\n"
        "  process_must_restart: false\n  cause: \"New.\"\n  action: "
        "\"Wait.\"\n"
        "  source: [MEASURED]\n"}});
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_THAT(Texts(*tables, ReasonSeverity::kWarning),
              Contains(HasSubstr("errors.yaml: 990")));
}

TEST(Tables, MistakesInSymptomsAreNamedWithPlace) {
  const auto error = [](const std::string& file, const std::string& from,
                        const std::string& to) {
    return Changed(file, {{from, to}}).status();
  };
  EXPECT_THAT(error("errors.yaml", "  reason: TP313", "  reason: TP999"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"TP999\" is no reason code")));
  EXPECT_THAT(error("errors.yaml", "kind: setup,", "kind: setupp,"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"setupp\" is not under status_kinds")));
  EXPECT_THAT(
      error("errors.yaml", "origin: hardware", "origin: hardwear"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("hardware")));
  EXPECT_THAT(error("errors.yaml", "- code: 2\n", "- code: 1\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("stands in the table twice")));
  EXPECT_THAT(
      error("messages.yaml", "effect: compiler", "effect: compilre"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("compiler")));
  EXPECT_THAT(
      error("messages.yaml", "  text: \"std::bad_alloc\"", "  text: \"a*b\""),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("at least 8 characters")));
}

}  // namespace
}  // namespace twinpath::compat
