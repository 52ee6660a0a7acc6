#include "verdict/pattern.h"

#include <re2/re2.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace twinpath::verdict {

absl::StatusOr<Pattern> Pattern::Compile(absl::string_view expression) {
  if (expression.size() > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the expression has ", expression.size(),
                     " bytes; at most ", kMaxBytes, " are taken"));
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(int64_t{8} << 20);
  auto compiled = std::make_unique<re2::RE2>(
      re2::StringPiece(expression.data(), expression.size()), options);
  if (!compiled->ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the expression is not valid RE2: ", compiled->error()));
  }
  return Pattern(std::move(compiled));
}

Pattern::Pattern(std::unique_ptr<re2::RE2> expression)
    : expression_(std::move(expression)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

bool Pattern::Matches(absl::string_view text) const {
  return re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()),
                                *expression_);
}

}  // namespace twinpath::verdict
