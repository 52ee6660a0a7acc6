// twinpath predict: what hosts will do with a file, without running it.

#include "compat/predict.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/exit_code.h"
#include "base/status.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/client.h"
#include "cli/client_hint.h"
#include "cli/commands.h"
#include "cli/fleet_hosts.h"
#include "cli/group_view.h"
#include "cli/host_facts.h"
#include "cli/host_findings.h"
#include "cli/inputs.h"
#include "cli/prediction_report.h"
#include "cli/progress.h"
#include "cli/reach_view.h"
#include "cli/table.h"
#include "compat/advice.h"
#include "compat/assume.h"
#include "compat/host_answer.h"
#include "compat/host_groups.h"
#include "compat/profile.h"
#include "compat/reach.h"
#include "compat/reason.h"
#include "compat/tables.h"
#include "inspect/child.h"
#include "twinpath/v1/cli.pb.h"
#include "verdict/path_status.h"

namespace twinpath::cli {
namespace {

// Names of hosts without facts that are shown.
constexpr size_t kMaxHostGroups = 8;

// None where something keeps all of them from being used.
std::vector<const v1::Gpu*> GpusToJudge(const v1::HostFacts& facts) {
  if (!WhyNoGpu(facts).empty()) return {};
  return compat::UsableGpus(facts);
}

v1::Path PathNamed(absl::string_view name) {
  for (const v1::Path path : {v1::PATH_NATIVE, v1::PATH_PTX_JIT}) {
    if (verdict::PathName(path) == name) return path;
  }
  return v1::PATH_PLAIN;
}

// What the answers of required paths come to.
class Tally {
 public:
  explicit Tally(const std::vector<std::string>& require) : require_(require) {}

  template <typename Paths>
  void Add(const Paths& paths) {
    if (paths.empty()) unknown_ = true;
    for (const v1::PathPrediction& path : paths) {
      const std::string name(verdict::PathName(path.path()));
      if (std::find(require_.begin(), require_.end(), name) == require_.end()) {
        continue;
      }
      fails_ |= path.outcome() == v1::OUTCOME_FAILS;
      unknown_ |= path.outcome() != v1::OUTCOME_NATIVE &&
                  path.outcome() != v1::OUTCOME_JIT &&
                  path.outcome() != v1::OUTCOME_FAILS;
    }
  }
  void AddUnknown() { unknown_ = true; }

  ExitCode exit_code() const {
    if (fails_) return kExitFail;
    return unknown_ ? kExitInconclusive : kExitPass;
  }

 private:
  const std::vector<std::string>& require_;
  bool fails_ = false;
  bool unknown_ = false;
};

class PredictCommand {
 public:
  PredictCommand(const PredictOptionsCli& options, Console& console)
      : options_(options), console_(console) {}

  int Run() {
    const absl::StatusOr<const compat::Tables*> tables =
        compat::Tables::Default();
    if (!tables.ok()) return console_.Fail(tables.status());
    tables_ = *tables;
    if (console_.format() == Format::kJunit && !HostsAsked()) {
      console_.Error("predict: JUnit needs hosts; --matrix alone judges none");
      console_.Hint("add --host, --profiles or --fleet");
      return kExitUsage;
    }
    if (!options_.assume.empty() && !HostsAsked()) {
      console_.Error("predict: --assume needs hosts; --matrix alone has none");
      console_.Hint("add --host, --profiles or --fleet");
      return kExitUsage;
    }
    const absl::StatusOr<compat::Assumption> assumption =
        compat::ParseAssumption(options_.assume, *tables_);
    if (!assumption.ok()) return console_.Fail(assumption.status());
    if (!options_.assume.empty()) assumption_ = &*assumption;
    {
      Progress progress(console_);
      if (const int code = LoadHosts(progress)) return code;
      if (const int code = Read(progress)) return code;
      progress.Show("predicting");
      Predict();
    }
    if (!any_code_) console_.Warn("no device code in any of the files");
    Print();
    return Judge();
  }

 private:
  // --matrix alone is about no host.
  bool HostsAsked() const {
    return !options_.matrix || options_.fleet || options_.profiles ||
           !options_.hosts.empty();
  }

  int LoadHosts(Progress& progress) {
    if (!HostsAsked()) return kExitPass;
    std::vector<std::string> names = options_.hosts;
    if (options_.profiles) {
      absl::StatusOr<std::vector<std::string>> all = compat::ListProfiles();
      if (!all.ok()) return console_.Fail(all.status());
      names.insert(names.end(), all->begin(), all->end());
    }
    for (const std::string& name : names) {
      absl::StatusOr<v1::HostFacts> facts = LoadHostFacts(name);
      if (!facts.ok()) {
        return console_.Fail(facts.status(),
                             "twinpath predict --profiles FILE shows every "
                             "profile");
      }
      hosts_.push_back(*std::move(facts));
    }
    if (options_.fleet) return LoadFleet(progress);
    if (names.empty()) {
      progress.Show("asking this host's driver");
      hosts_.push_back(CollectLocalFacts());
    }
    return kExitPass;
  }

  int LoadFleet(Progress& progress) {
    progress.Show("reading the fleet");
    absl::StatusOr<FleetHosts> fleet =
        options_.fleet_folder.empty()
            ? HostsOfCoordinator(CoordinatorAddress(options_.coordinator))
            : HostsInFolder(options_.fleet_folder);
    if (!fleet.ok()) {
      return console_.Fail(fleet.status(), options_.fleet_folder.empty()
                                               ? HintFor(fleet.status())
                                               : "");
    }
    hosts_.insert(hosts_.end(), fleet->hosts.begin(), fleet->hosts.end());
    if (!fleet->without_facts.empty()) {
      incomplete_ = true;
      console_.Warn(absl::StrCat(
          "no facts yet from ",
          Printable(GroupHosts(fleet->without_facts, kMaxHostGroups))));
    }
    if (fleet->disconnected > 0) {
      console_.Say(
          absl::StrCat(fleet->disconnected,
                       fleet->disconnected == 1 ? " host is" : " hosts are",
                       " not connected; the facts are the last they sent"));
    }
    if (hosts_.empty()) {
      console_.Error("predict: no host of the fleet has sent facts");
      console_.Hint("start an agent on a GPU host: twinpath-agent --help");
      return kExitInconclusive;
    }
    return kExitPass;
  }

  int Read(Progress& progress) {
    report_.set_inspector_version(std::string(kVersion));
    const Inputs inputs = ExpandInputs(options_.files);
    for (const InputGroup& group : inputs.groups) {
      if (!group.status.ok()) return console_.Fail(group.status);
      for (const v1::Reason& problem : group.problems) {
        console_.Warn(compat::DescribeReason(problem));
        // Part of a folder could not be listed and may hold anything.
        incomplete_ = true;
      }
    }
    progress.Show(absl::StrCat("reading ", Printable(options_.files.front())));
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
            any_code_ |= says;
            // Scripts and pictures of folders say nothing.
            if (!says && !file.has_elf() && !file.has_carrier()) continue;
            *report_.add_files() = std::move(file);
          }
          return absl::OkStatus();
        });
    return read.ok() ? kExitPass : console_.Fail(read);
  }

  void Predict() {
    const compat::Predictor predictor(report_);
    if (options_.matrix) {
      *output_.mutable_reach() = compat::ReachOf(report_, predictor, *tables_);
    }
    if (hosts_.empty()) return;
    const compat::HostRules rules = {GpusToJudge, WhyNoGpu};
    const compat::FleetPrediction fleet =
        compat::PredictFleet(predictor, hosts_, rules, assumption_, *tables_);
    std::vector<bool> changes(fleet.groups.size());
    for (size_t i = 0; i < fleet.groups.size(); ++i) {
      const compat::GroupedGpus& grouped = fleet.groups[i];
      groups_.push_back(grouped.group);
      if (assumption_ == nullptr) {
        continue;
      }
      after_.push_back(grouped.after);
      const std::vector<v1::PathPrediction> before(
          grouped.group.paths().begin(), grouped.group.paths().end());
      if (compat::SameAnswer(before, grouped.after)) continue;
      changes[i] = true;
      v1::AssumedChange& change = *output_.add_changes();
      *change.mutable_before() = grouped.group;
      change.mutable_after()->Add(grouped.after.begin(), grouped.after.end());
    }
    for (const std::vector<size_t>& groups : fleet.groups_of_host) {
      changed_hosts_ +=
          std::any_of(groups.begin(), groups.end(),
                      [&](size_t group) { return changes[group]; })
              ? 1
              : 0;
    }
    if (options_.fix || options_.fleet || hosts_.size() > 1) {
      if (!options_.matrix) {
        *output_.mutable_reach()->mutable_floor() =
            compat::ReachOf(report_, predictor, *tables_).floor();
      }
      for (const std::string& path : options_.require) {
        *output_.add_advice() = compat::Advise(
            report_, predictor, fleet, hosts_, PathNamed(path), *tables_);
      }
    }
    if (options_.fleet) {
      SortForPeople(&groups_);
      output_.mutable_groups()->Add(groups_.begin(), groups_.end());
    } else if (console_.json()) {
      AddHosts(predictor);
    }
  }

  // Host by host and GPU by GPU, for JSON.
  void AddHosts(const compat::Predictor& predictor) {
    compat::PredictOptions options;
    if (!options_.kernels) options.max_kernels = 0;
    output_.set_kernels_left_out(!options_.kernels);
    for (const v1::HostFacts& facts : hosts_) {
      v1::HostPrediction& host = *output_.add_hosts();
      *host.mutable_facts() = facts;
      const std::vector<v1::Reason> problems = WhyNoGpu(facts);
      host.mutable_problems()->Add(problems.begin(), problems.end());
      for (const v1::Gpu* gpu : GpusToJudge(facts)) {
        *host.add_predictions() =
            predictor.Predict(facts, *gpu, *tables_, options);
      }
      for (v1::HostPath& path : compat::CombineGpus(host.predictions())) {
        *host.add_paths() = std::move(path);
      }
    }
  }

  std::string Subject() const {
    std::string subject = Printable(options_.files.front());
    if (options_.files.size() > 1) {
      absl::StrAppend(&subject, " and ", options_.files.size() - 1, " more");
    }
    return subject;
  }

  void Print() {
    if (console_.json()) {
      console_.PrintJson(output_);
      return;
    }
    if (console_.format() != Format::kTable) {
      ReportInput input;
      input.subject = Subject();
      input.groups = groups_;
      input.advice = {output_.advice().begin(), output_.advice().end()};
      input.changes = {output_.changes().begin(), output_.changes().end()};
      input.changed_hosts = changed_hosts_;
      input.require = options_.require;
      if (options_.matrix) input.reach = &output_.reach();
      console_.Print(console_.format() == Format::kJunit
                         ? RenderJunit(input)
                         : RenderMarkdown(input));
      return;
    }
    GroupViewOptions view;
    view.width = console_.width();
    view.color = console_.color();
    view.details = options_.details;
    std::vector<std::string> parts;
    if (options_.matrix) {
      parts.push_back(RenderReach(output_.reach(), *tables_, view));
    }
    if (assumption_ != nullptr) {
      parts.push_back(RenderChanges(
          {output_.changes().begin(), output_.changes().end()}, changed_hosts_,
          static_cast<uint32_t>(hosts_.size()), view));
    } else if (!groups_.empty()) {
      parts.push_back(RenderGroups(groups_, view));
    }
    for (const v1::Advice& advice : output_.advice()) {
      if (assumption_ != nullptr) continue;
      parts.push_back(RenderAdvice(advice, output_.reach().floor(), view));
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) console_.Print("\n");
      console_.Print(parts[i]);
    }
  }

  int Judge() const {
    Tally tally(options_.require);
    if (assumption_ == nullptr) {
      for (const v1::HostGroup& group : groups_) tally.Add(group.paths());
    }
    for (const auto& paths : after_) tally.Add(paths);
    if (incomplete_) tally.AddUnknown();
    if (!HostsAsked()) return JudgeReach(tally);
    return tally.exit_code();
  }

  // Without hosts: whether anything is served at all.
  int JudgeReach(const Tally& tally) const {
    bool unknown = tally.exit_code() == kExitInconclusive;
    bool code = false;
    for (const v1::GpuReach& gpu : output_.reach().gpus()) {
      for (const v1::ReachCell& cell : gpu.cells()) {
        Tally one(options_.require);
        one.Add(cell.paths());
        if (one.exit_code() == kExitPass) {
          return unknown ? kExitInconclusive : kExitPass;
        }
        code |= one.exit_code() == kExitFail;
      }
    }
    return code && !unknown ? kExitFail : kExitInconclusive;
  }

  const PredictOptionsCli& options_;
  Console& console_;
  const compat::Tables* tables_ = nullptr;
  const compat::Assumption* assumption_ = nullptr;
  std::vector<v1::HostFacts> hosts_;
  v1::ArtifactReport report_;
  bool any_code_ = false;
  // Something was not read or has sent nothing.
  bool incomplete_ = false;
  std::vector<v1::HostGroup> groups_;
  uint32_t changed_hosts_ = 0;
  std::vector<std::vector<v1::PathPrediction>> after_;
  v1::PredictOutput output_;
};

}  // namespace

int RunPredict(const PredictOptionsCli& options, Console& console) {
  return PredictCommand(options, console).Run();
}

}  // namespace twinpath::cli
