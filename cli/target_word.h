// Targets as people write them on the command line: "sm_90", "sm_90a", "90a",
// "compute_120", "lto_90", "ptx". Names mean exactly what they say: sm_90 is
// not sm_90a. Pure; thread-safe.

#ifndef TWINPATH_CLI_TARGET_WORD_H_
#define TWINPATH_CLI_TARGET_WORD_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compat/tables.h"
#include "inspect/summary.h"

namespace twinpath::cli {

class TargetWord {
 public:
  // INVALID_ARGUMENT says what is accepted.
  static absl::StatusOr<TargetWord> Parse(absl::string_view text);

  // As printed: "sm_90a", "ptx".
  const std::string& name() const { return name_; }
  // Machine code and PTX also where they still have to be linked.
  bool Matches(const inspect::ImageTarget& target) const;
  // Whether code for `target` runs on the GPU this word names: the word's own
  // target, and for machine code and PTX what the driver takes or compiles for
  // it there (compat/target.h). `tables` may be null: then only the own target.
  bool Serves(const inspect::ImageTarget& target,
              const compat::Tables* tables) const;
  // Of the same kind and number, whatever the suffix.
  bool IsNear(const inspect::ImageTarget& target) const;

 private:
  enum class Kind { kSass, kPtx, kLto, kAnyPtx };
  TargetWord() = default;
  bool KindFits(v1::ImageKind kind) const;

  std::string name_;
  Kind kind_ = Kind::kSass;
  uint32_t number_ = 0;
  v1::TargetSuffix suffix_ = v1::TARGET_SUFFIX_NONE;
};

using TargetWords = std::vector<TargetWord>;

// Each of `texts` may be a list with commas. Repeats once. Errors as Parse.
absl::StatusOr<TargetWords> ParseTargetWords(
    const std::vector<std::string>& texts);

// Whether one of them matches; true where there are none.
bool Selects(const TargetWords& words, const inspect::ImageTarget& target);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_TARGET_WORD_H_
