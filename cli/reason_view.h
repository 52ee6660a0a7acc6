// Reasons, digests, versions and places as lines for people. Pure functions;
// thread-safe.

#ifndef TWINPATH_CLI_REASON_VIEW_H_
#define TWINPATH_CLI_REASON_VIEW_H_

#include <string>
#include <vector>

#include "twinpath/v1/common.pb.h"

namespace twinpath::cli {

struct ViewOptions;

// "    TP205 jit-disabled: native: ... (CUDA error 223)" and one line
// "    fix: ..." for each fix, equal ones once.
std::string RenderReasonList(const std::vector<v1::Reason>& reasons,
                             const ViewOptions& options);

// First 12 hexadecimal characters; "-" for a digest that is none.
std::string HexPrefix(const v1::Digest& digest);
// All 64.
std::string HexOf(const v1::Digest& digest);
// "13.0"; "-" where unset (0.0).
std::string VersionText(const v1::Version& version);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_REASON_VIEW_H_
