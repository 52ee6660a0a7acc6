// Text for people: safe printing of foreign bytes, nearest names, sizes.

#ifndef TWINPATH_BASE_TEXT_H_
#define TWINPATH_BASE_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace twinpath {

// Returns `bytes` with control characters, escape sequences and invalid UTF-8
// as \xNN, so that it can be printed to a terminal. Line feeds and tabs too,
// unless `keep_lines`.
std::string Printable(absl::string_view bytes, bool keep_lines = false);

// Returns whether `bytes` is valid UTF-8 without surrogates.
bool IsValidUtf8(absl::string_view bytes);

// Returns the candidate nearest to `word` by edit distance, or "" if none is
// near enough to be a likely slip of the pen.
std::string NearestWord(absl::string_view word,
                        const std::vector<std::string>& candidates);

// "541.6 MB" (decimal units).
std::string HumanBytes(uint64_t bytes);

}  // namespace twinpath

#endif  // TWINPATH_BASE_TEXT_H_
