// What one call of `twinpath inspect` is to read and list, from its options.

#ifndef TWINPATH_CLI_INSPECT_PLAN_H_
#define TWINPATH_CLI_INSPECT_PLAN_H_

#include <re2/re2.h>

#include <memory>
#include <optional>
#include <string>

#include "cli/code_view.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/expect.h"
#include "compat/tables.h"
#include "inspect/inspect.h"

namespace twinpath::cli {

struct InspectPlan {
  // What lists are narrowed to; refers to `match`.
  CodeFilter filter;
  std::unique_ptr<re2::RE2> match;
  // For what --target's GPUs can use; null: without the tables' rules.
  const compat::Tables* tables = nullptr;
  // Of the whole argument, and of each of its files.
  TargetWords expected;
  TargetWords each;
  inspect::InspectOptions how;
  // cuobjdump's path, where it is to be asked.
  std::string cuobjdump;
  bool list_kernels = false;
  bool list_images = false;
};

// Says on `console` which options cannot be and returns nothing then: the call
// is misused.
std::optional<InspectPlan> PlanInspection(const InspectOptionsCli& options,
                                          Console& console);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_INSPECT_PLAN_H_
