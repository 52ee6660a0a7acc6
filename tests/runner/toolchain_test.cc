// The toolchain check: a step that does not hold ends it, and what is left is
// the evidence. Toolkits are scripts; the last tests take the nvcc of this
// machine and its sandbox.

#include "runner/toolchain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "runner/probe.h"
#include "runner/program_runner.h"
#include "runner/run.h"
#include "runner/sandbox.h"
#include "runner/sequence.h"
#include "tests/runner/toolchain_fixture.h"

namespace twinpath::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Copies the "built" program NAME (helpers/toolchain_program.cc).
std::string Builds(const std::string& name) {
  return "cp '" +
         JoinPath(std::getenv("TWINPATH_BIN_DIR"), "toolchain_test_" + name) +
         "' $out";
}

class ToolchainTest : public ToolchainFixture {};

TEST_F(ToolchainTest, AllStepsHold) {
  const std::string folder = Toolkit(Builds("good"));
  const v1::ToolchainCheck check = Check();
  EXPECT_TRUE(check.holds()) << LastReason(check);
  EXPECT_THAT(StepNames(check),
              ElementsAre("gpu", "version", "targets", "compile", "inspect",
                          "witness", "native", "ptx-jit"));
  EXPECT_EQ(check.toolkit().path(), folder);
  EXPECT_EQ(check.toolkit().nvcc_version(), "13.0.88");
  EXPECT_EQ(check.toolkit().targets_size(), 3);
  EXPECT_EQ(check.gpu_uuid(), kFakeGpu);
  EXPECT_EQ(check.target().number(), 90u);
  EXPECT_EQ(check.compute_capability().major(), 9u);
  // The command as it was, and the digest of what came out.
  EXPECT_THAT(std::vector<std::string>(check.steps(3).argv().begin(),
                                       check.steps(3).argv().end()),
              ::testing::Contains("arch=compute_90,code=sm_90"));
  EXPECT_EQ(check.built().digest().sha256().size(), 32u);
  EXPECT_EQ(check.steps(5).ending(), v1::ENDING_SKIPPED);
  ASSERT_EQ(check.runs_size(), 3);
  EXPECT_EQ(check.runs(0).path(), v1::PATH_NATIVE);
  EXPECT_EQ(check.runs(1).path(), v1::PATH_PTX_JIT);
  EXPECT_TRUE(check.runs(2).jit_proof());
  EXPECT_EQ(check.runs(2).cache().driver_built(), "Apr 29 2026 17:12:06");
  ASSERT_GE(check.tools_size(), 1);
  EXPECT_EQ(check.tools(0).name(), folder + "/bin/nvcc");
}

TEST_F(ToolchainTest, RunsGetTheBuiltFileAloneAndFoldersOfTheirOwn) {
  Toolkit(Builds("good"));
  Check();
  std::vector<std::string> work;
  for (const v1::RunRequest& request : requests_) {
    if (request.bare_environment()) continue;
    EXPECT_THAT(*ListDirectory(request.artifact_directory()),
                ElementsAre("check"));
    work.push_back(request.work_directory());
    EXPECT_THAT(*ListDirectory(request.work_directory()), IsEmpty());
    EXPECT_THAT(std::vector<std::string>(request.gpu_uuids().begin(),
                                         request.gpu_uuids().end()),
                ElementsAre(kFakeGpu));
  }
  ASSERT_EQ(work.size(), 3u);
  EXPECT_NE(work[0], work[1]);
  EXPECT_NE(work[1], work[2]);
}

TEST_F(ToolchainTest, FailedQueryComesBeforeAnyCompileStep) {
  Toolkit(Builds("good"));
  options_.probe = [] {
    v1::ProbeResponse probe = GpuOf(9, 0);
    v1::Gpu& gpu = *probe.mutable_gpus(0);
    gpu.mutable_capability_probe()->set_state(v1::PROBE_STATE_FAILED);
    gpu.mutable_capability_probe()->set_error("cuDeviceGetAttribute: 999");
    return probe;
  };
  const v1::ToolchainCheck check = Check();
  EXPECT_FALSE(check.holds());
  EXPECT_THAT(StepNames(check), ElementsAre("gpu"));
  EXPECT_THAT(LastReason(check), StartsWith("TP107: "));
  EXPECT_FALSE(check.has_compute_capability());
  EXPECT_FALSE(check.has_target());
  EXPECT_THAT(requests_, IsEmpty());
}

// The probe child with a driver that is none (fake_cuda).
TEST_F(ToolchainTest, WhatADriverSaysOfItsGpus) {
  Toolkit(Builds("good"));
  const auto first = [this](const std::string& words,
                            absl::Duration deadline = absl::Minutes(2)) {
    options_.probe = [words, deadline]() -> v1::ProbeResponse {
      v1::ProbeRequest request;
      request.set_driver(true);
      request.set_ptx_isa_ceiling(true);
      ProbeOptions how;
      how.library_directory =
          JoinPath(std::getenv("TWINPATH_BIN_DIR"), "fake_drivers/full");
      how.environment = {"TWINPATH_FAKE_CUDA=" + words};
      auto answer = ProbeInChild(request, deadline, how);
      EXPECT_THAT(answer, IsOk());
      return answer.ok() ? *answer : v1::ProbeResponse();
    };
    auto work = TempDirectory::Make();
    EXPECT_THAT(work, IsOk());
    options_.work_directory = work->path();
    return CheckToolchains(options_)[0];
  };
  const v1::ToolchainCheck works = first("gpu=9.0");
  EXPECT_TRUE(works.holds()) << LastReason(works);
  EXPECT_EQ(works.target().number(), 90u);
  // A GPU that the toolkit does not know.
  EXPECT_THAT(LastReason(first("gpu=12.1")), StartsWith("TP110: nvcc 13.0.88"));
  for (const auto& [words, code] :
       std::vector<std::pair<std::string, std::string>>{
           {"gpu=9.0 attribute=999", "TP107: "},
           {"init=803", "TP104: "},
           {"init=100", "TP106: "},
           {"init=999", "TP102: "},
           {"crash", "TP102: "}}) {
    const v1::ToolchainCheck check = first(words);
    EXPECT_THAT(StepNames(check), ElementsAre("gpu")) << words;
    EXPECT_THAT(LastReason(check), StartsWith(code)) << words;
    EXPECT_FALSE(check.has_compute_capability()) << words;
  }
  EXPECT_THAT(LastReason(first("hang", absl::Seconds(1))),
              StartsWith("TP103: "));
}

TEST_F(ToolchainTest, NoNvcc) {
  options_.toolkits = {root_->path()};
  const v1::ToolchainCheck check = Check();
  EXPECT_THAT(StepNames(check), ElementsAre("gpu", "version"));
  EXPECT_EQ(LastReason(check),
            "TP132: " + root_->path() + "/bin/nvcc does not exist");
  EXPECT_THAT(requests_, IsEmpty());
}

TEST_F(ToolchainTest, NoToolkitAtAll) {
  options_.environment = {"PATH=" + root_->path()};
  options_.root = root_->path();
  const v1::ToolchainCheck check = Check();
  EXPECT_THAT(StepNames(check), ElementsAre("version"));
  EXPECT_THAT(LastReason(check), StartsWith("TP131: "));
}

TEST_F(ToolchainTest, NvccThatListsNothing) {
  Toolkit(Builds("good"), "");
  const v1::ToolchainCheck check = Check();
  EXPECT_THAT(StepNames(check), ElementsAre("gpu", "version", "targets"));
  EXPECT_THAT(LastReason(check), HasSubstr("names no target"));
}

TEST_F(ToolchainTest, TargetMissingStopsAndShowsTheRange) {
  Toolkit(Builds("good"), "sm_75\\nsm_80\\nsm_89\\n");
  const v1::ToolchainCheck check = Check();
  EXPECT_THAT(StepNames(check), ElementsAre("gpu", "version", "targets"));
  EXPECT_THAT(LastReason(check),
              HasSubstr("does not list sm_90; it lists sm_75 sm_80 sm_89"));
  EXPECT_THAT(LastReason(check), StartsWith("TP110: "));
  for (const v1::RunRequest& request : requests_) {
    EXPECT_NE(request.entry().name(), "toolchain-compile");
  }
}

TEST_F(ToolchainTest, CompileError) {
  Toolkit("echo \"check.cu(3): error: no such thing\" >&2; exit 2");
  const v1::ToolchainCheck check = Check();
  EXPECT_THAT(StepNames(check),
              ElementsAre("gpu", "version", "targets", "compile"));
  EXPECT_EQ(LastReason(check),
            "TP132: nvcc: exit 2: check.cu(3): error: no such thing");
  EXPECT_EQ(check.steps(3).exit_code(), 2);
  EXPECT_THAT(check.steps(3).stderr().head(), HasSubstr("no such thing"));
}

TEST_F(ToolchainTest, ExitZeroWithoutAFileIsNoSuccess) {
  Toolkit("exit 0");
  EXPECT_THAT(LastReason(Check()),
              StartsWith("TP132: nvcc ended with 0 and left no program"));
}

TEST_F(ToolchainTest, OutputThatIsALinkIsNotFollowed) {
  Toolkit("ln -s /etc/hostname $out");
  EXPECT_THAT(LastReason(Check()),
              StartsWith("TP132: nvcc ended with 0 and left no program"));
}

TEST_F(ToolchainTest, AnotherTargetIsBuilt) {
  Toolkit(Builds("good"), "sm_90\\nsm_100\\n");
  options_.probe = [] { return GpuOf(10, 0); };
  const v1::ToolchainCheck check = Check();
  EXPECT_THAT(StepNames(check),
              ElementsAre("gpu", "version", "targets", "compile", "inspect"));
  EXPECT_EQ(LastReason(check), "TP133: no machine code for sm_100");
  EXPECT_THAT(check.runs(), IsEmpty());
}

TEST_F(ToolchainTest, PtxIsDropped) {
  Toolkit(Builds("sass"));
  EXPECT_EQ(LastReason(Check()), "TP133: no PTX for compute_90");
}

TEST_F(ToolchainTest, PtxOfAnotherTarget) {
  Toolkit(Builds("other-ptx"));
  const v1::ToolchainCheck check = Check();
  EXPECT_EQ(LastReason(check), "TP133: no PTX for compute_90");
  EXPECT_EQ(check.steps(4).reasons(1).detail(),
            "it holds what was not asked for: PTX for compute_75");
}

TEST_F(ToolchainTest, NoDeviceCodeAtAll) {
  Toolkit(Builds("empty"));
  EXPECT_EQ(LastReason(Check()), "TP133: the file holds no device code at all");
}

// As cuobjdump 13.5 lists the good program.
constexpr char kListing[] =
    "case $1 in\n--version) echo 'Cuda compilation tools, release 13.5, "
    "V13.5.37';;\n-lelf) echo 'ELF file    1: check.1.sm_90.cubin';;\n"
    "-lptx) echo 'PTX file    1: check.1.%PTX%.ptx';;\nesac\n";

std::string Cuobjdump(const std::string& ptx) {
  std::string text = kListing;
  text.replace(text.find("%PTX%"), 5, ptx);
  return text;
}

TEST_F(ToolchainTest, WitnessAgrees) {
  Toolkit(Builds("good"));
  Script("cuobjdump", Cuobjdump("sm_90"));
  const v1::ToolchainCheck check = Check();
  EXPECT_TRUE(check.holds()) << LastReason(check);
  EXPECT_EQ(check.built().witness().version(), "13.5.37");
  EXPECT_EQ(check.built().witness().counts_size(), 2);
  EXPECT_EQ(check.steps(5).ending(), v1::ENDING_EXITED);
}

TEST_F(ToolchainTest, WitnessContradicts) {
  Toolkit(Builds("good"));
  Script("cuobjdump", Cuobjdump("sm_80"));
  const v1::ToolchainCheck check = Check();
  EXPECT_FALSE(check.holds());
  EXPECT_EQ(check.steps(check.steps_size() - 1).name(), "witness");
  EXPECT_EQ(LastReason(check),
            "TP431: PTX sm_80: 0 images read here, cuobjdump lists 1");
  EXPECT_THAT(check.runs(), IsEmpty());
}

TEST_F(ToolchainTest, WitnessThatDoesNotRun) {
  Toolkit(Builds("good"));
  Script("cuobjdump", "echo 'cannot open libfoo' >&2; exit 127");
  EXPECT_EQ(LastReason(Check()),
            "TP132: cuobjdump: cuobjdump --version: exit 127: cannot open "
            "libfoo");
}

TEST_F(ToolchainTest, NativeFailsAndPtxIsRunAllTheSame) {
  Toolkit(Builds("good"));
  on_gpu_ = [](const v1::RunRequest& request, v1::Observation& run) {
    Passes(request, run);
    if (request.path() == v1::PATH_NATIVE) run.set_exit_code(1);
  };
  const v1::ToolchainCheck check = Check();
  EXPECT_FALSE(check.holds());
  EXPECT_EQ(check.steps(6).reasons(0).code(), "TP302");
  EXPECT_THAT(check.steps(7).reasons(), IsEmpty());
  EXPECT_EQ(check.runs_size(), 3);
}

TEST_F(ToolchainTest, ForcedJitWithoutCompiledFilesIsNoProof) {
  Toolkit(Builds("good"));
  on_gpu_ = [](const v1::RunRequest& request, v1::Observation& run) {
    Passes(request, run);
    if (request.jit_proof()) run.mutable_cache()->set_files(0);
    run.mutable_cache()->clear_writers();
  };
  const v1::ToolchainCheck check = Check();
  EXPECT_FALSE(check.holds());
  EXPECT_THAT(LastReason(check), StartsWith("TP309: "));
}

TEST_F(ToolchainTest, NoTimeIsNoAnswer) {
  Toolkit(Builds("good"));
  options_.timeout = absl::ZeroDuration();
  const v1::ToolchainCheck check = Check();
  EXPECT_EQ(check.steps(1).ending(), v1::ENDING_TIMED_OUT);
  EXPECT_THAT(requests_, IsEmpty());
}

TEST_F(ToolchainTest, ToolkitsBeyondTheMostAreNamed) {
  const std::string folder = Toolkit(Builds("good"));
  options_.toolkits = {folder, "/nowhere/cuda"};
  options_.most_toolkits = 1;
  const std::vector<v1::ToolchainCheck> checks = CheckToolchains(options_);
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_TRUE(checks[0].holds());
  EXPECT_EQ(checks[1].toolkit().path(), "/nowhere/cuda");
  EXPECT_THAT(LastReason(checks[1]), StartsWith("TP316: not checked"));
}

TEST_F(ToolchainTest, MuchOutputIsCut) {
  Toolkit("head -c 1000000 /dev/zero | tr '\\0' x; " + Builds("good"));
  Script("cuobjdump", "head -c 1000000 /dev/zero | tr '\\0' x; exit 1");
  options_.output_limit_bytes = 1000;
  const v1::ToolchainCheck check = Check();
  EXPECT_EQ(StepNames(check).back(), "witness");
  for (const v1::RunRequest& request : requests_) {
    if (request.entry().name() == "cuobjdump") continue;
    EXPECT_EQ(request.output_limit_bytes(), 1000u) << request.entry().name();
  }
  EXPECT_EQ(check.steps(5).stdout().head().size(), 1000u);
  EXPECT_GE(check.steps(5).stdout().total_bytes(), 1000000u);
}

TEST_F(ToolchainTest, ForAGpuThatIsNotHereNothingIsRun) {
  Toolkit(Builds("good"));
  options_.probe = []() -> v1::ProbeResponse {
    ADD_FAILURE() << "the driver was asked";
    return {};
  };
  options_.targets.emplace_back().set_number(90);
  options_.targets[0].set_suffix(v1::TARGET_SUFFIX_NONE);
  const v1::ToolchainCheck check = Check();
  EXPECT_TRUE(check.holds()) << LastReason(check);
  EXPECT_THAT(StepNames(check), ElementsAre("version", "targets", "compile",
                                            "inspect", "witness"));
  EXPECT_THAT(check.runs(), IsEmpty());
}

TEST_F(ToolchainTest, AnEntryAnswersForItsGpu) {
  v1::RunRequest request;
  request.set_attempt_id("attempt");
  request.add_gpu_uuids("GPU-of-nobody");
  request.set_work_directory(work_->path());
  request.mutable_entry()->set_kind(v1::ENTRY_KIND_TOOLCHAIN);
  const v1::RunResponse response = RunToolchainEntry(request, options_.run);
  EXPECT_EQ(response.observation().attempt_id(), "attempt");
  EXPECT_EQ(response.observation().gpu_uuid(), "GPU-of-nobody");
  EXPECT_EQ(response.observation().ending(), v1::ENDING_EXITED);
  ASSERT_EQ(response.toolchain_size(), 1);
  EXPECT_EQ(response.toolchain(0).gpu_uuid(), "GPU-of-nobody");
  EXPECT_FALSE(response.toolchain(0).holds());
}

// As agent and command line run an entry: through the child, once.
TEST_F(ToolchainTest, AnEntryIsRunOnceByTheSequence) {
  v1::Entry entry;
  entry.set_name("toolchain");
  entry.set_kind(v1::ENTRY_KIND_TOOLCHAIN);
  const v1::CellResult result =
      RunEntry(entry, {v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN},
               {"GPU-of-nobody"}, root_->path(), {});
  EXPECT_TRUE(result.complete());
  ASSERT_EQ(result.observations_size(), 1);
  EXPECT_EQ(result.observations(0).ending(), v1::ENDING_EXITED);
  ASSERT_EQ(result.toolchain_size(), 1);
  EXPECT_EQ(result.toolchain(0).gpu_uuid(), "GPU-of-nobody");
  EXPECT_EQ(result.toolchain(0).steps(0).name(), "gpu");
  EXPECT_EQ(result.toolchain(0).steps(0).reasons_size(), 1);
}

// This machine's own nvcc, in the sandbox.
TEST_F(ToolchainTest, RealToolkitBuildsForATargetInTheSandbox) {
  if (access("/usr/local/cuda/bin/nvcc", X_OK) != 0) {
    GTEST_SKIP() << "no nvcc in /usr/local/cuda";
  }
  if (const absl::Status status = CheckSandbox(); !status.ok()) {
    GTEST_SKIP() << "no sandbox on this machine: " << status.message();
  }
  options_.toolkits = {"/usr/local/cuda"};
  options_.run = [](const v1::RunRequest& request) {
    return RunInChild(request, absl::Minutes(5), nullptr);
  };
  options_.targets.emplace_back().set_number(90);
  options_.targets[0].set_suffix(v1::TARGET_SUFFIX_NONE);
  const v1::ToolchainCheck check = Check();
  EXPECT_TRUE(check.holds()) << LastReason(check);
  bool compiler = false;
  for (const v1::StagedFile& tool : check.tools()) {
    compiler |= tool.name().find("bin/nvcc") == std::string::npos &&
                tool.name().find("/usr/bin/") == 0;
  }
  EXPECT_TRUE(compiler) << "the host compiler is not among the tools";
}

}  // namespace
}  // namespace twinpath::runner
