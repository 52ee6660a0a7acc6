// twinpath explain as its user runs it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/exit_code.h"
#include "tests/cli/command_test.h"

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using ExplainCommand = CommandTest;

// docs/cli.md: 0 where it knows what was asked, 2 where it does not, 3 for a
// log in which nothing is known.
TEST_F(ExplainCommand, AnUnknownXidIsNotKnown) {
  const Said unknown = Run({"explain", "Xid 9999"});
  EXPECT_EQ(unknown.code, kExitUsage);
  EXPECT_THAT(unknown.out, HasSubstr("docs.nvidia.com/deploy/xid-errors"));
  EXPECT_EQ(Run({"explain", "Xid 79"}).code, kExitPass);
  EXPECT_EQ(Run({"explain", "Xid 79", "Xid 9999"}).code, kExitUsage);
  const std::string line = "NVRM: Xid (PCI:0000:01:00): 9999, pid=1, x\n";
  EXPECT_EQ(Run({"explain", "-"}, {}, line).code, kExitInconclusive);
  // Of a log the rest counts.
  EXPECT_EQ(Run({"explain", "-"}, {},
                line + "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off\n")
                .code,
            kExitPass);
}

TEST_F(ExplainCommand, SuccessIsACode) {
  const Said said = Run({"explain", "0"});
  EXPECT_EQ(said.code, kExitPass);
  EXPECT_THAT(said.out, HasSubstr("cudaSuccess"));
}

// The text of an exec error stands in every program with a CUDA runtime.
TEST_F(ExplainCommand, AProgramIsNoLog) {
  const std::string words = "exec format error: Illegal instruction\n";
  Write("app", absl::StrCat(absl::string_view("\x7f"
                                              "ELF\x02\x01\x01",
                                              7),
                            words));
  const Said elf = Run({"explain", "app"});
  EXPECT_EQ(elf.code, kExitUsage);
  EXPECT_THAT(elf.err,
              AllOf(HasSubstr("no log"), HasSubstr("twinpath inspect app")));
  Write("blob", absl::StrCat(std::string(200, '\x02'), words));
  EXPECT_EQ(Run({"explain", "blob"}).code, kExitUsage);
  Write("wide.log", absl::string_view("\xff\xfe"
                                      "e\0r\0r\0",
                                      8));
  EXPECT_THAT(Run({"explain", "wide.log"}).err, HasSubstr("iconv"));
  // Colour, bells and the hole of a log that was cut while it was written.
  Write("job.log", absl::StrCat(std::string(5000, '\0'),
                                "\x1b[31merror\x1b[0m\a: no kernel image is "
                                "available for execution on the device\n"));
  const Said log = Run({"explain", "job.log"});
  EXPECT_EQ(log.code, kExitPass);
  EXPECT_THAT(log.out, AllOf(HasSubstr("209"), Not(HasSubstr("\x1b"))));
}

}  // namespace
}  // namespace twinpath::cli
