// YamlDocument::Parse: what is refused before any value is read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/yaml_document.h"

namespace twinpath {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::Status StatusOfParse(absl::string_view text) {
  return YamlDocument::Parse(text, "f.yaml").status();
}

auto Refuses(absl::string_view message) {
  return StatusIs(absl::StatusCode::kInvalidArgument, std::string(message));
}
auto RefusesContaining(absl::string_view text) {
  return StatusIs(absl::StatusCode::kInvalidArgument,
                  HasSubstr(std::string(text)));
}

TEST(YamlParse, AnEmptyDocumentIsAnEmptyMapping) {
  for (const char* text : {"", "\n", "# comment\n", "---\n", "null\n", "~\n",
                           "---\n...\n", "\xef\xbb\xbf# mark\n"}) {
    absl::StatusOr<YamlDocument> document = YamlDocument::Parse(text, "f.yaml");
    ASSERT_THAT(document, IsOk()) << text;
    EXPECT_TRUE(document->root().IsMapping());
    document->root().Required("name");
    EXPECT_THAT(document->status(), Refuses("f.yaml:1:1: name: missing key"));
  }
}

TEST(YamlParse, SyntaxErrorsHaveAPlace) {
  EXPECT_THAT(
      StatusOfParse("a: 1\nb: [1, 2\n"),
      StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("f.yaml:3:1: ")));
  EXPECT_THAT(
      StatusOfParse("a: 1\n  b: 2\n"),
      StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("f.yaml:2:4: ")));
  EXPECT_THAT(
      StatusOfParse("a: b\n\tc: d\n"),
      StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("f.yaml:2:")));
}

// yaml-cpp 0.7 accepts these when a line feed ends the file.
TEST(YamlParse, RefusesAQuoteThatIsNotClosed) {
  for (const char* text :
       {"a: 'x\n", "a: \"x\n", "a: \"x\\\"\n", "a: \"x\\\n", "a: 'it''s\n",
        "\xef\xbb\xbf"
        "a: 'x\n"}) {
    EXPECT_THAT(StatusOfParse(text),
                Refuses("f.yaml:1:4: the quote is not closed"))
        << text;
  }
  EXPECT_THAT(
      StatusOfParse("k: v\n\"a: b\n"),
      StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("f.yaml:")));
  EXPECT_THAT(StatusOfParse("a: 'it''s'\nb: \"\\\"\\\\\"\nc: |\n  'x\n"),
              IsOk());
  EXPECT_THAT(StatusOfParse("\xef\xbb\xbf"
                            "a: \"x\"\r\nb: 'y'\r\n"),
              IsOk());
}

TEST(YamlParse, NamesEveryDuplicateKey) {
  EXPECT_THAT(StatusOfParse("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n\"a\": 4\n"),
              Refuses("f.yaml:4:3: key \"c\" is given twice; first at 3:3\n"
                      "f.yaml:5:1: key \"a\" is given twice; first at 1:1\n"
                      "f.yaml:6:1: key \"a\" is given twice; first at 1:1"));
}

TEST(YamlParse, RefusesAnchorsAndAliases) {
  EXPECT_THAT(StatusOfParse("a: &x\nb: &y [c]\n"),
              RefusesContaining("f.yaml:2:4: anchors"));
  EXPECT_THAT(StatusOfParse("a: &x 1\nb: *x\n"),
              Refuses("f.yaml:1:4: anchors (&name) are not accepted\n"
                      "f.yaml:2:4: aliases (*name) are not accepted; write the "
                      "value out"));
  EXPECT_THAT(StatusOfParse("a: &x {k: v}\nb:\n  <<: *x\n"),
              RefusesContaining("f.yaml:3:7: aliases"));
  // Nine levels of nine would be 387 million values.
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 9; ++i) {
    absl::StrAppend(&bomb, "a", i, ": &a", i, " [");
    for (int j = 0; j < 9; ++j) {
      absl::StrAppend(&bomb, j > 0 ? "," : "", "*a", i - 1);
    }
    absl::StrAppend(&bomb, "]\n");
  }
  EXPECT_THAT(StatusOfParse(bomb), RefusesContaining("f.yaml:2:10: aliases"));
}

TEST(YamlParse, RefusesTags) {
  EXPECT_THAT(StatusOfParse(
                  "a: !!int 5\nb: !x {c: d}\nc: !!python/object []\nd: ! e\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("f.yaml:1:4: tags are not accepted"),
                             HasSubstr("f.yaml:2:4: tags are not accepted"),
                             HasSubstr("f.yaml:3:4: tags are not accepted"),
                             HasSubstr("f.yaml:4:4: tags are not accepted"))));
}

TEST(YamlParse, RefusesKeysThatAreNoText) {
  EXPECT_THAT(StatusOfParse("? [a, b]\n: 1\n"),
              RefusesContaining("a key must be plain text"));
  EXPECT_THAT(StatusOfParse("? {a: b}\n: 1\n"),
              RefusesContaining("a key must be plain text"));
  EXPECT_THAT(StatusOfParse("~: 1\n"), RefusesContaining("a key is missing"));
}

TEST(YamlParse, RefusesASecondDocument) {
  EXPECT_THAT(StatusOfParse("a: 1\n---\nb: 2\n"),
              RefusesContaining("a second document"));
}

TEST(YamlParse, RefusesControlCharacters) {
  // yaml-cpp 0.7 takes a byte of 4 for the end of the file.
  EXPECT_THAT(StatusOfParse("a: 1\nb\x04: 2\n"),
              Refuses("f.yaml:2:2: control character \\x04"));
  EXPECT_THAT(StatusOfParse(absl::string_view("a: \0\n", 5)),
              Refuses("f.yaml:1:4: control character \\x00"));
  EXPECT_THAT(StatusOfParse("a: \x1b[2J\n"), RefusesContaining("\\x1b"));
  EXPECT_THAT(StatusOfParse("a: \"\\0\"\n"), RefusesContaining("NUL"));
  EXPECT_THAT(StatusOfParse("a: 1\r\nb: 2\r\n"), IsOk());
}

TEST(YamlParse, RefusesWhatIsNotUtf8) {
  EXPECT_THAT(StatusOfParse("a: 1\nb: \xff\n"),
              Refuses("f.yaml:2:1: the line is not valid UTF-8"));
  EXPECT_THAT(StatusOfParse("\xff\xfe"), RefusesContaining("UTF-8"));
  EXPECT_THAT(StatusOfParse("a: Gr\xc3\xb6\xc3\x9f\n"), IsOk());
}

TEST(YamlParse, BoundsTheDepth) {
  const auto nested = [](size_t levels) {
    return absl::StrCat(std::string(levels, '['), std::string(levels, ']'));
  };
  EXPECT_THAT(StatusOfParse(nested(64)), IsOk());
  EXPECT_THAT(StatusOfParse(nested(65)),
              Refuses("f.yaml:1:65: more than 64 levels"));
  EXPECT_THAT(StatusOfParse(std::string(1'000'000, '[')),
              ::testing::Not(IsOk()));
  std::string keys;
  for (int i = 0; i < 100'000; ++i) keys += "? ";
  EXPECT_THAT(StatusOfParse(keys), ::testing::Not(IsOk()));
  std::string items;
  for (int i = 0; i < 100'000; ++i) items += "- ";
  EXPECT_THAT(StatusOfParse(items), RefusesContaining("more than 64 levels"));
}

TEST(YamlParse, BoundsTheNumberOfValues) {
  std::string text = "[";
  for (int i = 0; i < 199'999; ++i) text += "x,";
  EXPECT_THAT(StatusOfParse(text + "]"), IsOk());
  EXPECT_THAT(StatusOfParse(text + "x]"),
              RefusesContaining("more than 200000 values"));
}

TEST(YamlParse, BoundsTheSize) {
  std::string text(8 << 20, '#');
  EXPECT_THAT(StatusOfParse(text), IsOk());
  EXPECT_THAT(StatusOfParse(text + "#"),
              RefusesContaining("f.yaml:1:1: the file is larger than"));
}

TEST(YamlParse, MessagesAreShortAndPrintable) {
  const std::string key(100'000, 'k');
  const absl::Status status = StatusOfParse(key + ": 1\n" + key + ": 2\n");
  EXPECT_LT(status.message().size(), 300u);
  absl::StatusOr<YamlDocument> document =
      YamlDocument::Parse("\"\\e[2J\": 1\n", "\x1b.yaml");
  ASSERT_THAT(document, IsOk());
  document->root().RejectUnknownKeys();
  EXPECT_THAT(document->status(),
              Refuses("\\x1b.yaml:1:1: \\x1b[2J: unknown key"));
}

TEST(YamlParse, LoadsAFile) {
  absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const std::string path = JoinPath(folder->path(), "x.yaml");
  EXPECT_THAT(YamlDocument::Load(path), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_THAT(WriteFileAtomic(path, "a: b\n"), IsOk());
  absl::StatusOr<YamlDocument> document = YamlDocument::Load(path);
  ASSERT_THAT(document, IsOk());
  EXPECT_EQ(document->root().Required("a").String(), "b");
  EXPECT_THAT(
      YamlDocument::Load(folder->path()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is a folder")));
}

// Whatever is given, the parser answers: damaged copies of a good document,
// the same on every run.
TEST(YamlParse, AnswersDamagedInput) {
  const std::string good =
      "# comment\nname: \"x\\n\"\nlist: [1, {a: b}, 'c']\nblock: |\n  text\n"
      "fold: >-\n  more\n  text\nmap:\n  - k: &a v\n  - ? q\n    : r\n--- \n";
  const std::string specials = ":-?[]{},#&*!|>'\"%@`\n \t\\~<=.";
  std::mt19937 random(1);  // NOLINT: a fixed seed on purpose.
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    const size_t edits = 1 + random() % 6;
    for (size_t i = 0; i < edits && !text.empty(); ++i) {
      const size_t at = random() % text.size();
      const char special = specials[random() % specials.size()];
      switch (random() % 4) {
        case 0:
          text.erase(at, 1 + random() % 8);
          break;
        case 1:
          text[at] = special;
          break;
        case 2:
          text.insert(at, 1 + random() % 3, special);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 16));
          break;
      }
    }
    absl::StatusOr<YamlDocument> document = YamlDocument::Parse(text, "f");
    if (!document.ok()) {
      EXPECT_THAT(
          document.status(),
          StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("f:")));
      continue;
    }
    document->root().RejectUnknownKeys();
    EXPECT_LT(document->status().message().size(), 100'000u);
  }
}

}  // namespace
}  // namespace twinpath
