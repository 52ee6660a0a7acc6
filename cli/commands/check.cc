// twinpath check: one program on this host along the paths, no coordinator.

#include <sys/stat.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/digest.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/artifact_files.h"
#include "cli/check_view.h"
#include "cli/commands.h"
#include "cli/host_facts.h"
#include "cli/host_findings.h"
#include "cli/prediction_view.h"
#include "cli/progress.h"
#include "cli/report_view.h"
#include "cli/view_options.h"
#include "compat/conditions.h"
#include "compat/predict.h"
#include "compat/reason.h"
#include "compat/tables.h"
#include "inspect/child.h"
#include "re2/re2.h"
#include "runner/device_watch.h"
#include "runner/paths.h"
#include "runner/sandbox.h"
#include "runner/sequence.h"
#include "trust/entry_rules.h"
#include "verdict/image_loads.h"
#include "verdict/judge.h"

namespace twinpath::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void OnSignal(int number) { interrupted = number; }

google::protobuf::Timestamp Stamp(absl::Time time) {
  google::protobuf::Timestamp out;
  out.set_seconds(absl::ToUnixSeconds(time));
  return out;
}

absl::StatusOr<v1::PathRule> ParseRule(absl::string_view word) {
  if (word == "required") return v1::PATH_RULE_REQUIRED;
  if (word == "optional") return v1::PATH_RULE_OPTIONAL;
  if (word == "skip") return v1::PATH_RULE_SKIPPED;
  return absl::InvalidArgumentError(
      absl::StrCat("path rule \"", Printable(word),
                   "\": expected required, optional or skip"));
}

absl::Status SetTimeout(absl::string_view text, absl::string_view flag,
                        google::protobuf::Duration* to) {
  absl::Duration value;
  if (!absl::ParseDuration(text, &value) || value < absl::Seconds(1) ||
      value > absl::Hours(720)) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " \"", Printable(text), "\": expected 1s to 720h, such as 90s"));
  }
  to->set_seconds(absl::ToInt64Seconds(value));
  return absl::OkStatus();
}

absl::StatusOr<v1::SweepSpec> MakeSpec(const CheckOptions& options,
                                       const v1::Artifact& artifact) {
  v1::SweepSpec spec;
  spec.set_name(artifact.name());
  v1::Policy& policy = *spec.mutable_policy();
  TWINPATH_ASSIGN_OR_RETURN(const v1::PathRule native,
                            ParseRule(options.native));
  TWINPATH_ASSIGN_OR_RETURN(const v1::PathRule jit, ParseRule(options.ptx_jit));
  TWINPATH_ASSIGN_OR_RETURN(const v1::PathRule plain, ParseRule(options.plain));
  policy.set_native(native);
  policy.set_ptx_jit(jit);
  policy.set_plain(plain);
  policy.set_strict(options.strict);
  *spec.mutable_release()->mutable_artifact() = artifact;
  v1::Entry& entry = *spec.mutable_release()->add_entries();
  entry.set_name(options.images ? "images" : "check");
  if (options.images) {
    entry.set_kind(v1::ENTRY_KIND_IMAGES);
  } else if (!options.oci_image.empty()) {
    if (!trust::IsOciDigest(options.oci_image)) {
      return absl::InvalidArgumentError(
          "--oci-image: expected sha256: and 64 lower-case hexadecimal digits; "
          "twinpath inspect FILE names the images of a file");
    }
    if (options.arguments.empty()) {
      return absl::InvalidArgumentError(
          "--oci-image: needs the command behind --, such as -- app");
    }
    entry.set_kind(v1::ENTRY_KIND_OCI);
    entry.set_oci_image(options.oci_image);
  } else {
    entry.add_command(std::string(BaseName(options.files[0])));
  }
  for (const std::string& argument : options.arguments) {
    entry.add_command(argument);
  }
  if (options.trace == "required") {
    entry.set_trace(v1::TRACE_RULE_REQUIRED);
  } else if (options.trace == "off") {
    if (!options.must_launch.empty()) {
      return absl::InvalidArgumentError(
          "--must-launch needs tracing, and --trace off leaves it out");
    }
    entry.set_trace(v1::TRACE_RULE_OFF);
  }
  for (const std::string& kernel : options.must_launch) {
    entry.add_must_launch(kernel);
  }
  for (const std::string& variable : options.environment) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(variable, absl::MaxSplits('=', 1));
    if (parts.first.size() == variable.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--env \"", Printable(variable), "\": expected NAME=value"));
    }
    v1::EnvironmentVariable& out = *entry.add_environment();
    out.set_name(parts.first);
    out.set_value(parts.second);
  }
  TWINPATH_RETURN_IF_ERROR(runner::CheckEntryEnvironment(entry));
  entry.set_expected_exit(options.expect_exit);
  const int rules = (options.has_expect_output ? 1 : 0) +
                    (options.has_expect_contains ? 1 : 0) +
                    (options.has_expect_pattern ? 1 : 0);
  if (rules > 1) {
    return absl::InvalidArgumentError(
        "--expect-output, --expect-contains and --expect-pattern exclude each "
        "other");
  }
  // An empty text is contained in every output: nothing would be checked.
  if ((options.has_expect_contains && options.expect_contains.empty()) ||
      (options.has_expect_pattern && options.expect_pattern.empty())) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.has_expect_contains ? "--expect-contains" : "--expect-pattern",
        ": the text is empty, so every output would match; is a "
        "variable unset?"));
  }
  if (options.has_expect_output) {
    entry.mutable_expected_output()->set_exact(options.expect_output);
  } else if (options.has_expect_contains) {
    entry.mutable_expected_output()->set_contains(options.expect_contains);
  } else if (options.has_expect_pattern) {
    const RE2 compiled(options.expect_pattern, RE2::Quiet);
    if (!compiled.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--expect-pattern: not a regular expression (RE2): ",
                       compiled.error()));
    }
    entry.mutable_expected_output()->set_pattern(options.expect_pattern);
  }
  TWINPATH_RETURN_IF_ERROR(AddResultRules(options.results, entry));
  if (!options.timeout.empty()) {
    TWINPATH_RETURN_IF_ERROR(
        SetTimeout(options.timeout, "--timeout", entry.mutable_timeout()));
  }
  if (!options.jit_timeout.empty()) {
    TWINPATH_RETURN_IF_ERROR(SetTimeout(options.jit_timeout, "--jit-timeout",
                                        entry.mutable_jit_timeout()));
  }
  return spec;
}

v1::Cell NewCell(const v1::Entry& entry, const v1::HostFacts& facts,
                 const v1::Gpu* gpu) {
  v1::Cell cell;
  cell.set_id(RandomHex(16));
  cell.set_sweep_id("local");
  cell.set_host_id("this-host");
  cell.set_host_name(facts.host_name());
  cell.set_entry(entry.name());
  cell.set_cpu_architecture(facts.cpu_architecture());
  cell.set_driver(DriverText(facts));
  *cell.mutable_conditions_digest() = compat::ConditionsOf(facts).digest();
  if (const auto digest = Sha256::FromHex(compat::ClassOf(facts));
      digest.ok()) {
    cell.mutable_class_digest()->set_sha256(digest->Raw());
  }
  if (gpu != nullptr) {
    cell.set_gpu_uuid(gpu->uuid());
    cell.set_gpu_name(gpu->name());
    *cell.mutable_compute_capability() = gpu->compute_capability();
  }
  return cell;
}

// Why nothing is run although there may be a GPU; empty: it can be.
std::vector<v1::Reason> WhyNotRun(const v1::HostFacts& facts,
                                  bool in_container) {
  std::vector<v1::Reason> reasons = WhyNoGpu(facts);
  if (reasons.empty() && RunnableGpus(facts, true).empty()) {
    reasons.push_back(compat::MakeReason(
        "TP112", "MIG is on and no compute instance exists"));
  }
  // Of podman the run itself says what is missing.
  if (reasons.empty() && !in_container) {
    if (const absl::Status sandbox = runner::CheckSandbox(); !sandbox.ok()) {
      reasons.push_back(compat::MakeReason("TP114", MessageOf(sandbox)));
    }
  }
  return reasons;
}

}  // namespace

int RunCheck(const CheckOptions& options, Console& console) {
  if (options.images && !options.arguments.empty()) {
    return console.Fail(absl::InvalidArgumentError(
        "--images runs no program, so it takes no arguments for one"));
  }
  std::vector<ArtifactSource> sources;
  for (const std::string& file : options.files) {
    sources.push_back(ArtifactSource{file, "", ""});
  }
  struct stat info {};
  if (!options.images && options.oci_image.empty() &&
      stat(options.files[0].c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return console.Fail(
        absl::InvalidArgumentError(absl::StrCat(
            Printable(options.files[0]), ": it is a folder, not a program")),
        "name the program first, then the files it needs beside it");
  }
  const std::string name(BaseName(options.files[0]));
  const absl::StatusOr<LocalArtifact> artifact = ScanLocal(name, sources, "");
  if (!artifact.ok()) return console.Fail(artifact.status());
  absl::StatusOr<v1::SweepSpec> spec = MakeSpec(options, artifact->artifact);
  if (!spec.ok()) return console.Fail(spec.status());
  const absl::StatusOr<const compat::Tables*> tables =
      compat::Tables::Default();
  if (!tables.ok()) return console.Fail(tables.status());

  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);

  v1::Sweep sweep;
  sweep.set_id("local");
  *sweep.mutable_spec() = *spec;
  *sweep.mutable_start_time() = Stamp(absl::Now());
  const v1::Entry& entry = sweep.spec().release().entries(0);
  v1::ArtifactReport report;
  v1::PredictOutput predictions;
  {
    Progress progress(console);
    progress.Show("asking this host's driver");
    const v1::HostFacts facts = CollectLocalFacts();
    progress.Show("reading the files");
    absl::StatusOr<v1::ArtifactReport> inspected = inspect::InspectArtifact(
        artifact->artifact,
        [&](const v1::ArtifactFile& file) -> absl::StatusOr<std::string> {
          return artifact->paths.at(file.name());
        },
        inspect::InspectOptions{});
    if (!inspected.ok()) return console.Fail(inspected.status());
    report = *std::move(inspected);
    const compat::Predictor predictor(report);

    v1::HostPrediction& host = *predictions.add_hosts();
    *host.mutable_facts() = facts;
    const std::vector<v1::Reason> obstacles =
        WhyNotRun(facts, !options.oci_image.empty());
    host.mutable_problems()->Add(obstacles.begin(), obstacles.end());
    const std::vector<const v1::Gpu*> gpus =
        RunnableGpus(facts, options.all_gpus);
    for (const v1::Gpu* gpu : gpus) {
      *host.add_predictions() = predictor.Predict(facts, *gpu, **tables);
    }
    if (!obstacles.empty()) {
      // A cell of its own, so that the verdict names what is missing.
      v1::Cell& cell = *sweep.add_cells() =
          NewCell(entry, facts, gpus.empty() ? nullptr : gpus[0]);
      cell.set_state(v1::CELL_STATE_DONE);
      cell.mutable_result()->set_result_id(RandomHex(16));
      cell.mutable_result()->set_cell_id(cell.id());
      for (const v1::Reason& reason : obstacles) {
        *cell.mutable_result()->add_problems() = reason;
      }
    } else {
      absl::StatusOr<TempDirectory> staged = TempDirectory::Make();
      if (!staged.ok()) return console.Fail(staged.status());
      if (const absl::Status status = StageArtifact(*artifact, staged->path());
          !status.ok()) {
        return console.Fail(status);
      }
      std::vector<v1::Path> paths;
      for (const v1::Path path :
           {v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN}) {
        if (verdict::RuleFor(sweep.spec().policy(), path) !=
            v1::PATH_RULE_SKIPPED) {
          paths.push_back(path);
        }
      }
      // As the rest of this command: a child, no unit.
      const runner::DeviceWatchStarter watch =
          runner::WatchesOf(runner::ProbeOptions());
      for (const v1::Gpu* gpu : gpus) {
        v1::Cell cell = NewCell(entry, facts, gpu);
        if (!options.images) {
          for (v1::PathPrediction& prediction :
               predictor.PredictEntry(entry, facts, *gpu, **tables)) {
            *cell.add_predictions() = std::move(prediction);
          }
        }
        runner::AttemptHooks hooks;
        hooks.before = [&](const v1::RunRequest& request) {
          progress.Show(
              options.images
                  ? absl::StrCat("giving every image to ", gpu->name())
                  : absl::StrCat("running ", runner::PathName(request.path()),
                                 request.jit_proof() ? " again as proof" : "",
                                 request.traced() ? " with tracing" : "",
                                 " on ", gpu->name()));
          return absl::OkStatus();
        };
        hooks.jit_cache_built = facts.driver().jit_cache_built();
        hooks.cancelled = [] { return interrupted != 0; };
        hooks.conditions = [&] { return ConditionsNow(facts); };
        hooks.watch = watch;
        *cell.mutable_result() = runner::RunEntry(entry, paths, {gpu->uuid()},
                                                  staged->path(), hooks);
        if (cell.result().has_image_loads()) {
          verdict::AddImagePredictions(
              report, facts, *gpu, **tables, /*keep_all=*/console.json(),
              *cell.mutable_result()->mutable_image_loads());
        }
        cell.mutable_result()->set_cell_id(cell.id());
        *cell.mutable_result()->mutable_conditions_digest() =
            cell.conditions_digest();
        for (const v1::ArtifactFile& file : artifact->artifact.files()) {
          if (file.type() != v1::FILE_TYPE_REGULAR) continue;
          v1::StagedFile& out = *cell.mutable_result()->add_staged();
          out.set_name(file.name());
          const absl::StatusOr<Sha256> digest =
              Sha256OfFile(JoinPath(staged->path(), file.name()));
          if (digest.ok()) out.mutable_digest()->set_sha256(digest->Raw());
        }
        cell.set_state(v1::CELL_STATE_DONE);
        *sweep.add_cells() = std::move(cell);
      }
    }
  }
  if (interrupted != 0) {
    console.Error("check: interrupted; nothing is judged");
    return 128 + static_cast<int>(interrupted);
  }
  sweep.set_state(v1::SWEEP_STATE_DONE);
  *sweep.mutable_end_time() = Stamp(absl::Now());
  verdict::JudgeSweep(sweep, report);
  const absl::Status saved = SaveReference(options.results, sweep, console);
  if (console.json()) {
    console.PrintJson(sweep);
  } else {
    const ViewOptions view{console.width(), console.color()};
    for (const v1::FileReport& file : report.files()) {
      console.Print(RenderFileSummary(file, view));
    }
    console.Print("\n");
    console.Print(RenderPredictions(predictions, view));
    console.Print("\n");
    console.Print(RenderCheck(sweep, view));
  }
  if (!saved.ok()) {
    // What was asked for is missing, whatever the verdict.
    const ExitCode code = console.Fail(saved);
    const ExitCode verdict = verdict::ExitCodeOf(sweep.verdict());
    return verdict == kExitPass ? code : verdict;
  }
  return verdict::ExitCodeOf(sweep.verdict());
}

}  // namespace twinpath::cli
