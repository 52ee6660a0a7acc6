#include "verdict/path_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/verdict/results.h"

namespace twinpath::verdict {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> Codes(const PathEvaluation& evaluation) {
  std::vector<std::string> codes;
  for (const v1::Reason& reason : evaluation.reasons) {
    codes.push_back(reason.code());
  }
  return codes;
}

void AddError(v1::Observation& run, uint32_t cuda_error,
              const char* code = "TP311") {
  v1::Reason& reason = *run.add_errors();
  reason.set_code(code);
  reason.set_detail("an error");
  reason.set_cuda_error(cuda_error);
}

void Fail(v1::Observation& run, uint32_t cuda_error) {
  run.set_exit_code(1);
  SetOutput(run, "FAIL\n");
  AddError(run, cuda_error);
}

TEST(EvaluatePath, CompleteEvidenceProvesEachPath) {
  const v1::CellResult result = GoodResult();
  for (const v1::Path path :
       {v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN}) {
    EXPECT_EQ(EvaluatePath(GoodEntry(), path, result).status,
              PathStatus::kProven)
        << PathName(path);
  }
}

TEST(EvaluatePath, UnspecifiedPathIsNeverProven) {
  EXPECT_EQ(
      EvaluatePath(GoodEntry(), v1::PATH_UNSPECIFIED, GoodResult()).status,
      PathStatus::kNotRun);
}

TEST(EvaluatePath, NoRunIsNotRun) {
  v1::CellResult result = GoodResult();
  RemoveRun(result, v1::PATH_NATIVE, false);
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result);
  EXPECT_EQ(seen.status, PathStatus::kNotRun);
  EXPECT_THAT(Codes(seen), ElementsAre("TP418"));
}

TEST(EvaluatePath, WrongExitCodeFailsWithTheDriversErrorFirst) {
  v1::CellResult result = GoodResult();
  Fail(RunOf(result, v1::PATH_NATIVE), 209);
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result);
  EXPECT_EQ(seen.status, PathStatus::kFailed);
  EXPECT_EQ(seen.cuda_error, 209u);
  EXPECT_THAT(Codes(seen), ElementsAre("TP311", "TP302"));
}

TEST(EvaluatePath, ExpectedNonZeroExitIsSuccess) {
  v1::Entry entry = GoodEntry();
  entry.set_expected_exit(3);
  v1::CellResult result = GoodResult();
  RunOf(result, v1::PATH_NATIVE).set_exit_code(3);
  EXPECT_EQ(EvaluatePath(entry, v1::PATH_NATIVE, result).status,
            PathStatus::kProven);
}

TEST(EvaluatePath, UnexpectedOutputFails) {
  v1::CellResult result = GoodResult();
  SetOutput(RunOf(result, v1::PATH_PLAIN), "value 0\n");
  const PathEvaluation seen = EvaluatePath(GoodEntry(), v1::PATH_PLAIN, result);
  EXPECT_EQ(seen.status, PathStatus::kFailed);
  EXPECT_THAT(Codes(seen), Contains("TP303"));
}

// docs/gpu-runs.md: a program without cudaGetLastError, no image for the GPU:
// "no error", exit 0, and this line in the driver log.
TEST(EvaluatePath, FailedLaunchBesideSuccessIsAFailure) {
  v1::CellResult result = GoodResult();
  v1::CapturedOutput& log =
      *RunOf(result, v1::PATH_NATIVE).mutable_driver_log();
  log.set_head(
      "[10:11:12.345][CUDA][E] Returning 209 (CUDA_ERROR_NO_BINARY_FOR_GPU) "
      "from cuLibraryGetKernel\n");
  log.set_total_bytes(log.head().size());
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result);
  EXPECT_EQ(seen.status, PathStatus::kFailed);
  EXPECT_EQ(seen.cuda_error, 209u);
  EXPECT_THAT(Codes(seen), ElementsAre("TP308"));
}

TEST(EvaluatePath, FailedLaunchInTheTailOfACutLogIsSeen) {
  v1::CellResult result = GoodResult();
  v1::CapturedOutput& log =
      *RunOf(result, v1::PATH_NATIVE).mutable_driver_log();
  log.set_head("nothing\n");
  log.set_tail(
      "Returning 209 (CUDA_ERROR_NO_BINARY_FOR_GPU) from cuLaunchKernel\n");
  log.set_total_bytes(1'000'000);
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result).status,
            PathStatus::kFailed);
}

// Head and tail of a whole log are one text, wherever the border falls.
TEST(EvaluatePath, FailedLaunchAcrossHeadAndTailIsSeen) {
  const std::string text =
      "Returning 209 (CUDA_ERROR_NO_BINARY_FOR_GPU) from cuLaunchKernel\n";
  for (size_t border = 0; border <= text.size(); ++border) {
    v1::CellResult result = GoodResult();
    v1::CapturedOutput& log =
        *RunOf(result, v1::PATH_NATIVE).mutable_driver_log();
    log.set_head(text.substr(0, border));
    log.set_tail(text.substr(border));
    log.set_total_bytes(text.size());
    EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result).status,
              PathStatus::kFailed)
        << border;
  }
}

TEST(EvaluatePath, CutDriverLogProvesNothing) {
  v1::CellResult result = GoodResult();
  v1::CapturedOutput& log =
      *RunOf(result, v1::PATH_NATIVE).mutable_driver_log();
  log.set_head("nothing\n");
  log.set_total_bytes(1'000'000);
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result).status,
            PathStatus::kInconclusive);
}

TEST(EvaluatePath, RefusedModuleLoadIsSettledByACheckedResult) {
  v1::CellResult result = GoodResult();
  v1::CapturedOutput& log =
      *RunOf(result, v1::PATH_NATIVE).mutable_driver_log();
  log.set_head(
      "Returning 222 (CUDA_ERROR_UNSUPPORTED_PTX_VERSION) from "
      "cuModuleLoadDataEx\n");
  log.set_total_bytes(log.head().size());
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result).status,
            PathStatus::kProven);
  v1::Entry unchecked = GoodEntry();
  unchecked.clear_expected_output();
  const PathEvaluation seen = EvaluatePath(unchecked, v1::PATH_NATIVE, result);
  EXPECT_EQ(seen.status, PathStatus::kInconclusive);
  EXPECT_THAT(Codes(seen), ElementsAre("TP308"));
}

TEST(EvaluatePath, ForcedJitWithoutItsRepeatIsNotProven) {
  v1::CellResult result = GoodResult();
  RemoveRun(result, v1::PATH_PTX_JIT, true);
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_PTX_JIT, result);
  EXPECT_EQ(seen.status, PathStatus::kInconclusive);
  EXPECT_THAT(Codes(seen), ElementsAre("TP309"));
}

// docs/gpu-runs.md: a cubin given to cuModuleLoadData ignores the switch.
TEST(EvaluatePath, ForcedJitThatCompiledNothingIsNotProven) {
  v1::CellResult result = GoodResult();
  RunOf(result, v1::PATH_PTX_JIT, true).mutable_cache()->set_files(0);
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_PTX_JIT, result);
  EXPECT_EQ(seen.status, PathStatus::kInconclusive);
  EXPECT_THAT(Codes(seen), ElementsAre("TP309"));
}

TEST(EvaluatePath, FailingRepeatFailsThePath) {
  v1::CellResult result = GoodResult();
  Fail(RunOf(result, v1::PATH_PTX_JIT, true), 218);
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_PTX_JIT, result).status,
            PathStatus::kFailed);
}

TEST(EvaluatePath, TheRepeatIsNoRunOfItsPath) {
  v1::CellResult result = GoodResult();
  RemoveRun(result, v1::PATH_PTX_JIT, false);
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_PTX_JIT, result).status,
            PathStatus::kNotRun);
}

TEST(EvaluatePath, NativeTimeLimitFails) {
  v1::CellResult result = GoodResult();
  RunOf(result, v1::PATH_NATIVE).set_ending(v1::ENDING_TIMED_OUT);
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result);
  EXPECT_EQ(seen.status, PathStatus::kFailed);
  EXPECT_THAT(Codes(seen), Contains("TP304"));
}

TEST(EvaluatePath, ForcedJitAtItsLimitMayStillBeCompiling) {
  v1::CellResult result = GoodResult();
  RunOf(result, v1::PATH_PTX_JIT).set_ending(v1::ENDING_TIMED_OUT);
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_PTX_JIT, result);
  EXPECT_EQ(seen.status, PathStatus::kInconclusive);
  EXPECT_EQ(seen.reasons[0].code(), "TP310");
}

TEST(EvaluatePath, ForcedJitWithNothingToCompileHangs) {
  v1::CellResult result = GoodResult();
  RunOf(result, v1::PATH_PTX_JIT).set_ending(v1::ENDING_TIMED_OUT);
  v1::PathPrediction prediction;
  prediction.set_path(v1::PATH_PTX_JIT);
  prediction.set_outcome(v1::OUTCOME_FAILS);
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_PTX_JIT, result, &prediction);
  EXPECT_EQ(seen.status, PathStatus::kFailed);
  EXPECT_THAT(Codes(seen), Contains("TP304"));
}

TEST(EvaluatePath, PlainAtItsLimitDependsOnWhetherItCompiles) {
  v1::CellResult result = GoodResult();
  RunOf(result, v1::PATH_PLAIN).set_ending(v1::ENDING_TIMED_OUT);
  v1::PathPrediction prediction;
  prediction.set_path(v1::PATH_PLAIN);
  prediction.set_outcome(v1::OUTCOME_NATIVE);
  EXPECT_EQ(
      EvaluatePath(GoodEntry(), v1::PATH_PLAIN, result, &prediction).status,
      PathStatus::kFailed);
  prediction.set_outcome(v1::OUTCOME_JIT);
  EXPECT_EQ(
      EvaluatePath(GoodEntry(), v1::PATH_PLAIN, result, &prediction).status,
      PathStatus::kInconclusive);
}

TEST(EvaluatePath, OutOfMemoryIsInconclusive) {
  v1::CellResult result = GoodResult();
  Fail(RunOf(result, v1::PATH_NATIVE), 2);
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result);
  EXPECT_EQ(seen.status, PathStatus::kInconclusive);
  EXPECT_EQ(seen.reasons[0].code(), "TP313");
}

TEST(EvaluatePath, DeviceStateIsInconclusive) {
  for (const uint32_t error : {46u, 214u, 216u, 220u, 802u}) {
    v1::CellResult result = GoodResult();
    Fail(RunOf(result, v1::PATH_NATIVE), error);
    EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result).status,
              PathStatus::kInconclusive)
        << error;
  }
}

TEST(EvaluatePath, MemoryErrorThatTheProgramHandledDoesNotCount) {
  v1::CellResult result = GoodResult();
  AddError(RunOf(result, v1::PATH_NATIVE), 2, "TP313");
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result).status,
            PathStatus::kProven);
}

// marin-community/marin#7421: the load fails because memory ran out.
TEST(EvaluatePath, ALoadErrorBesideExhaustedMemoryIsInconclusive) {
  v1::CellResult result = GoodResult();
  v1::Observation& run = RunOf(result, v1::PATH_NATIVE);
  run.set_exit_code(1);
  run.mutable_stderr()->set_head(
      "RESOURCE_EXHAUSTED: Out of memory\nFailed to load in-memory CUBIN "
      "(compiled for a different GPU?).: CUDA_ERROR_INVALID_VALUE: invalid "
      "argument\n");
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result);
  EXPECT_EQ(seen.status, PathStatus::kInconclusive);
  EXPECT_EQ(seen.reasons[0].code(), "TP313");
}

TEST(EvaluatePath, AFaultOfTheDeviceIsInconclusive) {
  v1::CellResult result = GoodResult();
  v1::Observation& run = RunOf(result, v1::PATH_NATIVE);
  run.set_exit_code(1);
  run.mutable_stderr()->set_head(
      "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n");
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result);
  EXPECT_EQ(seen.status, PathStatus::kInconclusive);
  EXPECT_EQ(seen.reasons[0].code(), "TP322");
}

// The program exits with 0 and its output is right; the GPU had no part in it.
TEST(EvaluatePath, AProgramThatDidWithoutTheGpuProvesNothing) {
  v1::CellResult result = GoodResult();
  RunOf(result, v1::PATH_NATIVE)
      .mutable_stderr()
      ->set_head(
          "warning: no usable GPU found, --gpu-layers option will be "
          "ignored\n");
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result);
  EXPECT_EQ(seen.status, PathStatus::kInconclusive);
  EXPECT_EQ(seen.reasons[0].code(), "TP320");
}

// Some versions of llama.cpp print it although the GPU is used
// (ggml-org/llama.cpp#13059).
TEST(EvaluatePath, AProgramThatListsItsGpusIsBelieved) {
  v1::CellResult result = GoodResult();
  RunOf(result, v1::PATH_NATIVE)
      .mutable_stderr()
      ->set_head(
          "warning: no usable GPU found, --gpu-layers option will be "
          "ignored\nggml_cuda_init: found 1 CUDA devices:\n");
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result).status,
            PathStatus::kProven);
}

TEST(EvaluatePath, SignalsFailButForTheOneFromOutside) {
  v1::CellResult result = GoodResult();
  v1::Observation& run = RunOf(result, v1::PATH_NATIVE);
  run.set_ending(v1::ENDING_SIGNALED);
  run.set_signal(11);
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result).status,
            PathStatus::kFailed);
  run.set_signal(9);
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result);
  EXPECT_EQ(seen.status, PathStatus::kInconclusive);
  EXPECT_EQ(seen.reasons[0].code(), "TP305");
}

TEST(EvaluatePath, InterruptedRunCountsForNothing) {
  v1::CellResult result = GoodResult();
  RunOf(result, v1::PATH_NATIVE).set_ending(v1::ENDING_INTERRUPTED);
  const PathEvaluation alone =
      EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result);
  EXPECT_EQ(alone.status, PathStatus::kNotRun);
  EXPECT_THAT(Codes(alone), ElementsAre("TP307"));
  *result.add_observations() = GoodRun(v1::PATH_NATIVE);
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result).status,
            PathStatus::kProven);
}

TEST(EvaluatePath, TheWorstOfSeveralRunsDecides) {
  v1::CellResult result = GoodResult();
  v1::Observation bad = GoodRun(v1::PATH_NATIVE);
  Fail(bad, 209);
  *result.add_observations() = bad;
  *result.add_observations() = GoodRun(v1::PATH_NATIVE);
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result).status,
            PathStatus::kFailed);
}

TEST(EvaluatePath, ChangedConditionsAreInconclusiveEvenForAFailure) {
  for (const bool fails : {false, true}) {
    v1::CellResult result = GoodResult();
    v1::Observation& run = RunOf(result, v1::PATH_NATIVE);
    if (fails) Fail(run, 209);
    *run.mutable_conditions_after() = ConditionsNamed("595");
    const PathEvaluation seen =
        EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result);
    EXPECT_EQ(seen.status, PathStatus::kInconclusive) << fails;
    EXPECT_EQ(seen.reasons[0].code(), "TP315") << fails;
  }
}

TEST(EvaluatePath, HostThatCannotRunIsNotTheArtifactsFault) {
  v1::CellResult result = GoodResult();
  v1::Observation& run = RunOf(result, v1::PATH_NATIVE);
  run.set_ending(v1::ENDING_NOT_STARTED);
  run.set_problem("TP114 sandbox-unavailable: no bwrap");
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result);
  EXPECT_EQ(seen.status, PathStatus::kNotRun);
  EXPECT_THAT(Codes(seen), ElementsAre("TP114"));
}

TEST(EvaluatePath, ProgramForAnotherCpuIs) {
  v1::CellResult result = GoodResult();
  v1::Observation& run = RunOf(result, v1::PATH_NATIVE);
  run.set_ending(v1::ENDING_NOT_STARTED);
  run.set_problem("TP208: the program is for aarch64");
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result);
  EXPECT_EQ(seen.status, PathStatus::kFailed);
  EXPECT_THAT(Codes(seen), ElementsAre("TP208", "TP306"));
}

TEST(EvaluatePath, TheRunnersWordsForAnotherCpuAreKnown) {
  v1::CellResult result = GoodResult();
  v1::Observation& run = RunOf(result, v1::PATH_NATIVE);
  run.set_ending(v1::ENDING_NOT_STARTED);
  run.set_problem(
      "exec format error: check is built for aarch64, this host is x86-64");
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result);
  EXPECT_EQ(seen.status, PathStatus::kFailed);
  EXPECT_THAT(Codes(seen), ElementsAre("TP208", "TP306"));
}

TEST(EvaluatePath, HungProcessFailsAlsoWhileCompiling) {
  v1::CellResult result = GoodResult();
  v1::Observation& run = RunOf(result, v1::PATH_PTX_JIT);
  run.set_ending(v1::ENDING_TIMED_OUT);
  run.set_problem("hung: the process survived SIGKILL and was abandoned");
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_PTX_JIT, result);
  EXPECT_EQ(seen.status, PathStatus::kFailed);
  EXPECT_THAT(Codes(seen), ElementsAre("TP317"));
}

TEST(EvaluatePath, FailedRunIsDiagnosedFromItsOwnLog) {
  v1::CellResult result = GoodResult();
  v1::Observation& run = RunOf(result, v1::PATH_NATIVE);
  run.set_exit_code(1);
  run.mutable_driver_log()->set_head(
      "Returning 223 (CUDA_ERROR_JIT_COMPILATION_DISABLED) from "
      "cuLibraryGetKernel\n");
  run.mutable_driver_log()->set_total_bytes(run.driver_log().head().size());
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result);
  EXPECT_EQ(seen.status, PathStatus::kFailed);
  EXPECT_EQ(seen.cuda_error, 223u);
  EXPECT_THAT(Codes(seen), ElementsAre("TP311", "TP302"));
}

TEST(EvaluatePath, SilentJitIsAWarningWhereMachineCodeWasPredicted) {
  v1::CellResult result = GoodResult();
  RunOf(result, v1::PATH_PLAIN).mutable_cache()->set_files(2);
  v1::PathPrediction prediction;
  prediction.set_path(v1::PATH_PLAIN);
  prediction.set_outcome(v1::OUTCOME_NATIVE);
  const PathEvaluation surprise =
      EvaluatePath(GoodEntry(), v1::PATH_PLAIN, result, &prediction);
  EXPECT_EQ(surprise.status, PathStatus::kProven);
  EXPECT_EQ(surprise.reasons[0].code(), "TP314");
  prediction.set_outcome(v1::OUTCOME_JIT);
  EXPECT_THAT(
      Codes(EvaluatePath(GoodEntry(), v1::PATH_PLAIN, result, &prediction)),
      Not(Contains("TP314")));
}

// docs/gpu-runs.md: with the cache left on, a PTX-only artifact passes with
// compilation disabled, so such a run proves nothing.
TEST(EvaluatePath, NativeWithTheCacheOnProvesNothing) {
  v1::CellResult result = GoodResult();
  v1::Observation& run = RunOf(result, v1::PATH_NATIVE);
  run.clear_environment();
  SetVariable(run, "CUDA_DISABLE_PTX_JIT", "1");
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result).status,
            PathStatus::kInconclusive);
}

// docs/gpu-runs.md: value 0 switches them off.
TEST(EvaluatePath, SwitchOfValueZeroIsOff) {
  v1::CellResult result = GoodResult();
  v1::Observation& run = RunOf(result, v1::PATH_NATIVE);
  run.clear_environment();
  SetVariable(run, "CUDA_DISABLE_PTX_JIT", "0");
  SetVariable(run, "CUDA_CACHE_DISABLE", "1");
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_NATIVE, result).status,
            PathStatus::kInconclusive);
}

TEST(EvaluatePath, DetailsBeginWithThePath) {
  v1::CellResult result = GoodResult();
  Fail(RunOf(result, v1::PATH_PTX_JIT), 209);
  for (const v1::Reason& reason :
       EvaluatePath(GoodEntry(), v1::PATH_PTX_JIT, result).reasons) {
    EXPECT_EQ(reason.detail().rfind("ptx-jit: ", 0), 0u) << reason.detail();
  }
}

TEST(EvaluatePath, EmptyResultGivesNothing) {
  for (const v1::Path path :
       {v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN}) {
    const PathEvaluation seen = EvaluatePath({}, path, {});
    EXPECT_EQ(seen.status, PathStatus::kNotRun);
    EXPECT_THAT(Codes(seen), Not(IsEmpty()));
  }
}

}  // namespace
}  // namespace twinpath::verdict
