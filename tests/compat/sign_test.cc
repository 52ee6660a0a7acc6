#include "compat/sign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compat/cuda_error.h"
#include "tests/compat/fake_host.h"

namespace twinpath::compat {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// "error 209", "status cublas 14", "cause TP201", "xid 79" for each sign.
std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words;
  for (const Sign& sign : SignsOf(text, TestTables())) {
    switch (sign.kind) {
      case Sign::Kind::kError:
        words.push_back(absl::StrCat("error ", sign.code));
        break;
      case Sign::Kind::kStatus:
        words.push_back(
            absl::StrCat("status ", sign.status->library, " ", sign.code));
        break;
      case Sign::Kind::kMessage:
        words.push_back(
            absl::StrCat(EffectName(sign.effect), " ", sign.message->reason));
        break;
      case Sign::Kind::kXid:
        words.push_back(
            absl::StrCat("xid ", sign.code, " ", OriginName(sign.xid->origin)));
        break;
      case Sign::Kind::kUnknownXid:
        words.push_back(absl::StrCat("unknown xid ", sign.code));
        break;
      case Sign::Kind::kReason:
        words.push_back(std::string(sign.reason->code));
        break;
    }
  }
  return words;
}

struct Line {
  // What the sign is, as Words() says it.
  const char* sign;
  const char* text;
};

class KnownLines : public ::testing::TestWithParam<Line> {};

TEST_P(KnownLines, SayWhatTheyMean) {
  EXPECT_THAT(Words(GetParam().text), Contains(GetParam().sign))
      << GetParam().text;
}

// Lines as people met them; the threads stand in tables/messages.yaml.
INSTANTIATE_TEST_SUITE_P(
    Errors, KnownLines,
    ::testing::Values(
        Line{"error 209",
             "Returning 209 (CUDA_ERROR_NO_BINARY_FOR_GPU) from "
             "cuLibraryGetKernel"},
        Line{"error 209",
             "RuntimeError: CUDA error: no kernel image is "
             "available for execution on the device"},
        Line{"error 209",
             "common.cu:253 'no kernel image is available for "
             "execution on the device'"},
        Line{"error 209",
             "CUDA error at app.cu:12 "
             "code=209(cudaErrorNoKernelImageForDevice) \"f\""},
        Line{"error 209",
             "Failed to load in-memory CUBIN: "
             "CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image"},
        Line{"error 209", "CUDA failure 209: no binary ; GPU=0"},
        Line{"error 222",
             "numba.cuda.cudadrv.driver.CudaAPIError: [222] Call "
             "to cuLinkAddData results in UNKNOWN_CUDA_ERROR"},
        Line{"error 222",
             "CUDA driver API error "
             "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (code: 222, "
             "file: cuda.cpp)"},
        Line{"error 218",
             "Failed to load PTX text as a module: "
             "CUDA_ERROR_INVALID_PTX: a PTX JIT compilation "
             "failed"},
        Line{"error 303", "failed call to cuInit: UNKNOWN ERROR (303)"},
        Line{"error 100",
             "ggml_cuda_init: failed to initialize CUDA: no "
             "CUDA-capable device is detected"},
        Line{"error 802",
             "ggml_cuda_init: failed to initialize CUDA: system "
             "not yet initialized"},
        Line{"error 803",
             "ggml_cuda_init: failed to initialize CUDA: system "
             "has unsupported display driver / cuda driver "
             "combination"},
        Line{"error 3",
             "ggml_cuda_init:failed to initialize CUDA:"
             "initialization error"},
        Line{"error 35",
             "cudaGetDeviceCount failed: CUDA driver version is "
             "insufficient for CUDA runtime version"},
        Line{"error 803", "cuInit failed: CUDA error 803"},
        Line{"error 100", "cuInit(0) returned 100"},
        Line{"error 500",
             "Error named symbol not found at line 90 in file "
             "/src/csrc/ops.cu"},
        Line{"error 700",
             "CUDA error: an illegal memory access was "
             "encountered"},
        Line{"error 719", "CUDA error: unspecified launch failure"},
        Line{"error 701", "too many resources requested for launch"},
        Line{"error 46",
             "vectorAdd: CUDA-capable device(s) is/are busy or "
             "unavailable"},
        Line{"error 2", "CUDA error: out of memory"}));

INSTANTIATE_TEST_SUITE_P(
    Statuses, KnownLines,
    ::testing::Values(
        Line{"status cublas 14",
             "RuntimeError: CUDA error: "
             "CUBLAS_STATUS_INTERNAL_ERROR when calling "
             "`cublasCreate(handle)`"},
        Line{"status cublas 14", "cublasCreate returned 14"},
        Line{"status cublas 3", "cuBLAS error 3 at ggml-cuda.cu:5552"},
        Line{"status cublas 8",
             "CUDA runtime error: "
             "CUBLAS_STATUS_ARCH_MISMATCH "
             "open_attention.h:171"},
        Line{"status cufft 5", "cufftPlan1d failed with 5"},
        Line{"status cufft 5", "cuFFT error: CUFFT_INTERNAL_ERROR"},
        Line{"status cudnn 3007",
             "RuntimeError: cuDNN error: "
             "CUDNN_STATUS_ARCH_MISMATCH"},
        Line{"status cudnn 5000", "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"},
        Line{"status nccl 1",
             "ncclUnhandledCudaError: Call to CUDA function "
             "failed."},
        Line{"status nvrtc 5", "NVRTCError: NVRTC_ERROR_INVALID_OPTION (5)"},
        Line{"status nvjitlink 4",
             "NVJITLINK_ERROR_PTX_COMPILE error when "
             "calling nvJitLinkAddData"},
        Line{"status nvml 18", "NVML_ERROR_LIB_RM_VERSION_MISMATCH"}));

INSTANTIATE_TEST_SUITE_P(
    Frameworks, KnownLines,
    ::testing::Values(Line{"cause TP207",
                           "UserWarning: CUDA initialization: The NVIDIA "
                           "driver on your system is too old (found version "
                           "11040)."},
                      Line{"cause TP102",
                           "CUDA initialization: CUDA unknown error - this "
                           "may be due to an incorrectly set up environment"},
                      Line{"gate TP241",
                           "AssertionError: Torch not compiled with CUDA "
                           "enabled"},
                      Line{"cpu TP320",
                           "Cannot dlopen some GPU libraries. Please make sure "
                           "the missing libraries mentioned above"},
                      Line{"hint TP231",
                           "Could not load dynamic library 'libcusolver.so."
                           "11'; dlerror: libcusolver.so.11"},
                      Line{"hint TP206",
                           "TensorFlow was not built with CUDA kernel binaries "
                           "compatible with compute capability 12.0. CUDA "
                           "kernels will be jit-compiled from PTX"},
                      Line{"memory TP313",
                           "RESOURCE_EXHAUSTED: Failed to load in-memory "
                           "CUBIN (compiled for a different GPU?)"},
                      Line{"hint ",
                           "Failed to load in-memory CUBIN (compiled for a "
                           "different GPU?)."},
                      Line{
                          "cpu TP320",
                          "An NVIDIA GPU may be present on this machine, but a "
                          "CUDA-enabled jaxlib is not installed. Falling back "
                          "to cpu."},
                      Line{"hint TP206",
                           "Falling back to the CUDA driver for PTX "
                           "compilation; ptxas does not support CC 9.0"},
                      Line{"cpu TP320",
                           "Failed to create CUDAExecutionProvider. Require "
                           "cuDNN 9.* and CUDA 12.*"},
                      Line{"loader TP231",
                           "[ONNXRuntimeError] : 1 : FAIL : Failed to load "
                           "library libonnxruntime_providers_cuda.so with "
                           "error: libcublasLt.so.12: cannot open shared "
                           "object file: No such file or directory"},
                      Line{"cpu TP320",
                           "warning: no usable GPU found, --gpu-layers option "
                           "will be ignored"},
                      Line{"cpu TP320",
                           "gpu.go:138: CUDA GPU is too old. Falling back to "
                           "CPU mode. Compute Capability detected: 5.2"},
                      Line{"gate TP321",
                           "common.cuh:112: ggml was not compiled with any "
                           "CUDA arch <= 750"},
                      Line{"cause TP234",
                           "ERROR: CUDA kernel mul_mat_q has no device code "
                           "compatible with CUDA arch 520. ggml-cuda.cu was "
                           "compiled for: 520"},
                      Line{"gate TP321",
                           "The engine plan file is generated on an "
                           "incompatible device, expecting compute 8.6 got "
                           "compute 7.5, please rebuild."},
                      Line{"gate TP321",
                           "FATAL: kernel `fmha` is for sm80-sm100, but was "
                           "built for sm121"},
                      Line{"compiler TP324",
                           "ptxas fatal   : Value 'sm_121a' is not defined "
                           "for option 'gpu-name'"},
                      Line{"compiler TP204",
                           "ptxas application ptx input, line 9; fatal   : "
                           "Unsupported .version 8.7; current version is "
                           "'8.4'"},
                      Line{"compiler TP324",
                           "cupy.cuda.compiler.CompileException: nvrtc: "
                           "error: invalid value for --gpu-architecture "
                           "(-arch)"},
                      Line{"cause ",
                           "out of resource: shared memory, Required: 131072, "
                           "Hardware limit: 101376. Reducing block sizes"}));

INSTANTIATE_TEST_SUITE_P(
    LoadersAndHosts, KnownLines,
    ::testing::Values(
        Line{"loader TP312",
             "./app: error while loading shared libraries: "
             "libcudart.so.13: cannot open shared object file"},
        Line{"loader TP101",
             "ImportError: libcuda.so.1: cannot open shared "
             "object file: No such file or directory"},
        Line{"loader TP312",
             "./app: /lib/x86_64-linux-gnu/libc.so.6: version "
             "`GLIBC_2.38' not found (required by ./app)"},
        Line{"loader TP312",
             "libcusparse.so.12: undefined symbol: "
             "__nvJitLinkComplete_12_4, version "
             "libnvJitLink.so.12"},
        Line{"loader TP208", "libx.so: wrong ELF class: ELFCLASS32"},
        Line{"loader TP208", "exec /usr/bin/python: Exec format error"},
        Line{"loader TP208", "bash: ./app: cannot execute binary file"},
        Line{"loader TP233", "OSError: libfoo.so: invalid ELF header"},
        Line{"loader TP208", "ELF load command alignment not page-aligned"},
        Line{"cause TP104",
             "Failed to initialize NVML: Driver/library version "
             "mismatch"},
        Line{"cause TP102",
             "NVIDIA-SMI has failed because it couldn't "
             "communicate with the NVIDIA driver. Make sure"},
        Line{"cause TP325",
             "nvidia-container-cli: requirement error: "
             "unsatisfied condition: cuda>=12.8, please update "
             "your driver"},
        Line{"cause TP323", "Illegal instruction (core dumped)"},
        Line{"cause TP135",
             "docker: Error response from daemon: could not select device "
             "driver \"\" with capabilities: [[gpu]]"},
        Line{"cause TP135",
             "docker: Error response from daemon: unknown or invalid runtime "
             "name: nvidia"},
        Line{"cause TP135",
             "Error: setting up CDI devices: unresolvable CDI devices "
             "nvidia.com/gpu=all"},
        Line{"cause TP106", "RuntimeError: No CUDA GPUs are available"},
        Line{"hint TP106", "No devices were found"},
        Line{"cause TP102",
             "modprobe: ERROR: could not insert 'nvidia': Key was rejected by "
             "service"},
        Line{"hint ",
             "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/"
             "NCCLUtils.hpp:317, unhandled system error (run with "
             "NCCL_DEBUG=INFO for details), NCCL version 2.21.5"},
        Line{"hint ",
             "FAILED_PRECONDITION: DNN library initialization failed. Look at "
             "the errors above for more details."},
        Line{"hint ", "Bus error (core dumped)"},
        Line{"loader TP312",
             "ImportError: libcudart.so.12: cannot open shared object file"},
        Line{"memory TP313",
             "Out of memory: Killed process 4711 (python3) "
             "total-vm:1kB"},
        Line{"xid 79 hardware",
             "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU "
             "has fallen off the bus."},
        Line{"xid 31 application",
             "[ 1.0] NVRM: Xid (PCI:0000:10:1c): 31, "
             "pid=1896, MMU Fault"},
        Line{"xid 74 fabric", "NVRM: Xid (PCI:0000:10:1c): 74, NVLink"},
        Line{"unknown xid 999", "NVRM: Xid (PCI:0000:10:1c): 999, new"},
        Line{"cause TP322",
             "NVRM: fallen off the bus and is not responding to "
             "commands."},
        Line{"TP204", "native: TP204 ptx-newer-than-driver: PTX 9.3"}));

// Lines that look alike and say nothing about CUDA.
TEST(Signs, NothingIsMadeOfOrdinaryLines) {
  for (const char* text :
       {"all is well", "HTTP error 209", "GET /x returned 404",
        "mkdir: invalid argument", "curl: operation not permitted",
        "error: file not found", "unknown error", "exit status 1",
        "Returning 201 (CUDA_ERROR_INVALID_CONTEXT) from cuCtxGetDevice",
        "Returning 500 (CUDA_ERROR_NOT_FOUND) from cuGetProcAddress_v2",
        "Returning 600 (CUDA_ERROR_NOT_READY) from cuEventQuery",
        "epoch 209: loss 0.1 on cuda:0", "status code 200",
        "loaded 35 kernels for cuda", "TP-Link", "httpd 200", ""}) {
    EXPECT_THAT(Words(text), IsEmpty()) << text;
  }
}

// pytorch/pytorch#172629: the build has sm_120, which runs on 12.1.
TEST(Signs, AWarningAboutCodeThatRunsIsHarmless) {
  const std::string head =
      "Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.\n"
      "    Minimum and Maximum cuda capability supported by this version of "
      "PyTorch is\n    (8.0) - (12.0)\n";
  EXPECT_THAT(Words(head), ::testing::ElementsAre("harmless "));
  EXPECT_THAT(Words("which is of cuda capability 12.1. PyTorch is (8.0) - "
                    "(9.0)"),
              ::testing::ElementsAre("hint "));
  const std::string list =
      "NVIDIA GB10 with CUDA capability sm_121 is not compatible with the "
      "current PyTorch installation.\nThe current PyTorch install supports "
      "CUDA capabilities sm_80 sm_90 sm_100 sm_120.\n";
  EXPECT_THAT(Words(list), ::testing::ElementsAre("harmless TP201"));
  const std::string real =
      "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible "
      "with the current PyTorch installation.\nThe current PyTorch install "
      "supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.\n";
  EXPECT_THAT(Words(real), ::testing::ElementsAre("cause TP201"));
}

// Machine code of another part of the same major is not promised on Tegra
// (Programming Guide), sm_80 was seen to run on Orin
// (bitsandbytes-foundation/bitsandbytes#1930): neither harmless nor a cause.
TEST(Signs, AListForOrinIsJudgedAsPredictionsAre) {
  const auto of = [](const std::string& gpu, const std::string& list) {
    return Words("GPU with CUDA capability " + gpu +
                 " is not compatible with the current PyTorch installation.\n"
                 "The current PyTorch install supports CUDA capabilities " +
                 list + ".\n");
  };
  EXPECT_THAT(of("sm_87", "sm_80 sm_86 sm_90"),
              ::testing::ElementsAre("hint TP201"));
  EXPECT_THAT(of("sm_87", "sm_80 sm_87"),
              ::testing::ElementsAre("harmless TP201"));
  EXPECT_THAT(of("sm_87", "sm_75 sm_90"),
              ::testing::ElementsAre("cause TP201"));
  // sm_87 code on a card.
  EXPECT_THAT(of("sm_89", "sm_87"), ::testing::ElementsAre("hint TP201"));
  // An a target is for its own number alone.
  EXPECT_THAT(of("sm_121", "sm_120a"), ::testing::ElementsAre("cause TP201"));
  EXPECT_THAT(of("sm_121", "sm_120f"),
              ::testing::ElementsAre("harmless TP201"));
  EXPECT_THAT(Words("which is of cuda capability 8.7. PyTorch is (5.0) - "
                    "(8.6)"),
              ::testing::ElementsAre("hint "));
}

TEST(Signs, TheKernelOfALineBeforeBelongsToTheError) {
  const auto signs = SignsOf(
      "Kernel (_Z6kernelPi) cannot be found in library 0x55\nnoise\n"
      "Returning 209 (CUDA_ERROR_NO_BINARY_FOR_GPU) from cuLibraryGetKernel\n",
      TestTables());
  ASSERT_THAT(signs, SizeIs(1));
  EXPECT_EQ(signs[0].kernel, "_Z6kernelPi");
  EXPECT_EQ(signs[0].call, "cuLibraryGetKernel");
  EXPECT_EQ(signs[0].line_number, 3u);
}

TEST(Signs, HostileLines) {
  std::string text(1 << 20, 'A');
  text += "\n";
  for (int i = 0; i < 5000; ++i) text += "CUDA error: invalid argument\n";
  text += std::string("\0\xFF error 209 cuda\n", 19);
  const auto signs = SignsOf(text, TestTables());
  EXPECT_LE(signs.size(), 2001u);
  EXPECT_EQ(signs.back().code, 209u);
}

// Words stand in the table, meaning in cuda_error.cc: about the same numbers.
TEST(CudaErrors, TableAndKindsHaveTheSameNumbers) {
  std::set<uint32_t> table;
  for (const ErrorRow& row : TestTables().errors()) table.insert(row.code);
  for (uint32_t code = 1; code < 10000; ++code) {
    EXPECT_EQ(KindOfError(code) != ErrorKind::kUnknown, table.count(code) == 1)
        << code;
  }
  for (const ErrorRow& row : TestTables().errors()) {
    const ErrorKind kind = KindOfError(row.code);
    if (kind == ErrorKind::kExecution) {
      EXPECT_EQ(row.phase, "run") << row.code;
    }
    if (row.process_must_restart) {
      EXPECT_TRUE(kind == ErrorKind::kExecution || kind == ErrorKind::kState ||
                  row.code == 810 || row.code == 911)
          << row.code;
    }
  }
  EXPECT_EQ(KindOfError(0), ErrorKind::kUnknown);
}

// CUDA 13.0 defines 132 runtime errors (driver_types.h) and two numbers that
// only the driver has.
TEST(CudaErrors, EveryNumberOfTheToolkitIsKnown) {
  EXPECT_THAT(TestTables().errors(), SizeIs(134));
}

}  // namespace
}  // namespace twinpath::compat
