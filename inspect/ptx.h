// Reads what matters from PTX text: version, target, kernels. A lexer, not
// patterns: comments are dropped, strings are atomic, directives need no white
// space between them, and `.entry` counts only at depth 0 and with a body.
// Grammar: NVIDIA, "Parallel Thread Execution ISA", chapters "Syntax" and
// "Directives". Pure; thread-safe.

#ifndef TWINPATH_INSPECT_PTX_H_
#define TWINPATH_INSPECT_PTX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace twinpath::inspect {

struct PtxKernel {
  absl::string_view name;
  // Product of .maxntid or .reqntid.
  std::optional<uint32_t> max_threads;
};

// Most kernels listed of one text; compilers write thousands at most.
inline constexpr size_t kMaxPtxKernels = size_t{1} << 20;

struct PtxModule {
  // `.version`; 0.0 if there is none.
  uint32_t isa_major = 0;
  uint32_t isa_minor = 0;
  // First sm_NN of `.target`; 0 if there is none.
  uint32_t target = 0;
  // 'a', 'f' or 0.
  char suffix = 0;
  // Kernels with a body, in the order of the text.
  std::vector<PtxKernel> kernels;
  // What is wrong with the text ("" if nothing).
  std::string problem;
};

// Parses text up to its end or its first NUL. The views in the result point
// into `text`. With `header_only` it stops behind the first `.target`.
PtxModule ParsePtx(absl::string_view text, bool header_only = false);

// Whether `text` (a file's beginning) is PTX: the first thing behind white
// space and comments is a `.version` directive with a number.
bool LooksLikePtx(absl::string_view text);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_PTX_H_
