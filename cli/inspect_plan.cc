#include "cli/inspect_plan.h"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "base/text.h"
#include "runner/toolkit.h"
#include "runner/witness.h"

namespace twinpath::cli {

std::optional<InspectPlan> PlanInspection(const InspectOptionsCli& options,
                                          Console& console) {
  InspectPlan plan;
  const bool needs_kernels = options.kernels || options.details ||
                             options.demangle || !options.match.empty();
  if (needs_kernels && options.no_kernels) {
    console.Error(
        "--no-kernels excludes --kernels, --details, --demangle and --match");
    return std::nullopt;
  }
  const auto words = [&console](const std::vector<std::string>& texts,
                                absl::string_view option, TargetWords& to) {
    absl::StatusOr<TargetWords> parsed = ParseTargetWords(texts);
    if (!parsed.ok()) {
      console.Error(absl::StrCat(option, ": ", MessageOf(parsed.status())));
      return false;
    }
    to = *std::move(parsed);
    return true;
  };
  if (!words(options.targets, "--target", plan.filter.targets) ||
      !words(options.expect, "--expect", plan.expected) ||
      !words(options.expect_each, "--expect-each", plan.each)) {
    return std::nullopt;
  }
  if (!options.match.empty()) {
    re2::RE2::Options quiet;
    quiet.set_log_errors(false);
    plan.match = std::make_unique<re2::RE2>(options.match, quiet);
    if (!plan.match->ok()) {
      console.Error(absl::StrCat("--match: ", Printable(plan.match->error())));
      return std::nullopt;
    }
    plan.filter.match = plan.match.get();
  }
  if (!plan.filter.targets.empty()) {
    if (const absl::StatusOr<const compat::Tables*> tables =
            compat::Tables::Default();
        tables.ok()) {
      plan.tables = *tables;
    }
  }
  if (options.witness) {
    std::vector<std::string> environment;
    for (const char* name :
         {"PATH", "CUDA_HOME", "CUDA_PATH", "TWINPATH_CUOBJDUMP"}) {
      if (const char* value = std::getenv(name); value != nullptr) {
        environment.push_back(absl::StrCat(name, "=", value));
      }
    }
    const absl::StatusOr<std::string> found = runner::FindCuobjdump(
        runner::FindToolkits("", environment), environment);
    if (!found.ok()) {
      console.Error(absl::StrCat("--witness: ", MessageOf(found.status())));
      return std::nullopt;
    }
    plan.cuobjdump = *found;
  }
  plan.filter.details = options.details;
  plan.filter.demangle = options.demangle;
  // What narrows or widens a list asks for one.
  plan.list_images = options.images || (options.details && !options.kernels);
  plan.list_kernels =
      options.kernels || (options.details && !options.images) ||
      ((options.demangle || plan.match != nullptr) && !plan.list_images);
  plan.how.kernels = !options.no_kernels;
  // Programs get all there is; people wait for what they asked for.
  plan.how.details = console.json() || options.details;
  plan.how.demangle = options.demangle || plan.match != nullptr;
  return plan;
}

}  // namespace twinpath::cli
