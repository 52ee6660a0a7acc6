// Compares two texts word by word, numbers within a tolerance: how the output
// of numerical programs is judged and compared. Pure functions; thread-safe.
//
// Words are separated by white space, of which line ends are a part: columns
// move when a number has a digit more. Inside a word the characters
//
//     , ; : = ( ) [ ] { } < > | " ' % ~
//
// stand for themselves and separate pieces, so "loss=0.25," and "[1.0,2.0]"
// hold numbers. A piece that as a whole is a number is compared as one; every
// other piece byte by byte: "3.5ms", "sm_90", "1.2.3" and "0x1f" are no
// numbers. A full stop behind a number ("is 1.5.") is not part of it.

#ifndef TWINPATH_VERDICT_NUMBERS_H_
#define TWINPATH_VERDICT_NUMBERS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "twinpath/v1/release.pb.h"

namespace twinpath::verdict {

// Reads `text` as a number, all of it: decimal with sign, fraction and
// exponent ("-1.5e-3", "3.", ".5", "+7"), hexadecimal with its binary exponent
// ("0x1.8p3", as %a prints it; without exponent it may be a checksum and is no
// number), "inf", "infinity", "nan" in any case. No locale takes part. Nothing
// for any other text and for what a double cannot hold (1e999); what is too
// small for one reads as zero.
std::optional<double> ReadNumber(absl::string_view text);

// Whether |seen - expected| <= absolute + relative * |expected|. An infinity
// equals that of its sign and nothing else; a NaN another one if the tolerance
// says so, and nothing else.
bool NumbersAgree(double expected, double seen, const v1::Tolerance& tolerance);

// The pieces of all words of the text, in order. They point into it.
std::vector<absl::string_view> PiecesOf(absl::string_view text);

// The first place where two texts do not agree.
struct WordDifference {
  // Line and word in it, both from 1: of the text that was seen, or where it
  // ended too early, of the expected one.
  size_t line = 0;
  size_t word = 0;
  // The words, at most kShownWordBytes of each. Empty: the text had ended.
  std::string expected;
  std::string seen;
  // Where the difference is one of two numbers: those.
  std::optional<double> expected_number;
  std::optional<double> seen_number;
};

inline constexpr size_t kShownWordBytes = 120;

// Which texts are only the start of one: that such a one ends early is no
// difference, and its last word, which may be cut, is not looked at.
struct TextStarts {
  bool expected = false;
  bool seen = false;
};

// Returns the first difference, or nothing if the texts agree.
std::optional<WordDifference> CompareNumbers(absl::string_view expected,
                                             absl::string_view seen,
                                             const v1::Tolerance& tolerance,
                                             const TextStarts& starts = {});

// Returns the first difference of two texts that are compared byte for byte,
// with the words around it; nothing if they are equal.
std::optional<WordDifference> CompareBytes(absl::string_view expected,
                                           absl::string_view seen);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_NUMBERS_H_
