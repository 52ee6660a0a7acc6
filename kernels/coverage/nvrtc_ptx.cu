// NVRTC to PTX at run time; the driver compiles it. With JIT compilation
// disabled it fails with 223: the native path cannot pass. Exact.

#include "runtime_compiler.h"

int main() {
  const std::string ptx = coverage::Nvrtc().Compile(
      "extern \"C\" __global__ void Runtime(int* out) {"
      "  out[threadIdx.x] = threadIdx.x * 3 + 4; }",
      {"--gpu-architecture=compute_" + coverage::DeviceNumber()},
      coverage::Nvrtc::Product::kPtx);
  coverage::LoadRunCompare(ptx, "Runtime", "nvrtc_ptx");
  return coverage::Pass("nvrtc_ptx: 64 values exact");
}
