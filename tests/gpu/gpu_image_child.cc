// Gives images of one file to the driver, one after another, and says what it
// answers. The JIT switches and CUDA_MODULE_LOADING are the environment's; the
// driver may end this process at any image, so each answer is written at once.
//
//   gpu_image_child FILE     jobs as lines on standard input (image_job.h)
//
// Output: "<id> <CUDA result>" a line; "<id> -1" where the bytes could not be
// read. "init <result>" alone: no device. Each module is unloaded before the
// next one is loaded, so that device memory holds one at a time.

#include <fcntl.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "absl/status/statusor.h"
#include "runner/driver_library.h"
#include "tests/gpu/image_job.h"

namespace twinpath::gpu {
namespace {

void Say(uint32_t id, int result) {
  std::printf("%u %d\n", id, result);
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: gpu_image_child FILE <JOBS\n");
    return 2;
  }
  const int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    std::perror(argv[1]);
    return 2;
  }
  runner::CudaDriver driver;
  int result = 0;
  runner::CudaDevice device = 0;
  void* context = nullptr;
  if (!driver.Load()) {
    std::fprintf(stderr, "libcuda.so.1: %s\n", driver.error.c_str());
    return 3;
  }
  if (driver.Init == nullptr || driver.DeviceGet == nullptr ||
      driver.PrimaryContextRetain == nullptr ||
      driver.ContextSetCurrent == nullptr ||
      driver.ModuleLoadDataEx == nullptr || driver.ModuleUnload == nullptr) {
    std::fprintf(stderr, "libcuda.so.1 lacks a function this needs\n");
    return 3;
  }
  if ((result = driver.Init(0)) != 0 ||
      (result = driver.DeviceGet(&device, 0)) != 0 ||
      (result = driver.PrimaryContextRetain(&context, device)) != 0 ||
      (result = driver.ContextSetCurrent(context)) != 0) {
    std::printf("init %d\n", result);
    return 3;
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    const absl::StatusOr<ImageJob> job = ImageJob::Parse(line);
    if (!job.ok()) return 2;
    const absl::StatusOr<std::string> bytes = BytesOf(fd, *job);
    if (!bytes.ok()) {
      std::fprintf(stderr, "%u: %s\n", job->id,
                   std::string(bytes.status().message()).c_str());
      Say(job->id, -1);
      continue;
    }
    void* module = nullptr;
    result =
        driver.ModuleLoadDataEx(&module, bytes->data(), 0, nullptr, nullptr);
    Say(job->id, result);
    if (result == 0) driver.ModuleUnload(module);
  }
  return 0;
}

}  // namespace
}  // namespace twinpath::gpu

int main(int argc, char** argv) { return twinpath::gpu::Main(argc, argv); }
