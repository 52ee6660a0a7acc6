// The sweep as people read it: a matrix of hosts and entries with the paths in
// each cell, the reasons and fixes of what is not green, findings, missing
// hosts and the gate's word. Everything shown stands in the Sweep message, so
// the JSON says the same.
//
// Pure functions; thread-safe.

#ifndef TWINPATH_CLI_MATRIX_H_
#define TWINPATH_CLI_MATRIX_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cli/console.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

struct ViewOptions {
  int width = 120;
  bool color = false;
  // Every line of a verdict's statement, however many.
  bool whole_statement = false;
};

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

// Hosts x entries. Hosts that show the same are one row. Entries that do not
// fit into the width follow below in a further block.
std::string RenderMatrix(const v1::Sweep& sweep, const ViewOptions& options);

// Reasons and fixes of the cells that did not pass, equal ones once.
std::string RenderReasons(const v1::Sweep& sweep, const ViewOptions& options);

// Findings that are not a cell's own reasons, and missing hosts.
std::string RenderFindings(const v1::Sweep& sweep, const ViewOptions& options);

// The word, the statement, the decisive reasons.
std::string RenderVerdict(const v1::Sweep& sweep, const ViewOptions& options);

// All of the above with a head line.
std::string RenderSweep(const v1::Sweep& sweep, const ViewOptions& options);

// "pass", "fail", "inconclusive", "stale", "not judged".
absl::string_view VerdictWord(v1::VerdictKind kind);
Style VerdictStyle(v1::VerdictKind kind);
// "running", "done", "deadline", "cancelled".
absl::string_view StateWord(v1::SweepState state);

// "cells 12/54 pass 3 fail 4 other 5" for progress.
std::string ProgressLine(const v1::Sweep& sweep);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_MATRIX_H_
