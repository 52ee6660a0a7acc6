#include "cli/coverage_view.h"

#include <re2/re2.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/table.h"

namespace twinpath::cli {
namespace {

std::string Plural(uint64_t count, absl::string_view word) {
  return absl::StrCat(count, " ", word, count == 1 ? "" : "s");
}

absl::string_view GapText(inspect::GapKind kind) {
  return kind == inspect::GapKind::kSpecialised ? "specialised" : "hole";
}

v1::GapKind ToMessage(inspect::GapKind kind) {
  return kind == inspect::GapKind::kSpecialised ? v1::GAP_KIND_SPECIALISED
                                                : v1::GAP_KIND_HOLE;
}

// "8 specialised, 2 holes".
std::string GapCounts(uint64_t specialised, uint64_t holes) {
  std::vector<std::string> parts;
  if (specialised > 0) {
    parts.push_back(absl::StrCat(specialised, " specialised"));
  }
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

// Specialised ones and holes.
std::pair<uint64_t, uint64_t> FatbinGaps(const v1::TargetCoverage& coverage) {
  const auto all = static_cast<uint64_t>(coverage.fatbin_gaps_size());
  const auto by_design = static_cast<uint64_t>(
      std::count_if(coverage.fatbin_gaps().begin(),
                    coverage.fatbin_gaps().end(), [](const v1::Gap& gap) {
                      return gap.kind() == v1::GAP_KIND_SPECIALISED;
                    }));
  return {by_design, all - by_design};
}

std::string Line(const v1::TargetCoverage& coverage,
                 uint64_t fatbins_specialised, uint64_t fatbin_holes,
                 absl::string_view remark, const ViewOptions& options) {
  std::string line = absl::StrCat(coverage.target(), ": ",
                                  Plural(coverage.kernels(), "kernel"));
  if (coverage.served_by_others() > 0) {
    absl::StrAppend(&line, ", ", coverage.served_by_others(),
                    " more from other targets");
  }
  if (const uint64_t gaps = coverage.specialised() + coverage.holes();
      gaps > 0) {
    absl::StrAppend(&line, "; nothing for ", gaps, " (",
                    GapCounts(coverage.specialised(), coverage.holes()), ")");
  }
  if (const uint64_t fatbins = fatbins_specialised + fatbin_holes;
      fatbins > 0) {
    absl::StrAppend(&line, "; nothing in ", Plural(fatbins, "fatbin"), " (",
                    GapCounts(fatbins_specialised, fatbin_holes), ")");
  }
  absl::StrAppend(&line, remark);
  const size_t width = static_cast<size_t>(std::max(options.width, 40));
  return absl::StrCat("  ", Paint("coverage  ", Style::kDim, options.color),
                      Wrap(line, width, 12), "\n");
}

}  // namespace

std::vector<v1::TargetCoverage> CoverageOf(const v1::FileReport& report,
                                           const TargetWords& words,
                                           const compat::Tables* tables) {
  std::vector<v1::TargetCoverage> all;
  if (words.empty()) return all;
  const std::vector<inspect::KernelCoverage> kernels =
      inspect::CoverKernels({&report});
  if (kernels.empty()) return all;
  for (const TargetWord& word : words) {
    v1::TargetCoverage& coverage = all.emplace_back();
    coverage.set_name(report.name());
    coverage.set_target(word.name());
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
    coverage.set_kernels(own);
    coverage.set_served_by_others(served);
    uint64_t specialised = 0;
    uint64_t holes = 0;
    for (const inspect::KernelGap& gap :
         inspect::FindKernelGaps(kernels, fits)) {
      ++(gap.kind == inspect::GapKind::kSpecialised ? specialised : holes);
      v1::KernelGap& told = *coverage.add_kernel_gaps();
      told.set_name(gap.kernel.name);
      told.set_kind(ToMessage(gap.kind));
      for (const inspect::ImageTarget& target : gap.kernel.targets) {
        told.add_targets(inspect::TargetName(target));
      }
    }
    coverage.set_specialised(specialised);
    coverage.set_holes(holes);
    for (const inspect::Gap& gap :
         inspect::FindGaps(report, [&fits](const v1::Image& image) {
           return fits(inspect::TargetOf(image));
         })) {
      v1::Gap& told = *coverage.add_fatbin_gaps();
      told.set_fatbin(gap.fatbin);
      told.set_kind(ToMessage(gap.kind));
    }
    coverage.set_self_loaded(OnlySelfLoaded(report));
  }
  return all;
}

std::string RenderCoverage(const v1::FileReport& report,
                           const TargetWords& words,
                           const compat::Tables* tables,
                           const ViewOptions& options) {
  std::string out;
  for (const v1::TargetCoverage& coverage : CoverageOf(report, words, tables)) {
    const auto [specialised, holes] = FatbinGaps(coverage);
    out += Line(
        coverage, specialised, holes,
        coverage.self_loaded() && coverage.specialised() + coverage.holes() > 0
            ? "; self-loaded code: the file picks by itself"
            : "",
        options);
  }
  return out;
}

std::vector<v1::TargetCoverage> CoverageTotals::Add(
    const v1::FileReport& report) {
  std::vector<v1::TargetCoverage> own = CoverageOf(report, words_, tables_);
  totals_.resize(own.empty() ? totals_.size() : own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    const v1::TargetCoverage& coverage = own[i];
    Total& total = totals_[i];
    v1::TargetCoverage& sum = total.sum;
    sum.set_target(coverage.target());
    sum.set_collection(true);
    sum.set_kernels(sum.kernels() + coverage.kernels());
    sum.set_served_by_others(sum.served_by_others() +
                             coverage.served_by_others());
    sum.set_specialised(sum.specialised() + coverage.specialised());
    sum.set_holes(sum.holes() + coverage.holes());
    const auto [specialised, holes] = FatbinGaps(coverage);
    total.fatbins_specialised += specialised;
    total.fatbin_holes += holes;
    ++total.files;
    if (coverage.kernels() + coverage.served_by_others() == 0) {
      ++total.files_without;
    }
  }
  return own;
}

std::vector<v1::TargetCoverage> CoverageTotals::Messages(
    absl::string_view name) const {
  std::vector<v1::TargetCoverage> all;
  for (const Total& total : totals_) {
    all.push_back(total.sum);
    all.back().set_name(std::string(name));
  }
  return all;
}

std::string CoverageTotals::Render(const ViewOptions& options) const {
  std::string out;
  for (const Total& total : totals_) {
    out += Line(total.sum, total.fatbins_specialised, total.fatbin_holes,
                total.files_without == 0
                    ? ""
                    : absl::StrCat("; ", total.files_without, " of ",
                                   Plural(total.files, "file"),
                                   total.files_without == 1 ? " has" : " have",
                                   " nothing for it"),
                options);
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
