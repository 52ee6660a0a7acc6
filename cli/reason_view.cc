#include "cli/reason_view.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/digest.h"
#include "base/reason.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/table.h"
#include "cli/view_options.h"
#include "compat/reason.h"

namespace twinpath::cli {
namespace {

void AddOnce(const std::string& text, std::vector<std::string>* to) {
  if (std::find(to->begin(), to->end(), text) == to->end()) {
    to->push_back(text);
  }
}

// Compiler flags to add, one for each GPU, are one fix.
std::vector<std::string> JoinFlags(const std::vector<std::string>& fixes) {
  std::vector<std::string> out;
  size_t flags = SIZE_MAX;
  for (const std::string& fix : fixes) {
    absl::string_view rest = fix;
    if (!absl::ConsumePrefix(&rest, "add ") ||
        !absl::StartsWith(rest, "-gencode ")) {
      out.push_back(fix);
    } else if (flags == SIZE_MAX) {
      flags = out.size();
      out.push_back(fix);
    } else {
      absl::StrAppend(&out[flags], ", ", rest);
    }
  }
  return out;
}

}  // namespace

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

std::vector<PathReason> ByPath(const std::vector<v1::Reason>& reasons) {
  std::vector<PathReason> out;
  for (const v1::Reason& reason : reasons) {
    std::string detail = reason.detail();
    std::string path;
    for (const absl::string_view name :
         {"native", "ptx-jit proof", "ptx-jit", "plain"}) {
      const std::string prefix = absl::StrCat(name, ": ");
      if (!absl::StartsWith(detail, prefix)) continue;
      path = std::string(name);
      detail = detail.substr(prefix.size());
      break;
    }
    PathReason* known = nullptr;
    for (PathReason& other : out) {
      if (other.code == reason.code() && other.details[0] == detail &&
          other.paths.empty() == path.empty()) {
        known = &other;
      }
    }
    if (known == nullptr) {
      out.push_back(
          PathReason{reason.code(), reason.cuda_error(), {}, {detail}, {}});
      known = &out.back();
    }
    if (!path.empty()) AddOnce(path, &known->paths);
    const std::string fix = compat::FixOf(reason);
    if (!fix.empty()) AddOnce(fix, &known->fixes);
  }
  return out;
}

void AddParticulars(const std::vector<PathReason>& from,
                    std::vector<PathReason>* to) {
  for (size_t i = 0; i < from.size() && i < to->size(); ++i) {
    for (const std::string& detail : from[i].details) {
      AddOnce(detail, &(*to)[i].details);
    }
    for (const std::string& fix : from[i].fixes) AddOnce(fix, &(*to)[i].fixes);
  }
}

std::string RenderPathReasons(const std::vector<PathReason>& reasons,
                              const ViewOptions& options) {
  const size_t width = static_cast<size_t>(std::max(options.width, 48)) - 4;
  std::string out;
  std::vector<std::string> fixes;
  for (const PathReason& reason : reasons) {
    const ReasonInfo* info = FindReason(reason.code);
    std::string line = absl::StrCat(absl::StrJoin(reason.paths, ", "),
                                    reason.paths.empty() ? "" : ": ",
                                    reason.code, info == nullptr ? "" : " ",
                                    info == nullptr ? "" : info->name);
    if (reason.cuda_error != 0) {
      absl::StrAppend(&line, ", CUDA error ", reason.cuda_error);
    }
    absl::StrAppend(&line, ": ", Printable(reason.details[0]));
    if (reason.details.size() > 1) {
      absl::StrAppend(&line, " (and ", reason.details.size() - 1, " like it)");
    }
    absl::StrAppend(&out, "    ", Wrap(line, width, 10), "\n");
    for (const std::string& fix : reason.fixes) AddOnce(fix, &fixes);
  }
  for (const std::string& fix : JoinFlags(fixes)) {
    absl::StrAppend(&out, "    ",
                    Paint(Wrap(absl::StrCat("fix: ", Printable(fix)), width, 9),
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
