#include "cli/reason_view.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/matrix.h"
#include "cli/table.h"
#include "compat/reason.h"

namespace twinpath::cli {

std::string RenderReasonList(const std::vector<v1::Reason>& reasons,
                             const ViewOptions& options) {
  const size_t width = static_cast<size_t>(std::max(options.width, 48)) - 4;
  std::string out;
  std::vector<std::string> fixes;
  std::vector<std::string> lines;
  for (const v1::Reason& reason : reasons) {
    std::string line = Printable(compat::DescribeReason(reason));
    if (std::find(lines.begin(), lines.end(), line) != lines.end()) continue;
    lines.push_back(line);
    absl::StrAppend(&out, "    ", Wrap(line, width, 10), "\n");
    const std::string fix = Printable(compat::FixOf(reason));
    if (!fix.empty() &&
        std::find(fixes.begin(), fixes.end(), fix) == fixes.end()) {
      fixes.push_back(fix);
    }
  }
  for (const std::string& fix : fixes) {
    absl::StrAppend(&out, "    ",
                    Paint(Wrap(absl::StrCat("fix: ", fix), width, 9),
                          Style::kDim, options.color),
                    "\n");
  }
  return out;
}

std::string HexOf(const v1::Digest& digest) {
  const absl::StatusOr<Sha256> value = Sha256::FromRaw(digest.sha256());
  return value.ok() ? value->Hex() : "-";
}

std::string HexPrefix(const v1::Digest& digest) {
  return HexOf(digest).substr(0, 12);
}

std::string VersionText(const v1::Version& version) {
  if (version.major() == 0 && version.minor() == 0) return "-";
  return absl::StrCat(version.major(), ".", version.minor());
}

}  // namespace twinpath::cli
