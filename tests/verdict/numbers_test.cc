#include "verdict/numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace twinpath::verdict {
namespace {

using ::testing::Eq;
using ::testing::Optional;

constexpr double kInf = std::numeric_limits<double>::infinity();

v1::Tolerance Tolerance(double absolute, double relative = 0,
                        bool nan_equals_nan = false) {
  v1::Tolerance tolerance;
  tolerance.set_absolute(absolute);
  tolerance.set_relative(relative);
  tolerance.set_nan_equals_nan(nan_equals_nan);
  return tolerance;
}

bool Agree(absl::string_view expected, absl::string_view seen,
           const v1::Tolerance& tolerance = {}) {
  return !CompareNumbers(expected, seen, tolerance).has_value();
}

// Values by IEEE 754 and C 6.4.4.2; hexadecimal ones as printf's %a.
TEST(ReadNumber, Numbers) {
  const struct {
    const char* text;
    double value;
  } kCases[] = {
      {"0", 0},        {"-0", -0.0},
      {"42", 42},      {"+7", 7},
      {"-1.5", -1.5},  {"3.", 3},
      {".5", 0.5},     {"-.5e1", -5},
      {"1e-3", 0.001}, {"1E+3", 1000},
      {"0x1.8p3", 12}, {"-0X1p-2", -0.25},
      {"0x.8p0", 0.5}, {"inf", kInf},
      {"+inf", kInf},  {"-Infinity", -kInf},
      {"007", 7},      {"4.9406564584124654e-324", 4.9406564584124654e-324},
      {"1e-999", 0},   {"9007199254740993", 9007199254740992.0},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(ReadNumber(c.text), Optional(c.value)) << c.text;
  }
  for (const char* text : {"nan", "NaN", "-nan", "+NAN"}) {
    const auto value = ReadNumber(text);
    ASSERT_TRUE(value.has_value()) << text;
    EXPECT_TRUE(std::isnan(*value)) << text;
  }
}

TEST(ReadNumber, OtherTexts) {
  for (const char* text : {"",
                           "-",
                           "+",
                           ".",
                           "e",
                           "1e",
                           "1e+",
                           "e5",
                           "--1",
                           "+-1",
                           "-+1",
                           "- 1",
                           " 1",
                           "1 ",
                           "1.2.3",
                           "3.5ms",
                           "1f",
                           "1.0f",
                           "1,5",
                           "1_000",
                           "sm_90",
                           "0x",
                           "0x1f",
                           "0xp3",
                           "0x1p",
                           "1p3",
                           "nan(1)",
                           "infinit",
                           "infinity1",
                           "1e999",
                           "-1e999",
                           "\xC2\xB1"
                           "1",
                           "0b1",
                           "1e5e5",
                           "..5",
                           "5.."}) {
    EXPECT_THAT(ReadNumber(text), Eq(std::nullopt)) << '"' << text << '"';
  }
  EXPECT_THAT(ReadNumber(absl::string_view("1\0", 2)), Eq(std::nullopt));
}

TEST(NumbersAgree, BoundIsInside) {
  // All exact in binary.
  EXPECT_TRUE(NumbersAgree(1, 1.25, Tolerance(0.25)));
  EXPECT_FALSE(NumbersAgree(1, 1.3125, Tolerance(0.25)));
  EXPECT_TRUE(NumbersAgree(8, 10, Tolerance(0, 0.25)));
  EXPECT_FALSE(NumbersAgree(8, 10.5, Tolerance(0, 0.25)));
  // Both parts together.
  EXPECT_TRUE(NumbersAgree(8, 10.5, Tolerance(0.5, 0.25)));
  // Relative to what is expected, not to what was seen.
  EXPECT_FALSE(NumbersAgree(0, 1e-300, Tolerance(0, 1)));
  EXPECT_TRUE(NumbersAgree(1e-300, 0, Tolerance(0, 1)));
}

TEST(NumbersAgree, InfinitiesAndNan) {
  const double nan = std::nan("");
  EXPECT_TRUE(NumbersAgree(kInf, kInf, {}));
  EXPECT_FALSE(NumbersAgree(kInf, -kInf, Tolerance(1e308, 1e308)));
  // Infinity times the relative part must not let everything pass.
  EXPECT_FALSE(NumbersAgree(kInf, 1, Tolerance(0, 0.5)));
  EXPECT_FALSE(NumbersAgree(1, kInf, Tolerance(1e308, 1e308)));
  EXPECT_FALSE(NumbersAgree(nan, nan, Tolerance(1, 1)));
  EXPECT_TRUE(NumbersAgree(nan, -nan, Tolerance(0, 0, true)));
  EXPECT_FALSE(NumbersAgree(nan, 1, Tolerance(1, 1, true)));
  EXPECT_FALSE(NumbersAgree(1, nan, Tolerance(1, 1, true)));
  // Their difference is no number a double holds.
  EXPECT_FALSE(NumbersAgree(1e308, -1e308, Tolerance(1)));
}

TEST(CompareNumbers, WordsAndNumbers) {
  const v1::Tolerance tolerance = Tolerance(1e-3);
  EXPECT_TRUE(Agree("loss 0.5\n", "loss 0.5004\n", tolerance));
  EXPECT_FALSE(Agree("loss 0.5\n", "loss 0.502\n", tolerance));
  EXPECT_FALSE(Agree("loss 0.5", "Loss 0.5", tolerance));
  EXPECT_FALSE(Agree("loss 0.5", "loss 0.5 NaN", tolerance));
  EXPECT_FALSE(Agree("loss 0.5 done", "loss 0.5", tolerance));
  // White space only separates.
  EXPECT_TRUE(Agree("a  1\n\n2", "a 1 2\n", tolerance));
  EXPECT_FALSE(Agree("ab", "a b", tolerance));
  EXPECT_TRUE(Agree("", " \n", tolerance));
}

TEST(CompareNumbers, PunctuationAroundNumbers) {
  const v1::Tolerance tolerance = Tolerance(0.01);
  EXPECT_TRUE(Agree("1.0,", "1.001,", tolerance));
  EXPECT_FALSE(Agree("1.0,", "1.001", tolerance));
  EXPECT_TRUE(Agree("(1.5", "(1.501", tolerance));
  EXPECT_TRUE(Agree("[1.0,2.0]", "[1.001,1.999]", tolerance));
  EXPECT_FALSE(Agree("[1.0,2.0]", "[1.0,2.0,3.0]", tolerance));
  EXPECT_FALSE(Agree("[1.0,2.0]", "(1.0,2.0)", tolerance));
  EXPECT_TRUE(Agree("x=0.25;y:0.5", "x=0.251;y:0.501", tolerance));
  EXPECT_FALSE(Agree("x=0.25", "y=0.25", tolerance));
  EXPECT_TRUE(Agree("99.5%", "99.501%", tolerance));
  EXPECT_TRUE(Agree("The result is 1.5.", "The result is 1.501.", tolerance));
  EXPECT_TRUE(Agree("3. 4", "3.001 4", tolerance));
  EXPECT_FALSE(Agree("1.5.", "1.5", tolerance));
}

// A tolerance must not make other things equal.
// Full stops behind a number, however many.
TEST(CompareNumbers, StopsBehindNumbers) {
  const v1::Tolerance tolerance = Tolerance(0.5);
  EXPECT_TRUE(Agree("done 3.5...", "done 3.2...", tolerance));
  EXPECT_FALSE(Agree("done 3.5..", "done 3.5...", tolerance));
  EXPECT_TRUE(Agree("3.", "3.", tolerance));
  // In a time that does not grow with both lengths multiplied.
  const std::string digits(200'000, '1');
  const std::string stops(400'000, '.');
  EXPECT_TRUE(Agree(digits + stops, digits + stops, tolerance));
}

TEST(CompareNumbers, WordsWithDigitsAreNoNumbers) {
  const v1::Tolerance loose = Tolerance(1000, 1);
  const char* kPairs[][2] = {{"3.5ms", "3.6ms"},
                             {"sm_90", "sm_80"},
                             {"1.2.3", "1.2.4"},
                             {"0x1f", "0x1e"},
                             {"v2", "v3"},
                             {"2026-11-30", "2026-11-29"},
                             {"1e999", "1e998"},
                             {"nan", "1"},
                             {"inf", "1"},
                             {"1", "one"},
                             {"deadbeef", "deadbee0"}};
  for (const auto& pair : kPairs) {
    EXPECT_FALSE(Agree(pair[0], pair[1], loose)) << pair[0];
    EXPECT_FALSE(Agree(pair[1], pair[0], loose)) << pair[0];
  }
  EXPECT_TRUE(Agree("1e999", "1e999", loose));
}

// A double does not tell these apart: 2^53 + 1.
TEST(CompareNumbers, WholeNumbersAreExact) {
  EXPECT_FALSE(Agree("9007199254740993", "9007199254740992"));
  EXPECT_TRUE(Agree("9007199254740993", "+9007199254740993"));
  EXPECT_TRUE(Agree("9007199254740993", "9007199254740992", Tolerance(1)));
  EXPECT_FALSE(
      Agree("-18446744073709551615", "18446744073709551615", Tolerance(1e19)));
  EXPECT_TRUE(Agree("1", "1.0"));
  EXPECT_TRUE(Agree("100", "1e2"));
}

TEST(CompareNumbers, SaysWhereAndWhat) {
  const auto difference = CompareNumbers(
      "step 1\nloss 0.5 ok\n", "step 1\n\nloss 0.7 ok\n", Tolerance(0.1));
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->line, 3u);
  EXPECT_EQ(difference->word, 2u);
  EXPECT_EQ(difference->expected, "0.5");
  EXPECT_EQ(difference->seen, "0.7");
  EXPECT_THAT(difference->expected_number, Optional(0.5));
  EXPECT_THAT(difference->seen_number, Optional(0.7));

  const auto ended = CompareNumbers("a\nb c\n", "a\n", {});
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->line, 2u);
  EXPECT_EQ(ended->word, 1u);
  EXPECT_EQ(ended->expected, "b");
  EXPECT_EQ(ended->seen, "");

  const auto longer =
      CompareNumbers("a", absl::StrCat("a ", std::string(5000, 'x')), {});
  ASSERT_TRUE(longer.has_value());
  EXPECT_EQ(longer->seen.size(), kShownWordBytes);
}

TEST(CompareNumbers, StartsOfTexts) {
  // The last word of a start may be cut in the middle.
  EXPECT_EQ(CompareNumbers("1 2 345", "1 2 3", {}, {.seen = true}),
            std::nullopt);
  EXPECT_EQ(CompareNumbers("1 2 3", "1 2 345", {}, {.expected = true}),
            std::nullopt);
  EXPECT_TRUE(
      CompareNumbers("1 2 345", "1 9 3", {}, {.seen = true}).has_value());
  // What was seen goes on where what is expected has ended.
  EXPECT_TRUE(CompareNumbers("1 2", "1 2 3 4", {}, {.seen = true}).has_value());
}

TEST(CompareBytes, FirstDifference) {
  EXPECT_EQ(CompareBytes("a b", "a b"), std::nullopt);
  const auto word = CompareBytes("x\nfoo bar\n", "x\nfoo baz\n");
  ASSERT_TRUE(word.has_value());
  EXPECT_EQ(word->line, 2u);
  EXPECT_EQ(word->word, 2u);
  EXPECT_EQ(word->expected, "bar");
  EXPECT_EQ(word->seen, "baz");
  const auto blank = CompareBytes("a b", "a  b");
  ASSERT_TRUE(blank.has_value());
  EXPECT_NE(blank->expected, blank->seen);
  const auto ended = CompareBytes("a b", "a");
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(CompareBytes("", "x")->seen, "x");
}

// Texts made of words, numbers and punctuation by chance; the seed is fixed.
class Texts {
 public:
  std::string Make() {
    std::string text;
    const size_t words = random_() % 12;
    for (size_t i = 0; i < words; ++i) {
      absl::StrAppend(&text, Word(), kBlanks[random_() % 4]);
    }
    return text;
  }
  std::string Bytes(size_t most) {
    std::string text;
    const size_t size = random_() % most;
    for (size_t i = 0; i < size; ++i) {
      text.push_back(kBytes[random_() % (sizeof(kBytes) - 1)]);
    }
    return text;
  }
  uint64_t Number() { return random_(); }

 private:
  std::string Word() {
    switch (random_() % 6) {
      case 0:
        return absl::StrCat(random_() % 1000);
      case 1:
        return absl::StrFormat(
            "%.6g", std::ldexp(static_cast<double>(random_() % 4096) - 2048,
                               static_cast<int>(random_() % 64) - 32));
      case 2:
        return absl::StrFormat("%a", static_cast<double>(random_() % 99) / 7);
      case 3:
        return absl::StrCat("(", random_() % 10, ".5,", random_() % 10, "]");
      case 4:
        return kWords[random_() % 6];
      default:
        return Bytes(6);
    }
  }
  static constexpr const char* kBlanks[] = {" ", "\n", "\t", "  "};
  static constexpr const char* kWords[] = {"PASS",  "inf",   "-inf",
                                           "sm_90", "x=1.5", "1.2.3"};
  static constexpr char kBytes[] = "0123456789+-.eExXpPinfa,()%~ \n";
  std::mt19937_64 random_{20261130};
};

TEST(CompareNumbersProperty, ReflexiveForEveryTextWithoutNan) {
  Texts texts;
  for (int i = 0; i < 20000; ++i) {
    const std::string text = texts.Make();
    if (text.find("nan") != std::string::npos) continue;
    EXPECT_TRUE(Agree(text, text)) << text;
    EXPECT_TRUE(Agree(text, text, Tolerance(0.5, 0.5))) << text;
  }
}

TEST(CompareNumbersProperty, SymmetricWhereTheToleranceIsAbsolute) {
  Texts texts;
  int agreed = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string a = texts.Make();
    // Mostly the same text with one number moved.
    std::string b = i % 2 == 0 ? texts.Make() : a;
    if (const size_t at = b.find_first_of("0123456789");
        i % 2 == 1 && at != std::string::npos) {
      b[at] = static_cast<char>('0' + texts.Number() % 10);
    }
    const v1::Tolerance tolerance = Tolerance(static_cast<double>(i % 5));
    EXPECT_EQ(Agree(a, b, tolerance), Agree(b, a, tolerance)) << a << "\n" << b;
    if (Agree(a, b, tolerance)) ++agreed;
  }
  // The cases are of both kinds.
  EXPECT_GT(agreed, 1000);
  EXPECT_LT(agreed, 19000);
}

// Whatever the tolerance, a word that is no number is equal or it is not.
TEST(CompareNumbersProperty, NeverEqualWhereAWordDiffers) {
  Texts texts;
  for (int i = 0; i < 20000; ++i) {
    const std::string before = texts.Make();
    const std::string after = texts.Make();
    const std::string word =
        absl::StrCat("w", texts.Number() % 10, "_", texts.Number() % 10);
    const std::string other = absl::StrCat(word, texts.Number() % 10);
    EXPECT_FALSE(Agree(absl::StrCat(before, " ", word, " ", after),
                       absl::StrCat(before, " ", other, " ", after),
                       Tolerance(1e300, 1e300, true)))
        << before << word << after;
  }
}

// More tolerance never makes texts differ that agreed.
TEST(CompareNumbersProperty, Monotonous) {
  Texts texts;
  for (int i = 0; i < 20000; ++i) {
    const std::string a = texts.Make();
    const std::string b = i % 3 == 0 ? a : texts.Make();
    if (Agree(a, b, Tolerance(0.25, 0.125))) {
      EXPECT_TRUE(Agree(a, b, Tolerance(0.5, 0.25))) << a << "\n" << b;
    }
  }
}

// Bytes of any kind: no crash, and a number is read back from its own print.
TEST(ReadNumberProperty, AnyBytes) {
  Texts texts;
  for (int i = 0; i < 200000; ++i) {
    const std::string text = texts.Bytes(12);
    const auto value = ReadNumber(text);
    if (!value || std::isnan(*value)) continue;
    EXPECT_THAT(ReadNumber(absl::StrFormat("%.17g", *value)), Optional(*value))
        << text;
    EXPECT_THAT(ReadNumber(absl::StrFormat("%a", *value)), Optional(*value))
        << text;
  }
}

}  // namespace
}  // namespace twinpath::verdict
