// Where results differ: the word, what was expected and what was seen, a row a
// difference. Pure functions; thread-safe.

#ifndef TWINPATH_CLI_DIFFERENCE_VIEW_H_
#define TWINPATH_CLI_DIFFERENCE_VIEW_H_

#include <string>

#include "cli/view_options.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

// Of each cell against what is expected, its own other path and the reference;
// then of hosts against each other, one pair a finding (TP403, TP433). At most
// 20 rows, the rest counted. Empty if there are none.
std::string RenderDifferences(const v1::Sweep& sweep,
                              const ViewOptions& options);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_DIFFERENCE_VIEW_H_
