#include "cli/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

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

TEST(Table, ColumnsThatWrapLoseNothing) {
  Table table({"NAME", "LIST OF WORDS", "COUNT"});
  table.WrapColumn(1);
  table.AddRow({"a name", "75 80 86 87 89 90 90a 100 100a", "12"});
  table.AddRow({"b", "75", "3"});
  EXPECT_EQ(table.Render(30, false),
            "NAME    LIST OF WORDS    COUNT\n"
            "a name  75 80 86 87 89   12\n"
            "        90 90a 100 100a\n"
            "b       75               3\n");
  // Headers wrap with their column.
  EXPECT_EQ(table.Render(22, false),
            "NAME    LIST OF  COUNT\n"
            "        WORDS\n"
            "a name  75 80    12\n"
            "        86 87\n"
            "        89 90\n"
            "        90a 100\n"
            "        100a\n"
            "b       75       3\n");
  // Wide enough, or without a limit: one line.
  EXPECT_THAT(table.Render(0, false), HasSubstr("90 90a 100 100a  12\n"));
}

TEST(Table, AWordLongerThanItsColumnGoesOverLines) {
  Table table({"A"});
  table.WrapColumn(0);
  table.AddRow({absl::StrCat("    x ", std::string(70, 'y'))});
  const std::string out = table.Render(32, false);
  EXPECT_EQ(std::count(out.begin(), out.end(), 'y'), 70) << out;
  EXPECT_EQ(std::count(out.begin(), out.end(), 'x'), 1) << out;
}

TEST(Table, KeptColumnsAreNeverCut) {
  Table table({"TARGET", "NAME"});
  table.KeepColumn(0);
  table.AddRow({"compute_120a is long", std::string(100, 'x')});
  EXPECT_EQ(table.Render(40, false),
            "TARGET                NAME\n"
            "compute_120a is long  xxxxxxxxxxxxxxxxx…\n");
}

// Widths: Unicode Standard Annex 11 (wide), general category Mn (no column).
TEST(DisplayWidth, CountsColumnsOfATerminal) {
  EXPECT_EQ(DisplayWidth("abc"), 3u);
  EXPECT_EQ(DisplayWidth("äöü…"), 4u);
  EXPECT_EQ(DisplayWidth("日本語.so"), 9u);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1u);
  EXPECT_EQ(Truncate("日本語", 4), "日…");
  Table table({"A", "B"});
  table.AddRow({"日本", "x"});
  table.AddRow({"abcd", "y"});
  EXPECT_EQ(table.Render(80, false), "A     B\n日本  x\nabcd  y\n");
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
