// Traced repeats: what they take away, what they name, what entries that need
// them get.

#include "verdict/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/verdict/results.h"
#include "verdict/judge.h"

namespace twinpath::verdict {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kKernel[] = "_Z10WriteValuePii";

// A whole record of a run that launched one kernel of the artifact once.
v1::Trace GoodTrace(v1::ModuleOrigin origin) {
  v1::Trace trace;
  trace.mutable_objects_tracer()->set_started(true);
  trace.mutable_device_tracer()->set_started(true);
  v1::TracedObject& program = *trace.add_objects();
  program.set_path("/somewhere/check");
  program.set_artifact_name("check");
  trace.add_objects()->set_path("/usr/lib/libcuda.so.1");
  trace.add_objects()->set_path("/usr/local/cuda/lib64/libcublas.so.13");
  v1::TracedModule& module = *trace.add_modules();
  module.set_origin(origin);
  module.set_file("check");
  v1::TracedKernel& kernel = *trace.add_kernels();
  kernel.set_name(kKernel);
  kernel.set_launches(1);
  kernel.set_module(0);
  kernel.set_file("check");
  trace.set_launches(1);
  return trace;
}

// The results of a host that traces: the proof and a repeat of plain.
v1::CellResult TracedResult() {
  v1::CellResult result = GoodResult();
  v1::Observation& proof = RunOf(result, v1::PATH_PTX_JIT, true);
  proof.set_traced(true);
  *proof.mutable_trace() = GoodTrace(v1::MODULE_ORIGIN_COMPILED);
  v1::Observation plain = GoodRun(v1::PATH_PLAIN);
  plain.set_traced(true);
  *plain.mutable_trace() = GoodTrace(v1::MODULE_ORIGIN_EMBEDDED);
  *result.add_observations() = plain;
  return result;
}

v1::Observation& Traced(v1::CellResult& result, v1::Path path) {
  for (v1::Observation& run : *result.mutable_observations()) {
    if (run.path() == path && run.traced()) return run;
  }
  abort();
}

v1::Cell TracedCell() {
  v1::Cell cell = GoodCell();
  *cell.mutable_result() = TracedResult();
  return cell;
}

std::string First(const PathEvaluation& evaluation) {
  return evaluation.reasons.empty() ? "" : evaluation.reasons[0].code();
}

std::vector<std::string> Codes(const v1::Verdict& verdict) {
  std::vector<std::string> codes;
  for (const v1::Reason& reason : verdict.reasons()) {
    codes.push_back(reason.code());
  }
  return codes;
}

bool Has(const PathEvaluation& evaluation, const std::string& code) {
  for (const v1::Reason& reason : evaluation.reasons) {
    if (reason.code() == code) return true;
  }
  return false;
}

TEST(Trace, AGoodTraceChangesNothing) {
  const v1::CellResult result = TracedResult();
  for (const v1::Path path :
       {v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN}) {
    const PathEvaluation seen = EvaluatePath(GoodEntry(), path, result);
    EXPECT_EQ(seen.status, PathStatus::kProven) << PathName(path);
    EXPECT_EQ(seen.reasons.size(), 1u);
  }
  EXPECT_EQ(JudgeCell(TracedCell(), GoodEntry(), {}).kind(),
            v1::VERDICT_KIND_PASS);
}

TEST(Trace, ARefusedLaunchBesideSuccessFails) {
  v1::CellResult result = TracedResult();
  v1::Trace& trace = *Traced(result, v1::PATH_PLAIN).mutable_trace();
  trace.mutable_kernels(0)->set_refused(2);
  trace.mutable_kernels(0)->set_cuda_error(209);
  trace.set_refused_launches(2);
  const PathEvaluation seen = EvaluatePath(GoodEntry(), v1::PATH_PLAIN, result);
  EXPECT_EQ(seen.status, PathStatus::kFailed);
  EXPECT_EQ(First(seen), "TP308");
  EXPECT_EQ(seen.cuda_error, 209u);
  EXPECT_THAT(seen.reasons[0].detail(),
              AllOf(HasSubstr("refused 2 launches"), HasSubstr("209"),
                    HasSubstr(kKernel), HasSubstr("of check")));
  v1::Cell cell = TracedCell();
  *cell.mutable_result() = result;
  EXPECT_EQ(JudgeCell(cell, GoodEntry(), {}).kind(), v1::VERDICT_KIND_FAIL);
}

// Out of memory says nothing about the artifact.
TEST(Trace, ALaunchRefusedForWantOfMemoryIsInconclusive) {
  v1::CellResult result = TracedResult();
  v1::Trace& trace = *Traced(result, v1::PATH_PLAIN).mutable_trace();
  trace.mutable_kernels(0)->set_refused(1);
  trace.mutable_kernels(0)->set_cuda_error(2);
  trace.set_refused_launches(1);
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_PLAIN, result).status,
            PathStatus::kInconclusive);
}

TEST(Trace, SuccessWithoutAnyLaunchIsNone) {
  v1::CellResult result = TracedResult();
  v1::Trace& trace = *Traced(result, v1::PATH_PLAIN).mutable_trace();
  trace.clear_kernels();
  trace.set_launches(0);
  const PathEvaluation seen = EvaluatePath(GoodEntry(), v1::PATH_PLAIN, result);
  EXPECT_EQ(seen.status, PathStatus::kInconclusive);
  EXPECT_EQ(First(seen), "TP308");
  // Where the record is not whole, launches may be in what is missing.
  trace.mutable_device_tracer()->set_dropped(1);
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_PLAIN, result).status,
            PathStatus::kProven);
  // The files bring no device code, and the output was checked: excused.
  trace.mutable_device_tracer()->set_dropped(0);
  v1::PathPrediction none;
  none.set_path(v1::PATH_PLAIN);
  none.set_outcome(v1::OUTCOME_NO_DEVICE_CODE);
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_PLAIN, result, &none).status,
            PathStatus::kProven);
}

TEST(Trace, AProgramThatNeverOpenedTheDriverLaunchedNothing) {
  v1::CellResult result = TracedResult();
  v1::Trace& trace = *Traced(result, v1::PATH_PLAIN).mutable_trace();
  trace.clear_kernels();
  trace.clear_modules();
  trace.set_launches(0);
  trace.mutable_device_tracer()->Clear();
  trace.mutable_device_tracer()->set_problem("no process opened the driver");
  // It opened it, and CUPTI did not start: nothing is known.
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_PLAIN, result).status,
            PathStatus::kProven);
  trace.mutable_objects()->DeleteSubrange(1, 1);
  const PathEvaluation seen = EvaluatePath(GoodEntry(), v1::PATH_PLAIN, result);
  EXPECT_EQ(seen.status, PathStatus::kInconclusive);
  EXPECT_THAT(seen.reasons[0].detail(), HasSubstr("never opened the driver"));
}

TEST(Trace, ForcedJitThatLaunchedOnlyMachineCodeProvesNothing) {
  v1::CellResult result = TracedResult();
  v1::Trace& trace = *Traced(result, v1::PATH_PTX_JIT).mutable_trace();
  trace.mutable_modules(0)->set_origin(v1::MODULE_ORIGIN_EMBEDDED);
  PathEvaluation seen = EvaluatePath(GoodEntry(), v1::PATH_PTX_JIT, result);
  EXPECT_EQ(seen.status, PathStatus::kInconclusive);
  EXPECT_EQ(First(seen), "TP309");
  // Beside one that was compiled it is named.
  v1::TracedKernel& other = *trace.add_kernels();
  other.set_name("_Z8compiledv");
  other.set_launches(1);
  seen = EvaluatePath(GoodEntry(), v1::PATH_PTX_JIT, result);
  EXPECT_EQ(seen.status, PathStatus::kProven);
  ASSERT_TRUE(Has(seen, "TP334"));
  EXPECT_THAT(seen.reasons.back().detail(),
              AllOf(HasSubstr("1 of 2 kernels"), HasSubstr(kKernel)));
}

TEST(Trace, NamesTheFileThatWasCompiledBySurprise) {
  v1::CellResult result = TracedResult();
  RunOf(result, v1::PATH_PLAIN).mutable_cache()->set_files(2);
  Traced(result, v1::PATH_PLAIN)
      .mutable_trace()
      ->mutable_modules(0)
      ->set_origin(v1::MODULE_ORIGIN_COMPILED);
  v1::PathPrediction native;
  native.set_path(v1::PATH_PLAIN);
  native.set_outcome(v1::OUTCOME_NATIVE);
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_PLAIN, result, &native);
  EXPECT_EQ(First(seen), "TP314");
  EXPECT_THAT(seen.reasons[0].detail(), HasSubstr("kernels of check"));
}

// Forced JIT failed with 209 at a kernel of cuBLAS: refused so many launches of
// it, or (0) did not find it.
v1::CellResult FailedInCublas(uint64_t refused) {
  v1::CellResult result = TracedResult();
  RemoveRun(result, v1::PATH_PTX_JIT, true);
  RunOf(result, v1::PATH_PTX_JIT).set_exit_code(14);
  v1::Observation repeat = RunOf(result, v1::PATH_PTX_JIT);
  repeat.set_traced(true);
  v1::Trace& trace = *repeat.mutable_trace() =
      GoodTrace(v1::MODULE_ORIGIN_COMPILED);
  v1::TracedKernel& kernel = *trace.add_kernels();
  kernel.set_name("_ZN6cublas3nopEv");
  kernel.set_refused(refused);
  kernel.set_cuda_error(209);
  kernel.set_file("/usr/local/cuda/lib64/libcublas.so.13");
  trace.set_refused_launches(refused);
  *result.add_observations() = repeat;
  return result;
}

TEST(Trace, NamesTheLibraryThatOwnsTheFailingKernel) {
  const v1::CellResult result = FailedInCublas(1);
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_PTX_JIT, result);
  EXPECT_EQ(seen.status, PathStatus::kFailed);
  ASSERT_TRUE(Has(seen, "TP333"));
  // Equal on hosts whose folders differ.
  EXPECT_THAT(seen.reasons.back().detail(),
              AllOf(HasSubstr("belongs to libcublas.so.13, which is not a file "
                              "of the artifact"),
                    Not(HasSubstr("/usr/local"))));
}

// Measured with cuBLAS: the library asks for its kernel and never launches it.
TEST(Trace, NamesTheOwnerOfAKernelThatWasNotFound) {
  const v1::CellResult result = FailedInCublas(0);
  const PathEvaluation seen =
      EvaluatePath(GoodEntry(), v1::PATH_PTX_JIT, result);
  EXPECT_EQ(seen.status, PathStatus::kFailed);
  ASSERT_TRUE(Has(seen, "TP333"));
  EXPECT_THAT(seen.reasons.back().detail(),
              HasSubstr("belongs to libcublas.so.13"));
}

TEST(Trace, ATraceOfAnotherEndingProvesNothing) {
  v1::CellResult result = TracedResult();
  v1::Observation& traced = Traced(result, v1::PATH_PLAIN);
  traced.set_ending(v1::ENDING_SIGNALED);
  traced.set_signal(11);
  traced.mutable_trace()->set_refused_launches(1);
  const PathEvaluation seen = EvaluatePath(GoodEntry(), v1::PATH_PLAIN, result);
  EXPECT_EQ(seen.status, PathStatus::kProven);
  EXPECT_TRUE(Has(seen, "TP331"));
}

// Tracing broke the proof; the one without it counts.
TEST(Trace, TheProofWithoutTracingCountsWhereTracingBrokeIt) {
  v1::CellResult result = TracedResult();
  v1::Observation& broken = Traced(result, v1::PATH_PTX_JIT);
  broken.set_ending(v1::ENDING_SIGNALED);
  broken.set_signal(11);
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_PTX_JIT, result).status,
            PathStatus::kFailed);
  *result.add_observations() = GoodRun(v1::PATH_PTX_JIT, true);
  EXPECT_EQ(EvaluatePath(GoodEntry(), v1::PATH_PTX_JIT, result).status,
            PathStatus::kProven);
}

TEST(NeededTrace, IsInconclusiveWhereItIsMissingOrDidNotStart) {
  v1::Entry entry = GoodEntry();
  entry.set_trace(v1::TRACE_RULE_REQUIRED);
  v1::Cell cell = GoodCell();
  v1::Verdict verdict = JudgeCell(cell, entry, {});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(Codes(verdict)[0], "TP330");
  cell = TracedCell();
  EXPECT_EQ(JudgeCell(cell, entry, {}).kind(), v1::VERDICT_KIND_PASS);
  v1::Tracer& tracer = *Traced(*cell.mutable_result(), v1::PATH_PLAIN)
                            .mutable_trace()
                            ->mutable_device_tracer();
  tracer.set_started(false);
  tracer.set_problem("cuptiSubscribe: error 39");
  verdict = JudgeCell(cell, entry, {});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(Codes(verdict)[0], "TP330");
  // An entry that does not ask for it is not held up.
  EXPECT_EQ(JudgeCell(cell, GoodEntry(), {}).kind(), v1::VERDICT_KIND_PASS);
}

TEST(NeededTrace, KernelsThatMustLaunch) {
  v1::Entry entry = GoodEntry();
  entry.add_must_launch(kKernel);
  v1::Cell cell = TracedCell();
  EXPECT_EQ(JudgeCell(cell, entry, {}).kind(), v1::VERDICT_KIND_PASS);
  entry.add_must_launch("_Z5scalePfi");
  v1::Verdict verdict = JudgeCell(cell, entry, {});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_FAIL);
  EXPECT_EQ(Codes(verdict)[0], "TP332");
  // It may be among what was left out.
  Traced(*cell.mutable_result(), v1::PATH_PLAIN)
      .mutable_trace()
      ->mutable_device_tracer()
      ->set_dropped(7);
  verdict = JudgeCell(cell, entry, {});
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(Codes(verdict)[0], "TP330");
}

// Looking through the objects for each kernel would not end within a test's
// limit.
TEST(ApplyTrace, VeryManyKernelsAndObjectsAreNoTrouble) {
  constexpr int kMany = 200'000;
  v1::CellResult result = TracedResult();
  v1::Trace& trace = *Traced(result, v1::PATH_PTX_JIT).mutable_trace();
  trace.mutable_modules(0)->set_origin(v1::MODULE_ORIGIN_EMBEDDED);
  for (int i = 0; i < kMany; ++i) {
    trace.add_objects()->set_artifact_name(absl::StrCat("lib/", i, ".so"));
    v1::TracedKernel& kernel = *trace.add_kernels();
    kernel.set_launches(1);
    kernel.set_module(0);
    kernel.set_file("lib/none.so");
  }
  PathEvaluation evaluation;
  evaluation.status = PathStatus::kProven;
  ApplyTrace(GoodEntry(), v1::PATH_PTX_JIT, result, nullptr, evaluation);
  EXPECT_EQ(First(evaluation), "TP309");
  EXPECT_THAT(evaluation.reasons[0].detail(),
              HasSubstr("came from machine code in check, none.so"));
}

}  // namespace
}  // namespace twinpath::verdict
