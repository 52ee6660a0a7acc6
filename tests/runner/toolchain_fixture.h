// A toolkit made of scripts, a GPU that is none, and programs run without a
// sandbox: the toolchain check step by step, on any machine. The programs a
// script "builds" are samples of tests/data or files made by the real nvcc
// where there is one.

#ifndef TWINPATH_TESTS_RUNNER_TOOLCHAIN_FIXTURE_H_
#define TWINPATH_TESTS_RUNNER_TOOLCHAIN_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"
#include "runner/toolchain.h"

namespace twinpath::runner {

inline constexpr char kFakeGpu[] = "GPU-00000000-0000-0000-0000-000000000001";

// The answer of a host with one GPU of this capability.
inline v1::ProbeResponse GpuOf(uint32_t major, uint32_t minor) {
  v1::ProbeResponse probe;
  probe.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_OK);
  probe.mutable_driver()->set_jit_cache_built("Apr 29 2026 17:12:06");
  probe.mutable_gpu_probe()->set_state(v1::PROBE_STATE_OK);
  v1::Gpu& gpu = *probe.add_gpus();
  gpu.set_uuid(kFakeGpu);
  gpu.set_name("NVIDIA Fake");
  gpu.mutable_capability_probe()->set_state(v1::PROBE_STATE_OK);
  gpu.mutable_compute_capability()->set_major(major);
  gpu.mutable_compute_capability()->set_minor(minor);
  return probe;
}

class ToolchainFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    auto root = TempDirectory::Make();
    auto work = TempDirectory::Make();
    ASSERT_THAT(root, IsOk());
    ASSERT_THAT(work, IsOk());
    root_.emplace(*std::move(root));
    work_.emplace(*std::move(work));
    options_.work_directory = work_->path();
    options_.run = [this](const v1::RunRequest& request) {
      return Run(request);
    };
    options_.probe = [] { return GpuOf(9, 0); };
  }

  // A toolkit whose nvcc answers version and targets, and runs `compile` (sh,
  // with the output's name in $out and the file of good code in $good) for
  // everything else.
  std::string Toolkit(
      const std::string& compile,
      const std::string& targets = "sm_80\\nsm_90\\nsm_100\\n") {
    const std::string folder = root_->path();
    Script("nvcc",
           absl::StrCat("case $1 in\n--version) echo 'Cuda compilation tools, "
                        "release 13.0, V13.0.88';;\n--list-gpu-code) printf '",
                        targets,
                        "';;\n*)\nout=\nprev=\nfor word; do [ \"$prev\" = "
                        "-o ] && out=$word; prev=$word; done\ngood='",
                        good_, "'\n", compile, "\n;;\nesac\n"));
    options_.toolkits = {folder};
    return folder;
  }
  void Script(const std::string& name, const std::string& text) {
    const std::string bin = JoinPath(root_->path(), "bin");
    ASSERT_THAT(MakeDirectories(bin), IsOk());
    ASSERT_THAT(WriteFileAtomic(JoinPath(bin, name),
                                absl::StrCat("#!/bin/sh\n", text), 0755),
                IsOk());
  }

  v1::ToolchainCheck Check() {
    std::vector<v1::ToolchainCheck> checks = CheckToolchains(options_);
    EXPECT_EQ(checks.size(), 1u);
    return checks.empty() ? v1::ToolchainCheck() : checks[0];
  }

  static std::vector<std::string> StepNames(const v1::ToolchainCheck& check) {
    std::vector<std::string> names;
    for (const v1::ToolchainStep& step : check.steps()) {
      names.push_back(step.name());
    }
    return names;
  }
  // "TP132: detail" of the last step; "" if it held.
  static std::string LastReason(const v1::ToolchainCheck& check) {
    if (check.steps().empty()) return "no steps";
    const v1::ToolchainStep& step = check.steps(check.steps_size() - 1);
    return step.reasons().empty() ? ""
                                  : absl::StrCat(step.reasons(0).code(), ": ",
                                                 step.reasons(0).detail());
  }

  // Tools are run for real, in the folder a sandbox would give them; the built
  // program is not, since there is no GPU: `on_gpu_` says what it does.
  v1::Observation Run(const v1::RunRequest& request) {
    requests_.push_back(request);
    v1::Observation observation;
    observation.set_attempt_id(request.attempt_id());
    for (const std::string& uuid : request.gpu_uuids()) {
      observation.set_gpu_uuid(uuid);
    }
    if (!request.bare_environment()) {
      observation.set_ending(v1::ENDING_EXITED);
      on_gpu_(request, observation);
      return observation;
    }
    const std::string home = JoinPath(request.work_directory(), "home");
    EXPECT_THAT(MakeDirectories(home), IsOk());
    const auto files = ListDirectory(request.artifact_directory());
    for (const std::string& file : *files) {
      (void)symlink(JoinPath(request.artifact_directory(), file).c_str(),
                    JoinPath(home, file).c_str());
    }
    ProcessOptions options;
    options.argv.assign(request.entry().command().begin(),
                        request.entry().command().end());
    options.environment = MinimalEnvironment();
    options.directory = home;
    options.timeout = absl::Minutes(4);
    const absl::StatusOr<ProcessResult> result = RunProcess(options);
    if (!result.ok()) {
      observation.set_ending(v1::ENDING_NOT_STARTED);
      observation.set_problem(std::string(result.status().message()));
      return observation;
    }
    observation.set_ending(result->ending == ProcessResult::Ending::kExited
                               ? v1::ENDING_EXITED
                               : v1::ENDING_SIGNALED);
    observation.set_exit_code(result->exit_code);
    observation.mutable_stdout()->set_head(result->out.head);
    observation.mutable_stdout()->set_total_bytes(result->out.total_bytes);
    observation.mutable_stderr()->set_head(result->err.head);
    observation.mutable_stderr()->set_total_bytes(result->err.total_bytes);
    return observation;
  }

  // Success on both paths, with compiled files of the driver.
  static void Passes(const v1::RunRequest& request, v1::Observation& run) {
    const std::string text = absl::StrCat(kCheckPasses, "\n");
    run.mutable_stdout()->set_head(text);
    run.mutable_stdout()->set_total_bytes(text.size());
    const auto set = [&run](const char* name, const char* value) {
      v1::EnvironmentVariable& variable = *run.add_environment();
      variable.set_name(name);
      variable.set_value(value);
    };
    set(request.path() == v1::PATH_NATIVE ? "CUDA_DISABLE_PTX_JIT"
                                          : "CUDA_FORCE_PTX_JIT",
        "1");
    if (!request.jit_proof()) {
      set("CUDA_CACHE_DISABLE", "1");
      return;
    }
    set("CUDA_CACHE_PATH", "/cache");
    run.mutable_cache()->set_observed(true);
    run.mutable_cache()->set_files(2);
    v1::CacheWriter& writer = *run.mutable_cache()->add_writers();
    writer.set_built("Apr 29 2026 17:12:06");
    writer.set_entries(1);
  }

  std::optional<TempDirectory> root_;
  std::optional<TempDirectory> work_;
  // A program with machine code and PTX for 9.0.
  std::string good_;
  ToolchainOptions options_;
  std::vector<v1::RunRequest> requests_;
  std::function<void(const v1::RunRequest&, v1::Observation&)> on_gpu_ = Passes;
};

}  // namespace twinpath::runner

#endif  // TWINPATH_TESTS_RUNNER_TOOLCHAIN_FIXTURE_H_
