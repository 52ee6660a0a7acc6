// What cuobjdump says of a file, beside what was read here. Pure functions;
// thread-safe.

#ifndef TWINPATH_CLI_WITNESS_VIEW_H_
#define TWINPATH_CLI_WITNESS_VIEW_H_

#include <string>

#include "cli/view_options.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::cli {

// "  witness   cuobjdump 13.5.37 lists the same 5 images", what rules explain,
// and the differences. "" where no witness was asked.
std::string RenderWitness(const v1::FileReport& report,
                          const ViewOptions& options);

// The same for a line among many files: "" where it agrees.
std::string RenderWitnessTrouble(const v1::FileReport& report,
                                 const ViewOptions& options);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_WITNESS_VIEW_H_
