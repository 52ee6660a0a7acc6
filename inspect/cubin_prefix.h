// Reads a cubin's target and kernels' names from its first bytes alone, so that
// only these have to be decoded. The section table, which says where everything
// is, stands at a cubin's end; but linkers put section names, symbol names and
// symbols first and in this order, so that their places can be found without
// it. What is found is only taken if it agrees with itself: every kernel's
// symbol has its constant bank among the section names, and the other way
// round. Where anything is odd the caller reads the whole.
//
// Registers and threads stand in .nv.info and .nv.info.NAME, which follow the
// notes. Shared memory is a section's size, which only the table states; but a
// kernel with variables in shared memory has a symbol for that section, so that
// without such a symbol there are none. Layout: docs/formats/device-code.md.
// Pure; thread-safe.

#ifndef TWINPATH_INSPECT_CUBIN_PREFIX_H_
#define TWINPATH_INSPECT_CUBIN_PREFIX_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "inspect/cubin.h"

namespace twinpath::inspect {

enum class PrefixState {
  // The tables may end behind what is there: try again with more.
  kMore,
  // Not laid out like this, or not in agreement: read the whole.
  kUnknown,
  kRead,
};

struct PrefixOptions {
  // List kernels' names. Without it only what the header and notes say.
  bool kernels = true;
  // The target has to be certain, its suffix included: nothing else states it.
  bool target = false;
  // With `kernels`: their registers, shared memory and threads too.
  bool details = false;
};

// How far the search for the tables' beginnings and the way past the symbols
// got, so that both go on there when there is more of the same cubin.
struct PrefixProgress {
  size_t second_names = 0;
  size_t symbols = 0;
  size_t symbols_passed = 0;
};

// Reads the cubin whose first bytes these are into `cubin`, which is only valid
// with kRead. Without `kernels` the notes are read if they are there.
// `progress` is of earlier calls with fewer bytes of the cubin, or new.
PrefixState ReadCubinPrefix(absl::string_view prefix,
                            const PrefixOptions& options,
                            PrefixProgress& progress, Cubin& cubin);
inline PrefixState ReadCubinPrefix(absl::string_view prefix,
                                   const PrefixOptions& options, Cubin& cubin) {
  PrefixProgress progress;
  return ReadCubinPrefix(prefix, options, progress, cubin);
}

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_CUBIN_PREFIX_H_
