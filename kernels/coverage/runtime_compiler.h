// NVRTC and nvJitLink as a host has them: opened at run time by name, so that a
// host without them says so (exit 3) instead of failing in the loader.

#ifndef TWINPATH_KERNELS_COVERAGE_RUNTIME_COMPILER_H_
#define TWINPATH_KERNELS_COVERAGE_RUNTIME_COMPILER_H_

#include <dlfcn.h>
#include <nvrtc.h>

#include <string>
#include <vector>

#include "coverage.h"

namespace coverage {

// Opens the first of the names, or ends the program.
inline void* OpenLibrary(const std::vector<const char*>& names) {
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  char reason[128];
  std::snprintf(reason, sizeof(reason), "the loader finds no %s", names[0]);
  NotApplicable(reason);
}

template <typename F>
F* Function(void* library, const char* name) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) {
    std::fprintf(stderr, "error: dlsym: %s\n", dlerror());
    std::exit(1);
  }
  return reinterpret_cast<F*>(symbol);
}

class Nvrtc {
 public:
  Nvrtc() : library_(OpenLibrary({"libnvrtc.so.13", "libnvrtc.so.12"})) {}

  // What compile options make of a source: PTX, a cubin or LTO-IR.
  enum class Product { kPtx, kCubin, kLtoIr };
  std::string Compile(const char* source, std::vector<std::string> options,
                      Product product) {
    nvrtcProgram program = nullptr;
    Check(
        "nvrtcCreateProgram",
        Function<decltype(nvrtcCreateProgram)>(library_, "nvrtcCreateProgram")(
            &program, source, "coverage.cu", 0, nullptr, nullptr));
    std::vector<const char*> words;
    for (const std::string& option : options) words.push_back(option.c_str());
    const nvrtcResult compiled = Function<decltype(nvrtcCompileProgram)>(
        library_, "nvrtcCompileProgram")(
        program, static_cast<int>(words.size()), words.data());
    if (compiled != NVRTC_SUCCESS) PrintLog(program);
    Check("nvrtcCompileProgram", compiled);
    std::string bytes;
    std::size_t size = 0;
    switch (product) {
      case Product::kPtx:
        Check("nvrtcGetPTXSize",
              Function<decltype(nvrtcGetPTXSize)>(library_, "nvrtcGetPTXSize")(
                  program, &size));
        bytes.resize(size);
        Check("nvrtcGetPTX", Function<decltype(nvrtcGetPTX)>(
                                 library_, "nvrtcGetPTX")(program, &bytes[0]));
        break;
      case Product::kCubin:
        Check("nvrtcGetCUBINSize",
              Function<decltype(nvrtcGetCUBINSize)>(
                  library_, "nvrtcGetCUBINSize")(program, &size));
        bytes.resize(size);
        Check("nvrtcGetCUBIN",
              Function<decltype(nvrtcGetCUBIN)>(library_, "nvrtcGetCUBIN")(
                  program, &bytes[0]));
        break;
      case Product::kLtoIr:
        Check("nvrtcGetLTOIRSize",
              Function<decltype(nvrtcGetLTOIRSize)>(
                  library_, "nvrtcGetLTOIRSize")(program, &size));
        bytes.resize(size);
        Check("nvrtcGetLTOIR",
              Function<decltype(nvrtcGetLTOIR)>(library_, "nvrtcGetLTOIR")(
                  program, &bytes[0]));
        break;
    }
    Function<decltype(nvrtcDestroyProgram)>(library_,
                                            "nvrtcDestroyProgram")(&program);
    return bytes;
  }

 private:
  void Check(const char* call, nvrtcResult result) {
    if (result == NVRTC_SUCCESS) return;
    std::fprintf(stderr, "error: %s: NVRTC error %d\n", call,
                 static_cast<int>(result));
    std::exit(1);
  }
  void PrintLog(nvrtcProgram program) {
    std::size_t size = 0;
    Function<decltype(nvrtcGetProgramLogSize)>(
        library_, "nvrtcGetProgramLogSize")(program, &size);
    std::string log(size, ' ');
    Function<decltype(nvrtcGetProgramLog)>(library_, "nvrtcGetProgramLog")(
        program, &log[0]);
    std::fprintf(stderr, "%s\n", log.c_str());
  }

  void* library_;
};

// "90" of the current device.
inline std::string DeviceNumber() {
  int device = 0;
  int major = 0;
  int minor = 0;
  Check("cudaGetDevice", cudaGetDevice(&device));
  Check("cudaDeviceGetAttribute",
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                               device));
  Check("cudaDeviceGetAttribute",
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor,
                               device));
  return std::to_string(major * 10 + minor);
}

// Gives an image to the driver, launches `kernel`(int* out) on 64 threads and
// compares out[i] with i * 3 + 4.
inline void LoadRunCompare(const std::string& image, const char* kernel,
                           const char* what) {
  cudaLibrary_t library = nullptr;
  cudaKernel_t function = nullptr;
  Check("cudaLibraryLoadData",
        cudaLibraryLoadData(&library, image.data(), nullptr, nullptr, 0,
                            nullptr, nullptr, 0));
  Check("cudaLibraryGetKernel",
        cudaLibraryGetKernel(&function, library, kernel));
  DeviceArray<int> out(64);
  int* pointer = out.get();
  void* arguments[] = {&pointer};
  Check("cudaLaunchKernel",
        cudaLaunchKernel(reinterpret_cast<const void*>(function), dim3(1),
                         dim3(64), arguments, 0, nullptr));
  CheckLaunch(kernel);
  std::vector<int> want(64);
  for (int i = 0; i < 64; ++i) want[i] = i * 3 + 4;
  Compare(what, out.Read(), want, 0);
  Check("cudaLibraryUnload", cudaLibraryUnload(library));
}

}  // namespace coverage

#endif  // TWINPATH_KERNELS_COVERAGE_RUNTIME_COMPILER_H_
