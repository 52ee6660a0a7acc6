#include "cli/coverage_view.h"

#include <re2/re2.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "cli/console.h"

namespace twinpath::cli {
namespace {

std::string Plural(uint64_t count, absl::string_view word) {
  return absl::StrCat(count, " ", word, count == 1 ? "" : "s");
}

absl::string_view GapText(inspect::GapKind kind) {
  return kind == inspect::GapKind::kSpecialised ? "specialised" : "hole";
}

// "8 specialised, 2 holes".
template <typename Gaps>
std::string GapCounts(const Gaps& gaps) {
  uint64_t specialised = 0;
  for (const auto& gap : gaps) {
    specialised += gap.kind == inspect::GapKind::kSpecialised ? 1 : 0;
  }
  const uint64_t holes = gaps.size() - specialised;
  std::vector<std::string> parts;
  if (specialised > 0)
    parts.push_back(absl::StrCat(specialised, " specialised"));
  if (holes > 0) parts.push_back(Plural(holes, "hole"));
  return absl::StrJoin(parts, ", ");
}

std::string Names(const std::vector<inspect::ImageTarget>& targets) {
  std::vector<std::string> names;
  for (const inspect::ImageTarget& target : targets) {
    names.push_back(inspect::TargetName(target));
  }
  return absl::StrJoin(names, " ");
}

// Nothing is registered: the host code chooses what it loads.
bool OnlySelfLoaded(const v1::FileReport& report) {
  return std::all_of(report.fatbins().begin(), report.fatbins().end(),
                     [](const v1::Fatbin& fatbin) {
                       return fatbin.registration() ==
                              v1::REGISTRATION_SELF_LOADED;
                     });
}

}  // namespace

std::string RenderCoverage(const std::vector<inspect::KernelCoverage>& kernels,
                           const v1::FileReport* report,
                           const TargetWords& words,
                           const compat::Tables* tables,
                           const ViewOptions& options) {
  if (kernels.empty()) return "";
  std::string out;
  for (const TargetWord& word : words) {
    const inspect::TargetFits fits = [&](const inspect::ImageTarget& target) {
      return word.Serves(target, tables);
    };
    uint64_t own = 0;
    uint64_t served = 0;
    for (const inspect::KernelCoverage& kernel : kernels) {
      const auto any = [&kernel](const auto& rule) {
        return std::any_of(kernel.targets.begin(), kernel.targets.end(), rule);
      };
      const bool has = any([&word](const inspect::ImageTarget& target) {
        return word.Matches(target);
      });
      own += has ? 1 : 0;
      served += !has && any(fits) ? 1 : 0;
    }
    std::string line = absl::StrCat(word.name(), ": ", Plural(own, "kernel"));
    if (served > 0) {
      absl::StrAppend(&line, ", ", served, " more from other targets");
    }
    const std::vector<inspect::KernelGap> gaps =
        inspect::FindKernelGaps(kernels, fits);
    if (!gaps.empty()) {
      absl::StrAppend(&line, "; nothing for ", gaps.size(), " (",
                      GapCounts(gaps), ")");
    }
    if (report != nullptr) {
      const std::vector<inspect::Gap> fatbins =
          inspect::FindGaps(*report, [&fits](const v1::Image& image) {
            return fits(inspect::TargetOf(image));
          });
      if (!fatbins.empty()) {
        absl::StrAppend(&line, "; nothing in ",
                        Plural(fatbins.size(), "fatbin"), " (",
                        GapCounts(fatbins), ")");
      }
    }
    if (report != nullptr && !gaps.empty() && OnlySelfLoaded(*report)) {
      absl::StrAppend(&line, "; self-loaded code: the file picks by itself");
    }
    absl::StrAppend(&out, "  ", Paint("coverage  ", Style::kDim, options.color),
                    line, "\n");
  }
  return out;
}

std::string RenderKernelGaps(
    const std::vector<inspect::KernelCoverage>& kernels,
    const TargetWords& words, const compat::Tables* tables,
    const re2::RE2* match, const ViewOptions& options) {
  std::string out;
  for (const TargetWord& word : words) {
    std::string lines;
    for (const inspect::KernelGap& gap : inspect::FindKernelGaps(
             kernels, [&](const inspect::ImageTarget& target) {
               return word.Serves(target, tables);
             })) {
      const std::string& name = gap.kernel.name;
      if (match != nullptr &&
          !re2::RE2::PartialMatch(re2::StringPiece(name.data(), name.size()),
                                  *match)) {
        continue;
      }
      absl::StrAppend(&lines, "    ", Printable(name), "  ",
                      Paint(GapText(gap.kind),
                            gap.kind == inspect::GapKind::kHole ? Style::kWarn
                                                                : Style::kDim,
                            options.color),
                      ", has ", Names(gap.kernel.targets), "\n");
    }
    if (!lines.empty()) {
      absl::StrAppend(&out, "  ",
                      Paint(absl::StrCat("nothing for ", word.name()),
                            Style::kDim, options.color),
                      "\n", lines);
    }
  }
  return out;
}

}  // namespace twinpath::cli
