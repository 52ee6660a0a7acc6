// NVRTC to machine code at run time; the driver loads it as it is, also where
// JIT compilation is forced. Exact.

#include "runtime_compiler.h"

int main() {
  const std::string cubin = coverage::Nvrtc().Compile(
      "extern \"C\" __global__ void Runtime(int* out) {"
      "  out[threadIdx.x] = threadIdx.x * 3 + 4; }",
      {"--gpu-architecture=sm_" + coverage::DeviceNumber()},
      coverage::Nvrtc::Product::kCubin);
  coverage::LoadRunCompare(cubin, "Runtime", "nvrtc_cubin");
  return coverage::Pass("nvrtc_cubin: 64 values exact");
}
