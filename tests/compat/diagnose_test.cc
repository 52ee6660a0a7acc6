#include "compat/diagnose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/compat/fake_host.h"

namespace twinpath::compat {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Lines as the driver writes them with CUDA_LOG_FILE.
constexpr char kNoImageLog[] =
    "[12:00:00.000][42][CUDA][E] No device code available for GPU ISA 90\n"
    "[12:00:00.000][42][CUDA][E] Kernel (_Z6kernelPi) cannot be found in "
    "library 0x55\n"
    "[12:00:00.001][42][CUDA][E] Returning 209 "
    "(CUDA_ERROR_NO_BINARY_FOR_GPU) from cuLibraryGetKernel\n";

v1::Observation Exited(int code, const std::string& err = "",
                       const std::string& log = "",
                       v1::Path path = v1::PATH_NATIVE) {
  v1::Observation observation;
  observation.set_path(path);
  observation.set_ending(v1::ENDING_EXITED);
  observation.set_exit_code(code);
  observation.mutable_stderr()->set_head(err);
  observation.mutable_driver_log()->set_head(log);
  return observation;
}

v1::Reason First(const v1::Observation& observation) {
  const std::vector<v1::Reason> reasons = Diagnose(observation, TestTables());
  return reasons.empty() ? v1::Reason() : reasons[0];
}

TEST(Diagnose, AGoodRunHasNothingToSay) {
  EXPECT_THAT(Diagnose(Exited(0), TestTables()), IsEmpty());
  // A program that quotes an error it handled.
  EXPECT_THAT(Diagnose(Exited(0, "retry after: out of memory"), TestTables()),
              IsEmpty());
}

TEST(Diagnose, DriverLogNamesErrorCallAndKernel) {
  const v1::Reason reason = First(Exited(1, "", kNoImageLog));
  EXPECT_EQ(reason.code(), "TP311");
  EXPECT_EQ(reason.cuda_error(), 209u);
  EXPECT_THAT(reason.detail(), HasSubstr("cuLibraryGetKernel"));
  EXPECT_THAT(reason.detail(), HasSubstr("_Z6kernelPi"));
  // Native failed: targets and link first.
  EXPECT_THAT(reason.fix(), HasSubstr("native targets"));
}

// As an H200 with driver 580.159.04 wrote it for a program that checks nothing:
// the record that names the kernel is cut, and the next one follows without a
// line feed (docs/gpu-runs.md).
TEST(Diagnose, ACutRecordHidesNotTheNextOne) {
  const std::string log =
      "[03:22:15.108][139864604749824][CUDA][E] No device code available for "
      "GPU ISA 90\n"
      "[03:22:15.108][139864604749824][CUDA][E] Kernel (_Z13WriteSilentlyPi) "
      "cannot be found in library due to compilation error, to get more "
      "information when using CUDA Driver APIs use the "
      "CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES "
      "parameter[03:22:15.108][139864604749824][CUDA][E] Returning 209 "
      "(CUDA_ERROR_NO_BINARY_FOR_GPU) from cuLibraryGetKernel\n";
  const v1::Reason reason = First(Exited(0, "", log));
  EXPECT_EQ(reason.code(), "TP308");
  EXPECT_EQ(reason.cuda_error(), 209u);
  EXPECT_THAT(reason.detail(), HasSubstr("_Z13WriteSilentlyPi"));
}

TEST(Diagnose, ARecordAcrossHeadAndTailIsRead) {
  v1::Observation observation = Exited(1);
  v1::CapturedOutput& log = *observation.mutable_driver_log();
  const std::string text = kNoImageLog;
  log.set_head(text.substr(0, text.size() - 30));
  log.set_tail(text.substr(text.size() - 30));
  log.set_total_bytes(text.size());
  EXPECT_EQ(First(observation).cuda_error(), 209u);
  // Where bytes are missing between them, nothing is read across the place.
  log.set_total_bytes(text.size() + 1);
  EXPECT_EQ(First(observation).cuda_error(), 0u);
}

TEST(Diagnose, ForcedJitPointsAtThePtx) {
  EXPECT_THAT(First(Exited(1, "", kNoImageLog, v1::PATH_PTX_JIT)).fix(),
              HasSubstr("look for PTX"));
}

// PyTorch writes 201 lines at every healthy start.
TEST(Diagnose, HarmlessLinesAreIgnored) {
  const std::string harmless =
      "Returning 201 (CUDA_ERROR_INVALID_CONTEXT) from cuCtxGetDevice\n"
      "Returning 500 (CUDA_ERROR_NOT_FOUND) from cuGetProcAddress_v2\n";
  EXPECT_THAT(ErrorsInDriverLog(harmless), IsEmpty());
  EXPECT_THAT(Diagnose(Exited(0, "", harmless), TestTables()), IsEmpty());
  EXPECT_EQ(First(Exited(1, "", harmless + kNoImageLog)).cuda_error(), 209u);
}

// The last image error decides, not what follows from it.
TEST(Diagnose, FollowUpErrorsDoNotDecide) {
  const std::string log =
      std::string(kNoImageLog) +
      "Returning 400 (CUDA_ERROR_INVALID_HANDLE) from cuLaunchKernel\n";
  EXPECT_EQ(First(Exited(1, "", log)).cuda_error(), 209u);
}

// Exit code 0 and a launch that never happened.
TEST(Diagnose, SuccessThatIsNone) {
  const v1::Reason reason = First(Exited(0, "no error", kNoImageLog));
  EXPECT_EQ(reason.code(), "TP308");
  EXPECT_EQ(reason.cuda_error(), 209u);
}

TEST(Diagnose, OutputByNameTextAndNumber) {
  EXPECT_EQ(First(Exited(1,
                         "CUDA error: no kernel image is available for "
                         "execution on the device"))
                .cuda_error(),
            209u);
  EXPECT_EQ(First(Exited(1, "check.cu:12: cudaErrorUnsupportedPtxVersion"))
                .cuda_error(),
            222u);
  EXPECT_EQ(First(Exited(1, "cuInit failed: CUDA error 803")).cuda_error(),
            803u);
  EXPECT_EQ(First(Exited(1,
                         "the provided PTX was compiled with an unsupported "
                         "toolchain."))
                .cuda_error(),
            222u);
  // A number without CUDA beside it means nothing.
  EXPECT_EQ(First(Exited(1, "HTTP error 209")).code(), "TP302");
}

TEST(Diagnose, LoaderErrors) {
  const v1::Reason missing =
      First(Exited(127,
                   "./app: error while loading shared libraries: "
                   "libcudart.so.13: cannot open shared object file: No such "
                   "file or directory"));
  EXPECT_EQ(missing.code(), "TP312");
  EXPECT_THAT(missing.detail(), HasSubstr("libcudart.so.13"));
  EXPECT_EQ(First(Exited(126,
                         "app: cannot execute binary file: Exec format "
                         "error"))
                .code(),
            "TP312");
  EXPECT_EQ(First(Exited(127)).code(), "TP312");
  EXPECT_EQ(
      First(Exited(1, "ImportError: libx.so: undefined symbol: foo")).code(),
      "TP312");
}

TEST(Diagnose, OutOfMemoryIsNotCompatibility) {
  const v1::Reason reason =
      First(Exited(1, "CUDA error: out of memory (cudaErrorMemoryAllocation)"));
  EXPECT_EQ(reason.code(), "TP313");
  EXPECT_EQ(reason.cuda_error(), 2u);
  EXPECT_EQ(First(Exited(1, "terminate: std::bad_alloc")).code(), "TP313");
}

TEST(Diagnose, SignalsTimesAndStarts) {
  v1::Observation observation;
  observation.set_ending(v1::ENDING_SIGNALED);
  observation.set_signal(11);
  EXPECT_EQ(First(observation).code(), "TP305");
  EXPECT_THAT(First(observation).detail(), HasSubstr("SIGSEGV"));
  observation.set_ending(v1::ENDING_TIMED_OUT);
  observation.set_path(v1::PATH_NATIVE);
  EXPECT_EQ(First(observation).code(), "TP304");
  observation.set_path(v1::PATH_PTX_JIT);
  EXPECT_EQ(First(observation).code(), "TP310");
  observation.set_ending(v1::ENDING_NOT_STARTED);
  observation.set_problem("no bubblewrap");
  EXPECT_EQ(First(observation).code(), "TP306");
  EXPECT_EQ(First(observation).detail(), "no bubblewrap");
  observation.set_ending(v1::ENDING_INTERRUPTED);
  EXPECT_EQ(First(observation).code(), "TP307");
  observation.set_ending(v1::ENDING_SKIPPED);
  EXPECT_EQ(First(observation).code(), "TP316");
}

TEST(Diagnose, ExitCodeAloneIsSaid) {
  const std::vector<v1::Reason> reasons = Diagnose(Exited(2), TestTables());
  ASSERT_THAT(reasons, SizeIs(1));
  EXPECT_EQ(reasons[0].code(), "TP302");
  EXPECT_EQ(reasons[0].detail(), "exit code 2");
}

// Logs are foreign: long lines, binary, endless repeats.
TEST(Diagnose, HostileLogs) {
  std::string log(1 << 20, 'A');
  log += "\n";
  for (int i = 0; i < 5000; ++i) {
    log += "Returning 400 (CUDA_ERROR_INVALID_HANDLE) from cuX\n";
  }
  log += std::string("\0\xFF\n", 3);
  EXPECT_LE(ErrorsInDriverLog(log).size(), 1000u);
  EXPECT_EQ(First(Exited(1, log, log)).cuda_error(), 400u);
}

}  // namespace
}  // namespace twinpath::compat
