// Two sources compiled to LTO-IR by NVRTC, linked and optimised together by
// nvJitLink, loaded as machine code. Exact.

#include <nvJitLink.h>

#include "runtime_compiler.h"

static void CheckLink(const char* call, nvJitLinkResult result) {
  if (result == NVJITLINK_SUCCESS) return;
  std::fprintf(stderr, "error: %s: nvJitLink error %d\n", call,
               static_cast<int>(result));
  std::exit(1);
}

// The header gives each function a name with its version, which the library
// exports beside the plain one.
template <typename F>
static F* Link(void* library, const char* name) {
  return coverage::Function<F>(library, name);
}

int main() {
  coverage::Nvrtc nvrtc;
  const std::string number = coverage::DeviceNumber();
  const std::vector<std::string> options = {
      "--gpu-architecture=compute_" + number, "-dlto",
      "--relocatable-device-code=true"};
  const std::string caller = nvrtc.Compile(
      "extern __device__ int Value(int i);"
      "extern \"C\" __global__ void Runtime(int* out) {"
      "  out[threadIdx.x] = Value(threadIdx.x); }",
      options, coverage::Nvrtc::Product::kLtoIr);
  const std::string callee =
      nvrtc.Compile("__device__ int Value(int i) { return i * 3 + 4; }",
                    options, coverage::Nvrtc::Product::kLtoIr);

  void* const library =
      coverage::OpenLibrary({"libnvJitLink.so.13", "libnvJitLink.so.12"});
  const std::string arch = "-arch=sm_" + number;
  const char* words[] = {"-lto", arch.c_str()};
  nvJitLinkHandle handle = nullptr;
  CheckLink("nvJitLinkCreate",
            Link<decltype(nvJitLinkCreate)>(library, "nvJitLinkCreate")(
                &handle, 2, words));
  for (const std::string* input : {&caller, &callee}) {
    CheckLink("nvJitLinkAddData",
              Link<decltype(nvJitLinkAddData)>(library, "nvJitLinkAddData")(
                  handle, NVJITLINK_INPUT_LTOIR, input->data(), input->size(),
                  "coverage"));
  }
  CheckLink("nvJitLinkComplete", Link<decltype(nvJitLinkComplete)>(
                                     library, "nvJitLinkComplete")(handle));
  std::size_t size = 0;
  CheckLink("nvJitLinkGetLinkedCubinSize",
            Link<decltype(nvJitLinkGetLinkedCubinSize)>(
                library, "nvJitLinkGetLinkedCubinSize")(handle, &size));
  std::string cubin(size, '\0');
  CheckLink("nvJitLinkGetLinkedCubin",
            Link<decltype(nvJitLinkGetLinkedCubin)>(
                library, "nvJitLinkGetLinkedCubin")(handle, &cubin[0]));
  Link<decltype(nvJitLinkDestroy)>(library, "nvJitLinkDestroy")(&handle);
  coverage::LoadRunCompare(cubin, "Runtime", "nvjitlink_lto");
  return coverage::Pass("nvjitlink_lto: two sources, 64 values exact");
}
