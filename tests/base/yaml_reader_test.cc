// YamlReader: values, and one message for each mistake.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_matchers.h"
#include "base/yaml_document.h"

namespace twinpath {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

YamlDocument Parsed(absl::string_view text) {
  absl::StatusOr<YamlDocument> document = YamlDocument::Parse(text, "f.yaml");
  EXPECT_THAT(document, IsOk()) << text;
  if (document.ok()) return *std::move(document);
  return *YamlDocument::Parse("", "f.yaml");
}

// Reads key "v" of "v: <text>" by `read`; "value" or "error: message".
template <typename Read>
std::string ReadValue(absl::string_view text, Read read) {
  YamlDocument document = Parsed(absl::StrCat("v: ", text, "\n"));
  YamlReader value = document.root().Required("v");
  const std::string result = read(value);
  if (document.status().ok()) return result;
  return absl::StrCat("error: ", document.status().message());
}

std::string AsInt(absl::string_view text) {
  return ReadValue(text, [](YamlReader& r) {
    return absl::StrCat(r.Int(std::numeric_limits<int64_t>::min(),
                              std::numeric_limits<int64_t>::max()));
  });
}
std::string AsBool(absl::string_view text) {
  return ReadValue(text, [](YamlReader& r) {
    return std::string(r.Bool() ? "true" : "false");
  });
}
std::string AsDuration(absl::string_view text) {
  return ReadValue(
      text, [](YamlReader& r) { return absl::FormatDuration(r.Duration()); });
}
std::string AsBytes(absl::string_view text) {
  return ReadValue(text, [](YamlReader& r) { return absl::StrCat(r.Bytes()); });
}
std::string AsString(absl::string_view text) {
  return ReadValue(text, [](YamlReader& r) { return r.String(); });
}

TEST(YamlReader, ReadsADocument) {
  YamlDocument document = Parsed(
      "name: demo\n"
      "entries:\n"
      "  - command: [run, \"--fast\"]\n"
      "    timeout: 90s\n"
      "  - command: [walk]\n"
      "env: {A: 1, B: two}\n");
  YamlReader root = document.root();
  EXPECT_EQ(root.Required("name").String(), "demo");
  std::vector<YamlReader> entries = root.Required("entries").Sequence();
  ASSERT_THAT(entries, SizeIs(2));
  EXPECT_EQ(entries[0].Place(), "3:5");
  EXPECT_THAT(entries[0].Required("command").StringSequence(),
              ElementsAre("run", "--fast"));
  EXPECT_EQ(entries[0].Optional("timeout").Duration(), absl::Seconds(90));
  EXPECT_FALSE(entries[1].Optional("timeout").present());
  EXPECT_THAT(entries[1].Required("command").StringSequence(),
              ElementsAre("walk"));
  std::vector<std::pair<std::string, std::string>> variables;
  for (auto& [key, value] : root.Optional("env").Mapping()) {
    variables.emplace_back(key, value.String());
  }
  EXPECT_THAT(variables,
              ElementsAre(std::pair("A", "1"), std::pair("B", "two")));
  for (YamlReader& entry : entries) entry.RejectUnknownKeys();
  root.RejectUnknownKeys();
  EXPECT_THAT(document.status(), IsOk());
}

TEST(YamlReader, ReportsAllMistakesInFileOrder) {
  YamlDocument document = Parsed(
      "naem: demo\n"
      "count: 0777\n"
      "strict: yes\n"
      "entries:\n"
      "  - comand: [run]\n"
      "    timeout: 90\n"
      "  - 17\n"
      "mode: fsat\n"
      "zzz: 1\n");
  YamlReader root = document.root();
  root.Required("name").String();
  root.Optional("mode").Choice({"fast", "slow"});
  root.Optional("strict").Bool();
  root.Optional("count").Int(1, 10);
  for (YamlReader entry : root.Required("entries").Sequence()) {
    entry.Required("command").StringSequence();
    entry.Optional("timeout").Duration();
    entry.RejectUnknownKeys();
  }
  root.RejectUnknownKeys();
  const std::vector<std::string> lines =
      absl::StrSplit(document.status().message(), '\n');
  EXPECT_THAT(
      lines,
      ElementsAre(
          "f.yaml:1:1: name: missing key",
          "f.yaml:1:1: naem: unknown key; did you mean \"name\"?",
          "f.yaml:2:8: count: expected a whole number from 1 to 10 without "
          "leading zeros, got \"0777\"",
          "f.yaml:3:9: strict: expected true or false, got \"yes\"",
          "f.yaml:5:5: entries[0].command: missing key",
          "f.yaml:5:5: entries[0].comand: unknown key; did you mean "
          "\"command\"?",
          "f.yaml:6:14: entries[0].timeout: expected a duration with its unit, "
          "such as 90s, 5m or 1h30m, got \"90\"",
          "f.yaml:7:5: entries[1]: expected a mapping, got \"17\"",
          "f.yaml:8:7: mode: expected one of fast, slow, got \"fsat\"; did you "
          "mean \"fast\"?",
          "f.yaml:9:1: zzz: unknown key"));
}

TEST(YamlReader, StringsAreAsWritten) {
  EXPECT_EQ(AsString("plain text"), "plain text");
  EXPECT_EQ(AsString("yes"), "yes");
  EXPECT_EQ(AsString("0777"), "0777");
  EXPECT_EQ(AsString("1.10"), "1.10");
  EXPECT_EQ(AsString("true"), "true");
  EXPECT_EQ(AsString("\"\""), "");
  EXPECT_EQ(AsString("'null'"), "null");
  EXPECT_EQ(AsString("\"a\\tb\""), "a\tb");
  EXPECT_EQ(AsString("|\n  two\n  lines"), "two\nlines\n");
  EXPECT_EQ(AsString("[a]"), "error: f.yaml:1:4: v: expected text, got a list");
  EXPECT_EQ(AsString("{a: b}"),
            "error: f.yaml:1:4: v: expected text, got a mapping");
  EXPECT_EQ(AsString("null"), "error: f.yaml:1:4: v: has no value");
}

TEST(YamlReader, IntsAreDecimal) {
  EXPECT_EQ(AsInt("0"), "0");
  EXPECT_EQ(AsInt("-5"), "-5");
  EXPECT_EQ(AsInt("9223372036854775807"), "9223372036854775807");
  EXPECT_EQ(AsInt("-9223372036854775808"), "-9223372036854775808");
  for (const char* bad :
       {"0777", "0x10", "0o17", "1_000", "+5", "5.0", "1e3",
        "9223372036854775808", "five", "\"5\"", "5 6", "[5]", "-0777"}) {
    EXPECT_THAT(AsInt(bad), HasSubstr("error: f.yaml:1:4: v: expected a whole"))
        << bad;
  }
  EXPECT_THAT(AsInt("'5'"), HasSubstr("got the quoted text \"5\""));
}

TEST(YamlReader, IntsHaveARange) {
  const auto one_to_ten = [](YamlReader& r) {
    return absl::StrCat(r.Int(1, 10));
  };
  EXPECT_EQ(ReadValue("1", one_to_ten), "1");
  EXPECT_EQ(ReadValue("10", one_to_ten), "10");
  EXPECT_EQ(ReadValue("11", one_to_ten),
            "error: f.yaml:1:4: v: expected a whole number from 1 to 10, got "
            "\"11\"");
  EXPECT_THAT(ReadValue("0", one_to_ten), HasSubstr("from 1 to 10"));
}

TEST(YamlReader, BoolsAreTrueOrFalse) {
  EXPECT_EQ(AsBool("true"), "true");
  EXPECT_EQ(AsBool("false"), "false");
  for (const char* bad : {"yes", "no", "on", "off", "True", "FALSE", "y", "1",
                          "\"true\"", "[]"}) {
    EXPECT_THAT(AsBool(bad), HasSubstr("expected true or false")) << bad;
  }
}

TEST(YamlReader, DurationsHaveUnits) {
  EXPECT_EQ(AsDuration("90s"), "1m30s");
  EXPECT_EQ(AsDuration("5m"), "5m");
  EXPECT_EQ(AsDuration("1h30m"), "1h30m");
  EXPECT_EQ(AsDuration("250ms"), "250ms");
  EXPECT_EQ(AsDuration("2d1h1m1s1ms"), "49h1m1.001s");
  EXPECT_EQ(AsDuration("0s"), "0");
  EXPECT_EQ(AsDuration("\"5m\""), "5m");
  for (const char* bad : {"90", "0", "-5s", "5", "m", "1.5h", "30m1h", "1m1m",
                          "5 m", "5min", "inf", "5us", "36501d",
                          "99999999999999999999s", "\"1s \"", "\"\"", "[5m]"}) {
    EXPECT_THAT(AsDuration(bad), HasSubstr("expected a duration")) << bad;
  }
}

TEST(YamlReader, SizesHaveUnits) {
  EXPECT_EQ(AsBytes("0"), "0");
  EXPECT_EQ(AsBytes("4096"), "4096");
  EXPECT_EQ(AsBytes("64KiB"), "65536");
  EXPECT_EQ(AsBytes("2GiB"), "2147483648");
  EXPECT_EQ(AsBytes("500MB"), "500000000");
  EXPECT_EQ(AsBytes("1 TiB"), "1099511627776");
  EXPECT_EQ(AsBytes("1kB"), "1000");
  EXPECT_EQ(AsBytes("7B"), "7");
  EXPECT_EQ(AsBytes("18446744073709551615"), "18446744073709551615");
  for (const char* bad :
       {"-1", "1.5GiB", "1gb", "1K", "GiB", "0777", "012KiB",
        "18446744073709551616", "99999999999TiB", "1  MB", "{}", "\"\""}) {
    EXPECT_THAT(AsBytes(bad), HasSubstr("expected a size")) << bad;
  }
}

TEST(YamlReader, ChoicesNameTheNearest) {
  const auto choose = [](YamlReader& r) {
    return r.Choice({"native", "ptx-jit", "plain"});
  };
  EXPECT_EQ(ReadValue("ptx-jit", choose), "ptx-jit");
  EXPECT_EQ(ReadValue("ptxjit", choose),
            "error: f.yaml:1:4: v: expected one of native, ptx-jit, plain, got "
            "\"ptxjit\"; did you mean \"ptx-jit\"?");
  EXPECT_EQ(ReadValue("[native]", choose),
            "error: f.yaml:1:4: v: expected one of native, ptx-jit, plain, got "
            "a list");
}

TEST(YamlReader, AScalarIsNoList) {
  YamlDocument document = Parsed("v: run\nw: {a: b}\nx: [a, [b], c]\n");
  EXPECT_THAT(document.root().Required("v").StringSequence(), IsEmpty());
  EXPECT_THAT(document.root().Required("w").Sequence(), IsEmpty());
  EXPECT_THAT(document.root().Required("x").StringSequence(),
              ElementsAre("a", "c"));
  EXPECT_THAT(document.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "f.yaml:1:4: v: expected a list, got \"run\"\n"
                       "f.yaml:2:4: w: expected a list, got a mapping\n"
                       "f.yaml:3:8: x[1]: expected text, got a list"));
}

TEST(YamlReader, AnEmptyItemIsAMistake) {
  YamlDocument document = Parsed("v:\n  - a\n  -\n  - ~\n");
  EXPECT_THAT(document.root().Required("v").StringSequence(), ElementsAre("a"));
  EXPECT_THAT(document.status().message(), HasSubstr("v[1]: has no value"));
  EXPECT_THAT(document.status().message(),
              HasSubstr("f.yaml:4:5: v[2]: has no value"));
}

TEST(YamlReader, AnAbsentNodeReadsAsEmpty) {
  YamlDocument document = Parsed("a: b\nn: ~\n");
  for (YamlReader absent : {document.root().Optional("none"),
                            document.root().Optional("n"), YamlReader()}) {
    EXPECT_FALSE(absent.present());
    EXPECT_EQ(absent.String(), "");
    EXPECT_EQ(absent.Int(1, 2), 0);
    EXPECT_FALSE(absent.Bool());
    EXPECT_EQ(absent.Duration(), absl::ZeroDuration());
    EXPECT_EQ(absent.Bytes(), 0u);
    EXPECT_EQ(absent.Choice({"x"}), "");
    EXPECT_THAT(absent.Sequence(), IsEmpty());
    EXPECT_THAT(absent.Mapping(), IsEmpty());
    EXPECT_THAT(absent.StringSequence(), IsEmpty());
    EXPECT_FALSE(absent.Required("deeper").present());
    EXPECT_FALSE(absent.IsScalar() || absent.IsSequence() ||
                 absent.IsMapping());
    absent.RejectUnknownKeys();
  }
  EXPECT_THAT(document.status(), IsOk());
}

TEST(YamlReader, OneWrongTypeIsOneMistake) {
  YamlDocument document = Parsed("v: text\n");
  YamlReader value = document.root().Required("v");
  value.Required("a");
  value.Required("b");
  value.Mapping();
  value.RejectUnknownKeys();
  EXPECT_THAT(document.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "f.yaml:1:4: v: expected a mapping, got \"text\""));
}

TEST(YamlReader, CallersAddTheirOwnMistakes) {
  YamlDocument document = Parsed("a:\n  b: c\n");
  YamlReader a = document.root().Required("a");
  a.Required("b").Error("no such host");
  a.Optional("absent").Error("needed where b is set");
  YamlReader().Error("goes nowhere");
  EXPECT_THAT(document.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "f.yaml:2:3: a.absent: needed where b is set\n"
                       "f.yaml:2:6: a.b: no such host"));
}

TEST(YamlReader, CountsMistakesBeyondAHundred) {
  std::string text;
  for (int i = 0; i < 250; ++i) absl::StrAppend(&text, "key", i, ": 1\n");
  YamlDocument document = Parsed(text);
  document.root().RejectUnknownKeys();
  const std::vector<std::string> lines =
      absl::StrSplit(document.status().message(), '\n');
  EXPECT_THAT(lines, SizeIs(101));
  EXPECT_EQ(lines.back(), "f.yaml: and 150 more mistakes");
}

TEST(YamlReader, ReadersLiveThroughAMoveOfTheDocument) {
  YamlDocument document = Parsed("a: b\n");
  YamlReader root = document.root();
  const YamlDocument moved = std::move(document);
  root.Required("none");
  EXPECT_THAT(moved.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                       "f.yaml:1:1: none: missing key"));
}

}  // namespace
}  // namespace twinpath
