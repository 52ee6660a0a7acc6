// RE2 expressions from releases, compiled with limits: linear time whatever the
// expression, memory bounded, so that a hostile release costs nothing.

#ifndef TWINPATH_VERDICT_PATTERN_H_
#define TWINPATH_VERDICT_PATTERN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace re2 {
class RE2;
}

namespace twinpath::verdict {

// A compiled expression. Movable; matching is safe from any thread.
class Pattern {
 public:
  // Longest expression taken, in bytes.
  static constexpr size_t kMaxBytes = 4096;

  // Compiles `expression` (RE2 syntax, UTF-8). INVALID_ARGUMENT says what is
  // wrong with it: syntax, length, or too large when compiled.
  static absl::StatusOr<Pattern> Compile(absl::string_view expression);

  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // Returns whether the expression matches somewhere in `text`. Bytes that are
  // not UTF-8 match no character class.
  bool Matches(absl::string_view text) const;

 private:
  explicit Pattern(std::unique_ptr<re2::RE2> expression);

  std::unique_ptr<re2::RE2> expression_;
};

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_PATTERN_H_
