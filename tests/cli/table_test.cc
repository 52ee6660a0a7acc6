#include "cli/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace twinpath::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(GroupHosts, RunsOfNumbersBecomeRanges) {
  EXPECT_EQ(GroupHosts({"spark-003", "spark-001", "spark-002", "gpu"}),
            "gpu, spark-[001-003]");
  EXPECT_EQ(GroupHosts({"n1", "n2", "n4", "n5", "n9"}), "n[1-2,4-5,9]");
}

TEST(GroupHosts, NumbersThatAreNamesStayNames) {
  EXPECT_EQ(GroupHosts({"h200", "h100"}), "h100, h200");
  EXPECT_EQ(GroupHosts({"h200"}), "h200");
}

TEST(GroupHosts, KeepsSuffixDigitsAndDropsRepeats) {
  EXPECT_EQ(GroupHosts({"a1.lab", "a2.lab", "a1.lab"}), "a[1-2].lab");
  // Another number of digits is another series.
  EXPECT_EQ(GroupHosts({"a1", "a2", "a01", "a02"}), "a[1-2], a[01-02]");
}

TEST(GroupHosts, CutsAfterTheGivenNumberOfGroups) {
  EXPECT_EQ(GroupHosts({"a", "b", "c", "d1", "d2"}, 2), "a, b and 3 more");
}

TEST(GroupHosts, ForeignBytesArePrintable) {
  EXPECT_THAT(GroupHosts({"x\x1b[31m"}), Not(HasSubstr("\x1b")));
}

TEST(Table, AlignsColumnsAndTrimsLineEnds) {
  Table table({"A", "LONG"});
  table.AddRow({"abc", "x"});
  table.AddRow({"d"});
  EXPECT_EQ(table.Render(80, false), "A    LONG\nabc  x\nd\n");
}

TEST(Table, CutsTheWidestColumnToTheWidth) {
  Table table({"NAME", "TEXT"});
  table.AddRow({"short", std::string(100, 'x')});
  const std::string out = table.Render(40, false);
  EXPECT_THAT(out, HasSubstr("short"));
  EXPECT_THAT(out, HasSubstr("x…\n"));
  for (size_t begin = 0; begin < out.size();) {
    const size_t end = out.find('\n', begin);
    EXPECT_LE(DisplayWidth(out.substr(begin, end - begin)), 40u);
    begin = end + 1;
  }
}

TEST(Table, ForeignTextCannotSteerTheTerminal) {
  Table table({"A"});
  table.AddRow({std::string("\x1b]0;title\x07")});
  table.AddNote("note\x1b[2J");
  EXPECT_THAT(table.Render(80, true), Not(HasSubstr("\x1b]")));
  EXPECT_THAT(table.Render(80, false), Not(HasSubstr("\x1b")));
}

TEST(Truncate, CountsCodePoints) {
  EXPECT_EQ(Truncate("äöü", 3), "äöü");
  EXPECT_EQ(Truncate("äöüß", 3), "äö…");
  EXPECT_EQ(Truncate("abc", 0), "");
}

TEST(Wrap, BreaksAtSpacesAndIndents) {
  EXPECT_EQ(Wrap("aa bb cc", 5, 1), "aa\n bb\n cc");
  EXPECT_EQ(Wrap("aa bb cc", 20, 1), "aa bb cc");
  EXPECT_EQ(Wrap("verylongword x", 4, 0), "verylongword\nx");
}

}  // namespace
}  // namespace twinpath::cli
