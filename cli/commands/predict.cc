// twinpath predict: what hosts will do with a file, without running it.

#include "compat/predict.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/exit_code.h"
#include "base/status.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/host_facts.h"
#include "cli/host_findings.h"
#include "cli/inputs.h"
#include "cli/prediction_view.h"
#include "cli/progress.h"
#include "compat/profile.h"
#include "compat/reason.h"
#include "compat/tables.h"
#include "inspect/child.h"
#include "twinpath/v1/cli.pb.h"
#include "verdict/path_status.h"

namespace twinpath::cli {
namespace {

absl::StatusOr<std::vector<v1::HostFacts>> Hosts(
    const PredictOptionsCli& options, Progress& progress) {
  std::vector<v1::HostFacts> hosts;
  std::vector<std::string> names = options.hosts;
  if (options.matrix) {
    TWINPATH_ASSIGN_OR_RETURN(std::vector<std::string> all,
                              compat::ListProfiles());
    std::sort(all.begin(), all.end());
    names.insert(names.end(), all.begin(), all.end());
  }
  for (const std::string& name : names) {
    TWINPATH_ASSIGN_OR_RETURN(v1::HostFacts facts, LoadHostFacts(name));
    hosts.push_back(std::move(facts));
  }
  if (names.empty()) {
    progress.Show("asking this host's driver");
    hosts.push_back(CollectLocalFacts());
  }
  return hosts;
}

// 0 where every host runs it on every path in `require`, 1 where one fails,
// else 3.
int ExitCodeFor(const v1::PredictOutput& output,
                const std::vector<std::string>& require) {
  bool fails = false;
  bool unknown = false;
  for (const v1::HostPrediction& host : output.hosts()) {
    unknown |= host.predictions().empty();
    for (const v1::Prediction& prediction : host.predictions()) {
      for (const v1::PathPrediction& path : prediction.paths()) {
        const std::string name(verdict::PathName(path.path()));
        if (std::find(require.begin(), require.end(), name) == require.end()) {
          continue;
        }
        fails |= path.outcome() == v1::OUTCOME_FAILS;
        unknown |= path.outcome() != v1::OUTCOME_NATIVE &&
                   path.outcome() != v1::OUTCOME_JIT &&
                   path.outcome() != v1::OUTCOME_FAILS;
      }
    }
  }
  if (fails) return kExitFail;
  return unknown ? kExitInconclusive : kExitPass;
}

}  // namespace

int RunPredict(const PredictOptionsCli& options, Console& console) {
  const absl::StatusOr<const compat::Tables*> tables =
      compat::Tables::Default();
  if (!tables.ok()) return console.Fail(tables.status());
  v1::PredictOutput output;
  bool any_code = false;
  // Part of a folder could not be listed and may hold anything.
  bool incomplete = false;
  {
    Progress progress(console);
    const absl::StatusOr<std::vector<v1::HostFacts>> hosts =
        Hosts(options, progress);
    if (!hosts.ok()) {
      return console.Fail(hosts.status(),
                          "twinpath predict --matrix FILE shows every profile");
    }
    v1::ArtifactReport report;
    report.set_inspector_version(std::string(kVersion));
    const Inputs inputs = ExpandInputs(options.files);
    for (const InputGroup& group : inputs.groups) {
      if (!group.status.ok()) return console.Fail(group.status);
      for (const v1::Reason& problem : group.problems) {
        console.Warn(compat::DescribeReason(problem));
        incomplete = true;
      }
    }
    if (!options.files.empty()) {
      progress.Show(absl::StrCat("reading ", Printable(options.files.front())));
    }
    const absl::Status read = inspect::InspectFiles(
        inputs.targets, inspect::InspectOptions{},
        [&](const absl::Status& opened, size_t target,
            std::vector<v1::FileReport> files) -> absl::Status {
          TWINPATH_RETURN_IF_ERROR(opened);
          if (target + 1 < inputs.targets.size()) {
            progress.Show(absl::StrCat("reading ", target + 2, " of ",
                                       inputs.targets.size()));
          }
          for (v1::FileReport& file : files) {
            const bool says =
                !file.fatbins().empty() || !file.problems().empty();
            any_code |= says;
            // Scripts and pictures of folders say nothing.
            if (!says && !file.has_elf() && !file.has_carrier()) continue;
            *report.add_files() = std::move(file);
          }
          return absl::OkStatus();
        });
    if (!read.ok()) return console.Fail(read);
    progress.Show("predicting");
    const compat::Predictor predictor(report);
    for (const v1::HostFacts& facts : *hosts) {
      v1::HostPrediction& host = *output.add_hosts();
      *host.mutable_facts() = facts;
      const std::vector<v1::Reason> problems = WhyNoGpu(facts);
      if (!problems.empty()) {
        host.mutable_problems()->Add(problems.begin(), problems.end());
        continue;
      }
      for (const v1::Gpu& gpu : facts.gpus()) {
        // Programs run on its instances, which are in the list themselves.
        if (HasMigInstances(facts, gpu)) continue;
        *host.add_predictions() = predictor.Predict(facts, gpu, **tables);
      }
    }
  }
  if (!any_code) console.Warn("no device code in any of the files");
  if (console.json()) {
    console.PrintJson(output);
  } else {
    console.Print(RenderPredictions(
        output, ViewOptions{console.width(), console.color()}));
  }
  const int code = ExitCodeFor(output, options.require);
  return incomplete && code == kExitPass ? kExitInconclusive : code;
}

}  // namespace twinpath::cli
