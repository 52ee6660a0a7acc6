// Reasons, digests, versions and places as lines for people. Pure functions;
// thread-safe.

#ifndef TWINPATH_CLI_REASON_VIEW_H_
#define TWINPATH_CLI_REASON_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "twinpath/v1/common.pb.h"

namespace twinpath::cli {

struct ViewOptions;

// "    TP205 jit-disabled: native: ... (CUDA error 223)" and one line
// "    fix: ..." for each fix, equal ones once.
std::string RenderReasonList(const std::vector<v1::Reason>& reasons,
                             const ViewOptions& options);

// One code with the paths it holds for and the particulars met, from many
// cells.
struct PathReason {
  std::string code;
  // CUDA error expected or seen; 0: none.
  uint32_t cuda_error = 0;
  std::vector<std::string> paths;
  // Without the path in front; distinct, in the order met.
  std::vector<std::string> details;
  std::vector<std::string> fixes;
};

// Gathers reasons of one cell: those whose details differ only in the path in
// front ("native: ...", "plain: ...") become one.
std::vector<PathReason> ByPath(const std::vector<v1::Reason>& reasons);
// Adds the details and fixes of equal reasons of another cell.
void AddParticulars(const std::vector<PathReason>& from,
                    std::vector<PathReason>* to);
// "    native, plain: TP201 no-image: ... (and 4 like it)" and the fixes.
std::string RenderPathReasons(const std::vector<PathReason>& reasons,
                              const ViewOptions& options);

// First 12 hexadecimal characters; "-" for a digest that is none.
std::string HexPrefix(const v1::Digest& digest);
// All 64.
std::string HexOf(const v1::Digest& digest);
// "13.0"; "-" where unset (0.0).
std::string VersionText(const v1::Version& version);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_REASON_VIEW_H_
