// The spelling of GPU code targets: "sm_121", "compute_90a", "lto_100f". One
// place, so that reports, predictions and messages never disagree.

#ifndef TWINPATH_BASE_TARGET_NAME_H_
#define TWINPATH_BASE_TARGET_NAME_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace twinpath {

// Returns prefix + "_" + number + suffix. `prefix` is "sm", "compute" or "lto";
// `suffix` is 'a', 'f' or 0 for none.
inline std::string FormatTarget(absl::string_view prefix, uint32_t number,
                                char suffix) {
  return absl::StrCat(
      prefix, "_", number,
      absl::string_view(&suffix, suffix == 'a' || suffix == 'f' ? 1 : 0));
}

}  // namespace twinpath

#endif  // TWINPATH_BASE_TARGET_NAME_H_
