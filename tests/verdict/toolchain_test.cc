// Toolchain checks judged from their evidence.

#include "verdict/toolchain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/verdict/results.h"
#include "verdict/judge.h"

namespace twinpath::verdict {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::Image Image(v1::ImageKind kind, uint32_t number) {
  v1::Image image;
  image.set_kind(kind);
  image.mutable_target()->set_number(number);
  image.mutable_target()->set_suffix(v1::TARGET_SUFFIX_NONE);
  image.add_kernels()->set_name("k");
  return image;
}

v1::ToolchainCheck GoodCheck(const std::string& toolkit = "/cuda") {
  v1::ToolchainCheck check;
  check.mutable_toolkit()->set_path(toolkit);
  check.mutable_toolkit()->set_nvcc_version("13.0.88");
  check.set_gpu_uuid(kGpu);
  check.mutable_compute_capability()->set_major(9);
  check.mutable_target()->set_number(90);
  check.mutable_target()->set_suffix(v1::TARGET_SUFFIX_NONE);
  for (const char* name : {"gpu", "version", "targets", "compile", "inspect",
                           "witness", "native", "ptx-jit"}) {
    v1::ToolchainStep& step = *check.add_steps();
    step.set_name(name);
    step.set_ending(v1::ENDING_EXITED);
  }
  v1::Fatbin& fatbin = *check.mutable_built()->add_fatbins();
  *fatbin.add_images() = Image(v1::IMAGE_KIND_SASS, 90);
  *fatbin.add_images() = Image(v1::IMAGE_KIND_PTX, 90);
  for (const bool proof : {false, true}) {
    for (const v1::Path path : {v1::PATH_NATIVE, v1::PATH_PTX_JIT}) {
      if (proof && path == v1::PATH_NATIVE) continue;
      v1::Observation run = GoodRun(path, proof);
      SetOutput(run, absl::StrCat(kToolchainPasses, "\n"));
      *check.add_runs() = run;
    }
  }
  check.set_holds(true);
  return check;
}

v1::ToolchainStep& Step(v1::ToolchainCheck& check, const std::string& name) {
  for (v1::ToolchainStep& step : *check.mutable_steps()) {
    if (step.name() == name) return step;
  }
  ADD_FAILURE() << name;
  return *check.add_steps();
}

// A check that ended at this step with this reason.
v1::ToolchainCheck EndedAt(const std::string& name, const std::string& code) {
  v1::ToolchainCheck check = GoodCheck("/old");
  while (check.steps(check.steps_size() - 1).name() != name) {
    check.mutable_steps()->RemoveLast();
  }
  check.clear_runs();
  check.clear_built();
  check.set_holds(false);
  v1::Reason& reason = *Step(check, name).add_reasons();
  reason.set_code(code);
  reason.set_detail("why");
  return check;
}

v1::Verdict Judged(const std::vector<v1::ToolchainCheck>& checks,
                   bool every = false, bool strict = false) {
  google::protobuf::RepeatedPtrField<v1::ToolchainCheck> all;
  for (const v1::ToolchainCheck& check : checks) *all.Add() = check;
  return JudgeToolchainChecks(all, every, strict);
}

TEST(EvaluateToolchain, EverythingIsThere) {
  const PathEvaluation seen = EvaluateToolchain(GoodCheck());
  EXPECT_EQ(seen.status, PathStatus::kProven);
  EXPECT_TRUE(seen.reasons.empty());
}

TEST(EvaluateToolchain, ItsOwnWordIsNoEvidence) {
  v1::ToolchainCheck check;
  check.set_holds(true);
  check.set_gpu_uuid(kGpu);
  EXPECT_EQ(EvaluateToolchain(check).status, PathStatus::kInconclusive);

  for (const char* name : {"version", "targets", "compile", "inspect"}) {
    v1::ToolchainCheck lacks = GoodCheck();
    Step(lacks, name).set_ending(v1::ENDING_SKIPPED);
    EXPECT_EQ(EvaluateToolchain(lacks).status, PathStatus::kInconclusive)
        << name;
    lacks = GoodCheck();
    Step(lacks, name).set_exit_code(1);
    EXPECT_EQ(EvaluateToolchain(lacks).status, PathStatus::kInconclusive)
        << name;
  }
}

TEST(EvaluateToolchain, BuiltFileDecidesOverTheStep) {
  v1::ToolchainCheck check = GoodCheck();
  check.mutable_built()->mutable_fatbins(0)->mutable_images()->RemoveLast();
  EXPECT_EQ(EvaluateToolchain(check).status, PathStatus::kFailed);
  EXPECT_EQ(EvaluateToolchain(check).reasons[0].code(), "TP133");

  check = GoodCheck();
  check.mutable_built()->mutable_fatbins(0)->mutable_images(0)->clear_kernels();
  EXPECT_EQ(EvaluateToolchain(check).status, PathStatus::kFailed);
}

TEST(EvaluateToolchain, TargetIsTheCapabilityThatWasQueried) {
  v1::ToolchainCheck check = GoodCheck();
  check.mutable_compute_capability()->set_major(10);
  EXPECT_EQ(EvaluateToolchain(check).status, PathStatus::kInconclusive);
  check.clear_compute_capability();
  EXPECT_EQ(EvaluateToolchain(check).status, PathStatus::kInconclusive);
}

TEST(EvaluateToolchain, BothRunsAndTheProofAreNeeded) {
  for (int i = 0; i < 3; ++i) {
    v1::ToolchainCheck check = GoodCheck();
    check.mutable_runs()->DeleteSubrange(i, 1);
    EXPECT_NE(EvaluateToolchain(check).status, PathStatus::kProven) << i;
  }
  v1::ToolchainCheck other = GoodCheck();
  other.mutable_runs(0)->set_gpu_uuid("GPU-another");
  EXPECT_NE(EvaluateToolchain(other).status, PathStatus::kProven);
}

TEST(EvaluateToolchain, WhichRunFailsSaysWhereToLook) {
  v1::ToolchainCheck native = GoodCheck();
  native.mutable_runs(0)->set_exit_code(1);
  PathEvaluation seen = EvaluateToolchain(native);
  EXPECT_EQ(seen.status, PathStatus::kFailed);
  EXPECT_THAT(seen.reasons[0].fix(), HasSubstr("final link"));

  v1::ToolchainCheck jit = GoodCheck();
  jit.mutable_runs(1)->set_exit_code(1);
  seen = EvaluateToolchain(jit);
  EXPECT_EQ(seen.status, PathStatus::kFailed);
  EXPECT_THAT(seen.reasons[0].fix(), HasSubstr("PTX is there"));

  native.mutable_runs(1)->set_exit_code(1);
  seen = EvaluateToolchain(native);
  EXPECT_THAT(seen.reasons[0].fix(), HasSubstr("device's state"));
}

TEST(EvaluateToolchain, StepsThatEndIt) {
  const auto status = [](const std::string& step, const std::string& code,
                         v1::Ending ending = v1::ENDING_EXITED) {
    v1::ToolchainCheck check = EndedAt(step, code);
    Step(check, step).set_ending(ending);
    return EvaluateToolchain(check).status;
  };
  EXPECT_EQ(status("gpu", "TP107"), PathStatus::kInconclusive);
  EXPECT_EQ(status("version", "TP131"), PathStatus::kInconclusive);
  EXPECT_EQ(status("version", "TP132", v1::ENDING_NOT_STARTED),
            PathStatus::kFailed);
  EXPECT_EQ(status("targets", "TP110"), PathStatus::kFailed);
  EXPECT_EQ(status("compile", "TP132"), PathStatus::kFailed);
  EXPECT_EQ(status("compile", "TP132", v1::ENDING_TIMED_OUT),
            PathStatus::kInconclusive);
  EXPECT_EQ(status("compile", "TP114", v1::ENDING_NOT_STARTED),
            PathStatus::kInconclusive);
  EXPECT_EQ(status("inspect", "TP133"), PathStatus::kFailed);
  EXPECT_EQ(status("witness", "TP431"), PathStatus::kInconclusive);
}

TEST(JudgeToolchainChecks, OneToolkitIsEnoughAndTheOtherIsAWarning) {
  const v1::Verdict verdict =
      Judged({EndedAt("targets", "TP110"), GoodCheck()});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_PASS);
  EXPECT_EQ(verdict.reasons(1).code(), "TP110");
  EXPECT_EQ(
      Judged({EndedAt("targets", "TP110"), GoodCheck()}, false, true).kind(),
      v1::VERDICT_KIND_FAIL);
  // Those that were named must all hold.
  EXPECT_EQ(Judged({EndedAt("targets", "TP110"), GoodCheck()}, true).kind(),
            v1::VERDICT_KIND_FAIL);
  EXPECT_EQ(Judged({GoodCheck("/a"), GoodCheck("/b")}, true).kind(),
            v1::VERDICT_KIND_PASS);
}

TEST(JudgeToolchainChecks, EveryGpuAndEveryTargetNeedsOne) {
  v1::ToolchainCheck other = EndedAt("targets", "TP110");
  other.set_gpu_uuid("GPU-another");
  EXPECT_EQ(Judged({GoodCheck(), other}).kind(), v1::VERDICT_KIND_FAIL);

  v1::ToolchainCheck built = GoodCheck();
  built.clear_gpu_uuid();
  built.clear_runs();
  built.clear_compute_capability();
  EXPECT_EQ(Judged({built}).kind(), v1::VERDICT_KIND_PASS);
  EXPECT_THAT(Judged({built}).reasons(0).detail(),
              HasSubstr("nothing was run"));
  v1::ToolchainCheck lacks = EndedAt("targets", "TP110");
  lacks.clear_gpu_uuid();
  lacks.mutable_target()->set_number(70);
  EXPECT_EQ(Judged({built, lacks}).kind(), v1::VERDICT_KIND_FAIL);
}

TEST(JudgeToolchainChecks, NothingIsNoPass) {
  EXPECT_EQ(Judged({}).kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  v1::ToolchainCheck no_gpu = EndedAt("gpu", "TP101");
  no_gpu.clear_gpu_uuid();
  no_gpu.clear_target();
  no_gpu.clear_toolkit();
  const v1::Verdict verdict = Judged({no_gpu});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(verdict.reasons(0).detail(), "gpu: why");
}

v1::Entry ToolchainEntry() {
  v1::Entry entry;
  entry.set_name("toolchain");
  entry.set_kind(v1::ENTRY_KIND_TOOLCHAIN);
  return entry;
}

v1::Cell ToolchainCell(const v1::ToolchainCheck& check) {
  v1::Cell cell;
  cell.set_id("cell");
  cell.set_entry("toolchain");
  cell.set_gpu_uuid(kGpu);
  cell.set_state(v1::CELL_STATE_DONE);
  v1::CellResult& result = *cell.mutable_result();
  result.set_complete(true);
  v1::Observation& observation = *result.add_observations();
  observation.set_path(v1::PATH_PLAIN);
  observation.set_ending(v1::ENDING_EXITED);
  observation.set_gpu_uuid(kGpu);
  *result.add_toolchain() = check;
  // The artifact's own predictions play no part.
  v1::PathPrediction& prediction = *cell.add_predictions();
  prediction.set_path(v1::PATH_PLAIN);
  prediction.set_outcome(v1::OUTCOME_FAILS);
  return cell;
}

TEST(ToolchainCell, IsJudgedByItsChecksAlone) {
  EXPECT_EQ(JudgeCell(ToolchainCell(GoodCheck()), ToolchainEntry(), {}).kind(),
            v1::VERDICT_KIND_PASS);
  EXPECT_EQ(JudgeCell(ToolchainCell(EndedAt("compile", "TP132")),
                      ToolchainEntry(), {})
                .kind(),
            v1::VERDICT_KIND_FAIL);
  v1::ToolchainCheck other = GoodCheck();
  other.set_gpu_uuid("GPU-another");
  EXPECT_EQ(JudgeCell(ToolchainCell(other), ToolchainEntry(), {}).kind(),
            v1::VERDICT_KIND_INCONCLUSIVE);
}

TEST(ToolchainCell, WithoutAnAnswerIsInconclusive) {
  v1::Cell cell = ToolchainCell(GoodCheck());
  cell.set_state(v1::CELL_STATE_WAITING);
  EXPECT_EQ(JudgeCell(cell, ToolchainEntry(), {}).kind(),
            v1::VERDICT_KIND_INCONCLUSIVE);
  cell = ToolchainCell(GoodCheck());
  cell.set_simulated(true);
  const v1::Verdict verdict = JudgeCell(cell, ToolchainEntry(), {});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(verdict.reasons(0).code(), "TP414");
  EXPECT_EQ(verdict.reasons_size(), 1);
  cell = ToolchainCell(GoodCheck());
  cell.clear_gpu_uuid();
  EXPECT_EQ(JudgeCell(cell, ToolchainEntry(), {}).kind(),
            v1::VERDICT_KIND_INCONCLUSIVE);
}

TEST(ToolchainStatement, NamesToolkitTargetAndStatus) {
  google::protobuf::RepeatedPtrField<v1::ToolchainCheck> checks;
  *checks.Add() = GoodCheck();
  EXPECT_EQ(ToolchainStatement(checks, kGpu),
            "nvcc 13.0.88 in /cuda for sm_90 proven");
  EXPECT_EQ(ToolchainStatement(checks, "GPU-another"), "no toolchain check");
}

// The line is the program's own.
TEST(ToolchainPasses, IsWhatTheCheckProgramPrints) {
  const auto source =
      ReadFile(JoinPath(std::getenv("TWINPATH_SOURCE_DIR"), "kernels/check.cu"),
               1 << 20);
  ASSERT_THAT(source, IsOk());
  EXPECT_THAT(*source, HasSubstr("\"PASS: kernel wrote %d\\n\""));
  EXPECT_THAT(*source, HasSubstr("constexpr int kExpected = 7;"));
  EXPECT_THAT(std::string(kToolchainPasses),
              StartsWith("PASS: kernel wrote 7"));
}

}  // namespace
}  // namespace twinpath::verdict
