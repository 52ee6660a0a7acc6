#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/target_name.h"

namespace twinpath {
namespace {

TEST(Printable, KeepsTextOfAllLanguages) {
  EXPECT_EQ(Printable("plain \\ text"), "plain \\ text");
  EXPECT_EQ(Printable("Gr\xc3\xb6\xc3\x9f"
                      "e \xe6\x97\xa5 \xf0\x9f\x98\x80"),
            "Gr\xc3\xb6\xc3\x9f"
            "e \xe6\x97\xa5 \xf0\x9f\x98\x80");
}

TEST(Printable, EscapesWhatMovesATerminal) {
  EXPECT_EQ(Printable("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(Printable(absl::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Printable("a\x7f"), "a\\x7f");
  // U+009B is the control sequence introducer in one character.
  EXPECT_EQ(Printable("\xc2\x9b"
                      "2J"),
            "\\xc2\\x9b"
            "2J");
  // U+202E turns the reading direction (https://trojansource.codes).
  EXPECT_EQ(Printable("\xe2\x80\xae"
                      "x"),
            "\\xe2\\x80\\xaex");
}

TEST(Printable, KeepsLinesOnlyWhenAsked) {
  EXPECT_EQ(Printable("a\n\tb\r"), "a\\x0a\\x09b\\x0d");
  EXPECT_EQ(Printable("a\n\tb\r", /*keep_lines=*/true), "a\n\tb\\x0d");
}

TEST(Printable, EscapesInvalidUtf8ByteByByte) {
  EXPECT_EQ(Printable("a\xff\xfe"), "a\\xff\\xfe");
  EXPECT_EQ(Printable("\xe6\x97"), "\\xe6\\x97");
  EXPECT_EQ(Printable("\xe6\x97z"), "\\xe6\\x97z");
}

// Unicode 15, table 3-7.
TEST(IsValidUtf8, FollowsTheTable) {
  for (const char* good :
       {"", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
        "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80",
        "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsValidUtf8(good)) << Printable(good);
  }
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xc2", "\xe0\x9f\xbf", "\xed\xa0\x80",
        "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xff", "\xc2\xc2"}) {
    EXPECT_FALSE(IsValidUtf8(bad)) << Printable(bad);
  }
}

TEST(NearestWord, FindsSlips) {
  const std::vector<std::string> words = {"command", "timeout", "name",
                                          "ptx-jit"};
  EXPECT_EQ(NearestWord("comand", words), "command");
  EXPECT_EQ(NearestWord("commnad", words), "command");
  EXPECT_EQ(NearestWord("Name", words), "name");
  EXPECT_EQ(NearestWord("time_out", words), "timeout");
  EXPECT_EQ(NearestWord("ptxjit", words), "ptx-jit");
}

TEST(NearestWord, DoesNotGuessWildly) {
  const std::vector<std::string> words = {"command", "timeout", "a"};
  EXPECT_EQ(NearestWord("colour", words), "");
  EXPECT_EQ(NearestWord("b", words), "");
  EXPECT_EQ(NearestWord("", words), "");
  EXPECT_EQ(NearestWord("command", {}), "");
  EXPECT_EQ(NearestWord(std::string(100'000, 'x'), words), "");
  EXPECT_EQ(NearestWord("name", {std::string(100'000, 'x')}), "");
}

TEST(HumanBytes, UsesDecimalUnits) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(1000), "1.0 kB");
  EXPECT_EQ(HumanBytes(541'600'000), "541.6 MB");
  EXPECT_EQ(HumanBytes(999'949), "999.9 kB");
  EXPECT_EQ(HumanBytes(999'950), "1.0 MB");
  EXPECT_EQ(HumanBytes(std::numeric_limits<uint64_t>::max()), "18.4 EB");
}

// Spellings of the nvcc manual, "GPU Feature List".
TEST(FormatTarget, SpellsAsNvccDoes) {
  EXPECT_EQ(FormatTarget("sm", 90, 'a'), "sm_90a");
  EXPECT_EQ(FormatTarget("sm", 120, 0), "sm_120");
  EXPECT_EQ(FormatTarget("compute", 100, 'f'), "compute_100f");
}

}  // namespace
}  // namespace twinpath
