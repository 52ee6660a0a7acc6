// One cell of a sweep in a few words: what each path showed. Pure functions;
// thread-safe.

#ifndef TWINPATH_CLI_CELL_VIEW_H_
#define TWINPATH_CLI_CELL_VIEW_H_

#include <string>

#include "cli/console.h"
#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

// What one path of a cell showed, in a word: "ok", a CUDA error number ("209"),
// "exit 3", "timeout", "not jit" (nothing was seen to be compiled), "skipped",
// "unknown". For a simulated cell the model's answer in the same words.
std::string PathWord(const v1::Cell& cell, const v1::Entry& entry,
                     v1::Path path, const v1::Policy& policy);

struct CellView {
  // "native 209 / jit ok"; plain only where it is not what native says.
  std::string text;
  Style style = Style::kPlain;
};

CellView ViewCell(const v1::Cell& cell, const v1::Entry& entry,
                  const v1::Policy& policy);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_CELL_VIEW_H_
