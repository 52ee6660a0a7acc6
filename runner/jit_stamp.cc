#include "runner/jit_stamp.h"

#include <fcntl.h>
#include <stdlib.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "runner/jit_cache.h"

namespace twinpath::runner {
namespace {

// The folder is this process's own; a driver keeps an entry two levels down.
std::string FirstWriter(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(folder, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored) ||
        entry->path().filename() == std::string(kCacheIndex)) {
      continue;
    }
    const UniqueFd fd(::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) continue;
    const absl::StatusOr<std::string> head =
        PreadUpTo(fd.get(), 0, kCacheHeadBytes);
    if (!head.ok()) continue;
    if (std::string writer = CacheWriterOf(*head); !writer.empty()) {
      return writer;
    }
  }
  return "";
}

}  // namespace

JitStamp::JitStamp() {
  absl::StatusOr<TempDirectory> folder = TempDirectory::Make("");
  if (!folder.ok()) return;
  // The probe child has one thread here.
  if (setenv("CUDA_CACHE_PATH", folder->path().c_str(), 1) != 0) return;
  unsetenv("CUDA_CACHE_DISABLE");
  folder_ = *std::move(folder);
}

std::string JitStamp::Measure(const CudaDriver& driver, CudaDevice device,
                              uint32_t capability) const {
  if (!folder_ || driver.PrimaryContextRetain == nullptr ||
      driver.ContextSetCurrent == nullptr ||
      driver.ModuleLoadDataEx == nullptr) {
    return "";
  }
  void* context = nullptr;
  if (driver.PrimaryContextRetain(&context, device) != kCudaSuccess) return "";
  if (driver.ContextSetCurrent(context) == kCudaSuccess) {
    // The oldest that knows the target: every driver of the device takes it.
    const std::string ptx =
        absl::StrCat(".version ", capability >= 75 ? "6.3" : "6.0",
                     "\n.target sm_", capability >= 75 ? 75 : capability,
                     "\n.address_size 64\n.visible .entry k() { ret; }\n");
    void* module = nullptr;
    if (driver.ModuleLoadDataEx(&module, ptx.c_str(), 0, nullptr, nullptr) ==
            kCudaSuccess &&
        driver.ModuleUnload != nullptr) {
      driver.ModuleUnload(module);
    }
  }
  if (driver.PrimaryContextRelease != nullptr) {
    driver.PrimaryContextRelease(device);
  }
  return FirstWriter(folder_->path());
}

}  // namespace twinpath::runner
