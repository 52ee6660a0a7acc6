// twinpath check --toolchain: whether the toolkits of this host build what its
// GPUs run.

#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/host_facts.h"
#include "cli/progress.h"
#include "cli/toolchain_view.h"
#include "cli/view_options.h"
#include "compat/reason.h"
#include "compat/target.h"
#include "runner/paths.h"
#include "runner/run.h"
#include "runner/sandbox.h"
#include "runner/toolchain.h"
#include "twinpath/v1/cli.pb.h"
#include "verdict/judge.h"
#include "verdict/toolchain.h"

namespace twinpath::cli {
namespace {

// What a run may take beyond its entry's limit.
constexpr absl::Duration kOverhead = absl::Seconds(60);

volatile std::sig_atomic_t interrupted = 0;

void OnSignal(int number) { interrupted = number; }

std::vector<std::string> ProcessEnvironment() {
  std::vector<std::string> variables;
  for (const char* name : {"PATH", "CUDA_HOME", "CUDA_PATH"}) {
    if (const char* value = std::getenv(name); value != nullptr) {
      variables.push_back(absl::StrCat(name, "=", value));
    }
  }
  return variables;
}

// The folder of a toolkit as a user may name it: the folder, its bin, or nvcc.
std::string ToolkitFolder(const std::string& named) {
  std::string folder = named;
  if (BaseName(folder) == "nvcc") folder = DirName(folder);
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  if (BaseName(folder) == "bin") folder = DirName(folder);
  return folder;
}

}  // namespace

int RunCheckToolchain(const ToolchainOptionsCli& options, Console& console) {
  runner::ToolchainOptions how;
  if (!options.targets.empty() && !options.gpus.empty()) {
    return console.Fail(absl::InvalidArgumentError(
        "--target builds for GPUs that are not here, --gpu runs on one that "
        "is: give one of them"));
  }
  for (const std::string& text : options.targets) {
    const absl::StatusOr<v1::Target> target = compat::ParseTarget(text);
    if (!target.ok() || absl::StartsWith(text, "lto")) {
      return console.Fail(
          target.ok() ? absl::InvalidArgumentError(absl::StrCat(
                            "--target ", Printable(text), ": not a GPU"))
                      : WithContext(target.status(), "--target"),
          "a target is written sm_90, sm_121, sm_90a or 9.0");
    }
    how.targets.push_back(*target);
  }
  for (const std::string& uuid : options.gpus) {
    if (const absl::Status status = runner::CheckGpuUuid(uuid); !status.ok()) {
      return console.Fail(WithContext(status, "--gpu"),
                          "'twinpath doctor' lists the GPUs of this host");
    }
  }
  how.gpu_uuids = options.gpus;
  how.one_of_each_model = !options.all_gpus;
  for (const std::string& named : options.toolkits) {
    how.toolkits.push_back(ToolkitFolder(named));
  }
  how.environment = ProcessEnvironment();

  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  how.cancelled = [] { return interrupted != 0; };
  how.run = [](const v1::RunRequest& request) {
    return runner::RunInChild(
        request, runner::TimeLimit(request.entry(), request.path()) + kOverhead,
        [] { return interrupted != 0; });
  };
  const absl::StatusOr<TempDirectory> work = TempDirectory::Make();
  if (!work.ok()) return console.Fail(work.status());
  how.work_directory = work->path();

  v1::ToolchainOutput output;
  {
    Progress progress(console);
    how.progress = [&progress](absl::string_view what) { progress.Show(what); };
    v1::HostFacts facts;
    // What is built for other GPUs is not run.
    if (how.targets.empty()) {
      progress.Show("looking at this host");
      facts = CollectLocalFacts();
      how.run = [&facts, run = how.run](const v1::RunRequest& request) {
        // A compiler does not depend on them, and asking takes a second.
        if (request.bare_environment()) return run(request);
        const v1::Conditions before = ConditionsNow(facts);
        v1::Observation observation = run(request);
        *observation.mutable_conditions_before() = before;
        *observation.mutable_conditions_after() = ConditionsNow(facts);
        if (observation.has_cache()) {
          observation.mutable_cache()->set_driver_built(
              facts.driver().jit_cache_built());
        }
        return observation;
      };
    }
    for (v1::ToolchainCheck& check : runner::CheckToolchains(how)) {
      *output.add_checks() = std::move(check);
    }
  }
  if (interrupted != 0) {
    console.Error("check: interrupted; nothing is judged");
    return 128 + static_cast<int>(interrupted);
  }
  *output.mutable_verdict() = verdict::JudgeToolchainChecks(
      output.checks(), /*every=*/!options.toolkits.empty(), options.strict);
  if (console.json()) {
    console.PrintJson(output);
  } else {
    console.Print(
        RenderToolchain(output, ViewOptions{console.width(), console.color()}));
  }
  return verdict::ExitCodeOf(output.verdict());
}

}  // namespace twinpath::cli
