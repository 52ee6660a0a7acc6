#include "cli/target_word.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "base/target_name.h"
#include "base/text.h"
#include "compat/target.h"

namespace twinpath::cli {

absl::StatusOr<TargetWord> TargetWord::Parse(absl::string_view text) {
  const std::string lower =
      absl::AsciiStrToLower(absl::StripAsciiWhitespace(text));
  TargetWord word;
  if (lower == "ptx") {
    word.kind_ = Kind::kAnyPtx;
    word.name_ = "ptx";
    return word;
  }
  const absl::StatusOr<v1::Target> target = compat::ParseTarget(lower);
  if (!target.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", Printable(text),
        "\" is no target; expected one such as sm_90a, compute_120 or ptx"));
  }
  absl::string_view prefix = "sm";
  if (absl::StartsWith(lower, "compute_")) {
    word.kind_ = Kind::kPtx;
    prefix = "compute";
  } else if (absl::StartsWith(lower, "lto_")) {
    word.kind_ = Kind::kLto;
    prefix = "lto";
  }
  word.number_ = target->number();
  word.suffix_ = target->suffix();
  const char letter = word.suffix_ == v1::TARGET_SUFFIX_ARCH     ? 'a'
                      : word.suffix_ == v1::TARGET_SUFFIX_FAMILY ? 'f'
                                                                 : '\0';
  word.name_ = FormatTarget(prefix, word.number_, letter);
  return word;
}

bool TargetWord::KindFits(v1::ImageKind kind) const {
  switch (kind_) {
    case Kind::kSass:
      return kind == v1::IMAGE_KIND_SASS ||
             kind == v1::IMAGE_KIND_RELOCATABLE_SASS;
    case Kind::kPtx:
    case Kind::kAnyPtx:
      return kind == v1::IMAGE_KIND_PTX ||
             kind == v1::IMAGE_KIND_RELOCATABLE_PTX;
    case Kind::kLto:
      return kind == v1::IMAGE_KIND_LTO_IR;
  }
  return false;
}

bool TargetWord::Matches(const inspect::ImageTarget& target) const {
  if (!KindFits(target.kind)) return false;
  return kind_ == Kind::kAnyPtx ||
         (target.number == number_ && target.suffix == suffix_);
}

bool TargetWord::Serves(const inspect::ImageTarget& target,
                        const compat::Tables* tables) const {
  if (Matches(target)) return true;
  if (tables == nullptr || (kind_ != Kind::kSass && kind_ != Kind::kPtx)) {
    return false;
  }
  v1::Target code;
  code.set_number(target.number);
  code.set_suffix(target.suffix);
  switch (target.kind) {
    case v1::IMAGE_KIND_SASS:
    case v1::IMAGE_KIND_RELOCATABLE_SASS:
      return kind_ == Kind::kSass &&
             compat::SassFits(code, number_, *tables) == compat::Fit::kYes;
    case v1::IMAGE_KIND_PTX:
    case v1::IMAGE_KIND_RELOCATABLE_PTX:
      return compat::PtxFits(code, number_, *tables) == compat::Fit::kYes;
    default:
      return false;
  }
}

bool TargetWord::IsNear(const inspect::ImageTarget& target) const {
  return kind_ != Kind::kAnyPtx && KindFits(target.kind) &&
         target.number == number_;
}

absl::StatusOr<TargetWords> ParseTargetWords(
    const std::vector<std::string>& texts) {
  TargetWords words;
  for (const std::string& text : texts) {
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      TWINPATH_ASSIGN_OR_RETURN(TargetWord word, TargetWord::Parse(part));
      const bool known = std::any_of(
          words.begin(), words.end(),
          [&](const TargetWord& other) { return other.name() == word.name(); });
      if (!known) words.push_back(std::move(word));
    }
  }
  return words;
}

bool Selects(const TargetWords& words, const inspect::ImageTarget& target) {
  return words.empty() ||
         std::any_of(words.begin(), words.end(), [&](const TargetWord& word) {
           return word.Matches(target);
         });
}

}  // namespace twinpath::cli
