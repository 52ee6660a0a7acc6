// How the command line is taken apart: words behind "--", help, files that look
// like options.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/exit_code.h"
#include "tests/cli/command_test.h"

namespace twinpath::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kPtx[] =
    "//\n// Generated for a test\n//\n\n.version 6.3\n.target sm_75\n"
    ".address_size 64\n\n.visible .entry _Z1kv()\n{\n\tret;\n}\n";

using Arguments = CommandTest;

// As POSIX has it: what stands behind "--" is no option.
TEST_F(Arguments, FilesMayStandBehindTheMark) {
  Write("k.ptx", kPtx);
  Write("-dash.ptx", kPtx);
  for (const std::vector<std::string>& call :
       std::vector<std::vector<std::string>>{
           {"inspect", "--", "k.ptx"},
           {"inspect", "k.ptx", "--", "-dash.ptx"},
           {"inspect", "--kernels", "--", "-dash.ptx"},
           {"--format", "json", "inspect", "--", "-dash.ptx"},
           {"predict", "--host", "h200", "--", "-dash.ptx"}}) {
    const Said said = Run(call);
    EXPECT_EQ(said.code, kExitPass) << call[0] << ": " << said.err;
  }
  EXPECT_THAT(Run({"inspect", "k.ptx", "--", "-dash.ptx"}).out,
              HasSubstr("-dash.ptx: PTX text"));
  const Said dash = Run({"inspect", "-dash.ptx"});
  EXPECT_EQ(dash.code, kExitUsage);
  EXPECT_THAT(dash.err, HasSubstr("twinpath inspect -- -dash.ptx"));
}

TEST_F(Arguments, WordsBehindTheMarkAreTaken) {
  EXPECT_EQ(Run({"tables", "check", "--", "/nosuch"}).code, kExitUsage);
  EXPECT_EQ(Run({"tables", "check", "--"}).code, kExitPass);
  EXPECT_EQ(Run({"version", "--", "x"}).code, kExitUsage);
  EXPECT_EQ(Run({"explain", "--", "TP204"}).code, kExitPass);
  // Of these two they are a program's.
  const Said build = Run({"record", "--", "/bin/sh", "-c", "exit 9", "--"});
  EXPECT_EQ(build.code, 9) << build.err;
  EXPECT_EQ(
      Run({"--format", "json", "record", "--", "/bin/sh", "-c", "exit 8"}).code,
      8);
}

TEST_F(Arguments, HelpIsACommandToo) {
  EXPECT_EQ(Run({"help"}).out, Run({"--help"}).out);
  EXPECT_EQ(Run({"help", "inspect"}).out, Run({"inspect", "--help"}).out);
  EXPECT_EQ(Run({"help", "tables", "show"}).out,
            Run({"tables", "show", "--help"}).out);
  EXPECT_EQ(Run({"help"}).code, kExitPass);
  EXPECT_EQ(Run({"help", "inspct"}).code, kExitUsage);
}

TEST_F(Arguments, StandardInputIsNoFileToInspect) {
  const Said said = Run({"inspect", "-"});
  EXPECT_EQ(said.code, kExitUsage);
  EXPECT_THAT(said.err, HasSubstr("> FILE"));
}

}  // namespace
}  // namespace twinpath::cli
