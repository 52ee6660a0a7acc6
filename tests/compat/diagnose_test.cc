#include "compat/diagnose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/compat/fake_host.h"

namespace twinpath::compat {
namespace {

using ::testing::ElementsAre;
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

std::vector<std::string> Codes(const std::vector<v1::Reason>& reasons) {
  std::vector<std::string> codes;
  for (const v1::Reason& reason : reasons) codes.push_back(reason.code());
  return codes;
}

std::string KernelLog(const std::string& kernel) {
  return "Kernel (" + kernel +
         ") cannot be found in library 0x55\nReturning 209 "
         "(CUDA_ERROR_NO_BINARY_FOR_GPU) from cuLibraryGetKernel\n";
}

// Own kernels ran, cuBLAS has no PTX: measured on an H200 (docs/gpu-runs.md).
TEST(Diagnose, ForcedJitInAVendorLibraryIsNotTheArtifactsFault) {
  const auto reasons =
      Diagnose(Exited(1, "cublasCreate returned 14",
                      KernelLog("_ZN6cublas24nopClusterDiscoveryKernelEv"),
                      v1::PATH_PTX_JIT),
               TestTables());
  ASSERT_THAT(Codes(reasons), ElementsAre("TP311", "TP222", "TP326", "TP302"));
  EXPECT_THAT(reasons[0].detail(), HasSubstr("of cuBLAS"));
  EXPECT_THAT(reasons[1].detail(), HasSubstr("not at fault"));
  // Without a driver log the status alone says so.
  EXPECT_THAT(
      Codes(Diagnose(Exited(1, "cufftPlan1d returned 5", "", v1::PATH_PTX_JIT),
                     TestTables())),
      ElementsAre("TP326", "TP222", "TP302"));
  // On the native path it is an error like others.
  EXPECT_THAT(
      Codes(Diagnose(Exited(1, "cublasCreate returned 14"), TestTables())),
      ElementsAre("TP326", "TP302"));
}

TEST(Diagnose, TheReportNamesTheFileThatOwnsTheKernel) {
  v1::ArtifactReport report;
  v1::FileReport& file = *report.add_files();
  file.set_name("libops.so");
  file.set_kernels_read(true);
  file.add_fatbins()->add_images()->add_kernels()->set_name("_Z6kernelPi");
  DiagnosisContext context;
  context.report = &report;
  EXPECT_THAT(
      Diagnose(Exited(1, "", kNoImageLog), TestTables(), context)[0].detail(),
      HasSubstr("of libops.so"));
  EXPECT_THAT(
      Diagnose(Exited(1, "", KernelLog("_Z5otherv")), TestTables(), context)[0]
          .detail(),
      HasSubstr("of no file of the artifact"));
}

// What was predicted tells where to look.
TEST(Diagnose, APredictionOfSuccessPointsElsewhere) {
  v1::PathPrediction prediction;
  prediction.set_outcome(v1::OUTCOME_NATIVE);
  DiagnosisContext context;
  context.prediction = &prediction;
  const auto surprise =
      Diagnose(Exited(1, "", kNoImageLog), TestTables(), context);
  EXPECT_THAT(surprise[0].fix(), HasSubstr("another image"));
  EXPECT_THAT(surprise[0].fix(), HasSubstr("--match '^_Z6kernelPi$'"));
  const auto vendor =
      Diagnose(Exited(1, "", KernelLog("ncclDevKernel_AllReduce")),
               TestTables(), context);
  EXPECT_THAT(vendor[0].fix(), HasSubstr("look at that library"));

  prediction.set_outcome(v1::OUTCOME_FAILS);
  v1::Reason& why = *prediction.add_reasons();
  why.set_code("TP201");
  why.set_cuda_error(209);
  why.set_fix("add -gencode arch=compute_90,code=sm_90");
  EXPECT_EQ(
      Diagnose(Exited(1, "", kNoImageLog), TestTables(), context)[0].fix(),
      "as predicted (TP201): add -gencode arch=compute_90,code=sm_90");
}

// marin-community/marin#7421: XLA guesses "another GPU" where memory ran out.
TEST(Diagnose, MemoryIsNotMistakenForArchitecture) {
  EXPECT_EQ(First(Exited(1,
                         "RESOURCE_EXHAUSTED: Failed to load in-memory CUBIN "
                         "(compiled for a different GPU?).: "
                         "CUDA_ERROR_OUT_OF_MEMORY: out of memory"))
                .code(),
            "TP313");
  const auto reasons = Diagnose(
      Exited(1,
             "RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
             "8 bytes.\nINTERNAL: Failed to load "
             "in-memory CUBIN (compiled for a different GPU?).: "
             "CUDA_ERROR_INVALID_VALUE: invalid argument"),
      TestTables());
  EXPECT_THAT(Codes(reasons), ElementsAre("TP313", "TP311", "TP302"));
  EXPECT_THAT(reasons[0].detail(), HasSubstr("do not blame the architecture"));

  // 209 beside memory: only where the image was predicted to load.
  const std::string both =
      "torch.OutOfMemoryError\nno kernel image is available for execution on "
      "the device";
  EXPECT_EQ(First(Exited(1, both)).code(), "TP311");
  v1::PathPrediction prediction;
  prediction.set_outcome(v1::OUTCOME_NATIVE);
  DiagnosisContext context;
  context.prediction = &prediction;
  EXPECT_EQ(Diagnose(Exited(1, both), TestTables(), context)[0].code(),
            "TP313");
}

TEST(Diagnose, LoaderErrorsLeadToWhatIsBehindThem) {
  EXPECT_THAT(Codes(Diagnose(Exited(127,
                                    "app: error while loading shared "
                                    "libraries: libcuda.so.1: cannot open "
                                    "shared object file"),
                             TestTables())),
              ElementsAre("TP312", "TP101", "TP302"));
  const auto libc =
      Diagnose(Exited(1,
                      "./app: /lib/libc.so.6: version `GLIBC_2.38' not found "
                      "(required by ./app)"),
               TestTables());
  EXPECT_EQ(libc[0].code(), "TP312");
  EXPECT_THAT(libc[0].fix(), HasSubstr("oldest system"));
  EXPECT_THAT(Codes(Diagnose(Exited(1, "libx.so: wrong ELF class: ELFCLASS32"),
                             TestTables())),
              ElementsAre("TP312", "TP208", "TP302"));
  // A program that tried a library, went on and met a CUDA error.
  EXPECT_EQ(First(Exited(1,
                         "libfoo.so: cannot open shared object file: No such "
                         "file or directory\nCUDA error 209"))
                .cuda_error(),
            209u);
}

TEST(Diagnose, ProgramsThatRefuseOrGoOnWithoutTheGpu) {
  EXPECT_THAT(
      Codes(Diagnose(Exited(1,
                            "common.cuh:112: ggml was not compiled with any "
                            "CUDA arch <= 750"),
                     TestTables())),
      ElementsAre("TP321", "TP302"));
  // Exit code 0 and no error: only the words tell.
  EXPECT_THAT(
      Codes(Diagnose(Exited(0,
                            "warning: no usable GPU found, --gpu-layers "
                            "option will be ignored"),
                     TestTables())),
      ElementsAre("TP320"));
}

// The warning comes from the command line, before backends are loaded.
TEST(Diagnose, AProgramThatListsItsGpusDidNotGoWithout) {
  EXPECT_THAT(
      Diagnose(Exited(0,
                      "warning: no usable GPU found, --gpu-layers option will "
                      "be ignored\nggml_cuda_init: found 1 CUDA devices:\n"),
               TestTables()),
      IsEmpty());
}

// Names of kernels come from the program's log; fixes are pasted into shells.
TEST(Diagnose, NoKernelNameGetsIntoACommandUnlessItIsASymbol) {
  const auto fix = [](const std::string& kernel) {
    return First(Exited(1, "",
                        "Kernel (" + kernel +
                            ") cannot be found in library 0x55\nReturning 209 "
                            "(CUDA_ERROR_NO_BINARY_FOR_GPU) from "
                            "cuLibraryGetKernel\n"))
        .fix();
  };
  EXPECT_THAT(fix("_Z6kernelPi"), HasSubstr("--match '^_Z6kernelPi$' FILE"));
  EXPECT_THAT(fix("a$b.1"), HasSubstr("--match '^a\\$b\\.1$' FILE"));
  for (const char* name : {"';touch${IFS}x;'", "`id`", "a|b", "a\\"}) {
    EXPECT_THAT(fix(name), HasSubstr("twinpath inspect FILE")) << name;
    EXPECT_THAT(fix(name), ::testing::Not(HasSubstr(name))) << name;
  }
}

TEST(Diagnose, RunTimeCompilers) {
  EXPECT_THAT(
      Codes(Diagnose(Exited(1,
                            "ptxas fatal   : Value 'sm_121a' is not defined "
                            "for option 'gpu-name'"),
                     TestTables())),
      ElementsAre("TP324", "TP302"));
  // The driver's own compiler: its error says it, once.
  EXPECT_THAT(
      Codes(Diagnose(
          Exited(1,
                 "CudaAPIError: [222] Call to cuLinkAddData results in "
                 "CUDA_ERROR_UNSUPPORTED_PTX_VERSION\nptxas application "
                 "ptx input, line 9; fatal   : Unsupported .version 8.7; "
                 "current version is '8.4'"),
          TestTables())),
      ElementsAre("TP311", "TP302"));
}

// A fault of the device says nothing about code (Xid catalog).
TEST(Diagnose, DeviceFaultsGoFirst) {
  const auto reasons = Diagnose(
      Exited(1,
             "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the "
             "bus.\nCUDA error: unspecified launch failure"),
      TestTables());
  EXPECT_THAT(Codes(reasons), ElementsAre("TP322", "TP311", "TP302"));
  // One that the application caused is no fault of the device.
  EXPECT_EQ(First(Exited(1,
                         "NVRM: Xid (PCI:0000:01:00): 31, pid=1, MMU "
                         "Fault\nCUDA error: an illegal memory access was "
                         "encountered"))
                .cuda_error(),
            700u);
}

TEST(Diagnose, FalseAlarmsAreNoCause) {
  const std::string warning =
      "Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.\nMinimum and "
      "Maximum cuda capability supported by this version of PyTorch is (8.0) "
      "- (12.0)\n";
  EXPECT_THAT(Diagnose(Exited(0, warning), TestTables()), IsEmpty());
  EXPECT_THAT(Codes(Diagnose(Exited(3, warning), TestTables())),
              ElementsAre("TP302"));
}

TEST(Diagnose, SignalsSayWhatTheyAre) {
  v1::Observation observation;
  observation.set_ending(v1::ENDING_SIGNALED);
  observation.set_signal(4);
  EXPECT_THAT(Codes(Diagnose(observation, TestTables())),
              ElementsAre("TP323", "TP305"));
  observation.set_signal(9);
  EXPECT_THAT(First(observation).detail(), HasSubstr("out-of-memory killer"));
  observation.mutable_stderr()->set_head(
      "Memory cgroup out of memory: Killed process 1");
  EXPECT_THAT(Codes(Diagnose(observation, TestTables())),
              ElementsAre("TP313", "TP305"));
  // A shell passes a signal on as 128 + n.
  EXPECT_THAT(First(Exited(139)).detail(), HasSubstr("SIGSEGV (11)"));
  EXPECT_EQ(First(Exited(132)).code(), "TP323");
}

// The log has two faults; the program names the one that stopped it.
TEST(Diagnose, TheErrorThatTheProgramNamesDecides) {
  const std::string log =
      "Returning 222 (CUDA_ERROR_UNSUPPORTED_PTX_VERSION) from "
      "cuLibraryLoadData\n" +
      std::string(kNoImageLog);
  EXPECT_EQ(First(Exited(1, "", log)).cuda_error(), 209u);
  EXPECT_EQ(First(Exited(1,
                         "error: the provided PTX was compiled with an "
                         "unsupported toolchain.",
                         log))
                .cuda_error(),
            222u);
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
