// twinpath inspect as its user runs it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "cli/json.h"
#include "tests/cli/command_test.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::string_view kPtx =
    "//\n// Generated for a test\n//\n\n.version 6.3\n.target sm_75\n"
    ".address_size 64\n\n.visible .entry _Z1kv()\n{\n\tret;\n}\n";

class InspectCommand : public CommandTest {
 protected:
  // The problems of the report with this name.
  static std::vector<v1::Reason> ProblemsIn(const std::string& json,
                                            absl::string_view name) {
    v1::ArtifactReport report;
    EXPECT_THAT(FromJson(json, "the output", &report), IsOk());
    for (const v1::FileReport& file : report.files()) {
      if (file.name() == name) {
        return {file.problems().begin(), file.problems().end()};
      }
    }
    ADD_FAILURE() << "no report of " << name << " in " << json;
    return {};
  }
};

TEST_F(InspectCommand, JsonSaysWhatOfAFolderIsTooDeep) {
  std::string deep = "tree";
  ASSERT_EQ(mkdir(Path(deep).c_str(), 0755), 0);
  Write("tree/kernel.ptx", kPtx);
  for (int i = 0; i < 260; ++i) {
    deep += "/d";
    ASSERT_EQ(mkdir(Path(deep).c_str(), 0755), 0);
  }
  const Said said = Run({"inspect", "--format", "json", "tree"});
  EXPECT_EQ(said.code, kExitInconclusive);
  EXPECT_THAT(said.err, HasSubstr("TP232"));
  const std::vector<v1::Reason> problems = ProblemsIn(said.out, "tree");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].code(), "TP232");
  EXPECT_THAT(problems[0].detail(), HasSubstr("tree/d/d"));
}

TEST_F(InspectCommand, WhatMayNotBeReadIsNamedEverywhere) {
  if (geteuid() == 0) GTEST_SKIP() << "needs a user who may not read all";
  ASSERT_EQ(mkdir(Path("tree").c_str(), 0755), 0);
  ASSERT_EQ(mkdir(Path("tree/closed").c_str(), 0), 0);
  Write("tree/kernel.ptx", kPtx);
  Write("tree/secret.so", "x");
  ASSERT_EQ(chmod(Path("tree/secret.so").c_str(), 0), 0);
  const Said json = Run({"inspect", "--format", "json", "tree"});
  EXPECT_EQ(json.code, kExitIdentity);
  EXPECT_THAT(json.err,
              AllOf(HasSubstr("tree/closed"), HasSubstr("tree/secret.so")));
  std::vector<v1::Reason> problems = ProblemsIn(json.out, "tree");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].detail(), HasSubstr("tree/closed"));
  problems = ProblemsIn(json.out, "tree/secret.so");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].code(), "TP232");
  const Said table = Run({"inspect", "tree"});
  EXPECT_THAT(table.out, AllOf(HasSubstr("tree/closed"),
                               HasSubstr("secret.so  "), HasSubstr("TP232")));
  rmdir(Path("tree/closed").c_str());
}

// Stands for NVIDIA's cuobjdump where there is none: it is not to be asked.
TEST_F(InspectCommand, AWitnessThatIsNotAskedIsNoAgreement) {
  Write("cuobjdump", "#!/bin/sh\necho V13.0.88\n");
  ASSERT_EQ(chmod(Path("cuobjdump").c_str(), 0755), 0);
  Write("kernel.ptx", kPtx);
  ASSERT_EQ(mkdir(Path("docs").c_str(), 0755), 0);
  Write("docs/read.me", "text");
  for (const char* const command :
       {"tar cf code.tar kernel.ptx", "tar cf docs.tar docs"}) {
    ASSERT_EQ(
        system(absl::StrCat("cd ", folder_->path(), " && ", command).c_str()),
        0);
  }
  const std::vector<std::string> variables = {
      absl::StrCat("TWINPATH_CUOBJDUMP=", Path("cuobjdump"))};
  const Said table = Run({"inspect", "--witness", "code.tar"}, variables);
  EXPECT_EQ(table.code, kExitInconclusive) << table.err;
  EXPECT_THAT(table.out,
              HasSubstr("no answer: members of packages are not given"));
  const Said json =
      Run({"inspect", "--witness", "--format", "json", "code.tar"}, variables);
  EXPECT_EQ(json.code, kExitInconclusive);
  EXPECT_THAT(json.out, HasSubstr("\"witness\""));
  // A package without code has nothing to compare.
  const Said docs = Run({"inspect", "--witness", "docs.tar"}, variables);
  EXPECT_EQ(docs.code, kExitFail);
  EXPECT_THAT(docs.out, Not(HasSubstr("witness")));
}

}  // namespace
}  // namespace twinpath::cli
