#include "runner/ptx_ceiling.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"

namespace twinpath::runner {
namespace {

constexpr size_t kLogBytes = 16 << 10;

v1::ProbeResult Failed(std::string error, CudaResult result = 0) {
  v1::ProbeResult probe;
  probe.set_state(v1::PROBE_STATE_FAILED);
  probe.set_error(std::move(error));
  probe.set_cuda_error(static_cast<uint32_t>(result));
  return probe;
}

}  // namespace

std::optional<v1::Version> CurrentVersionOf(absl::string_view log) {
  constexpr absl::string_view kMark = "current version is '";
  const size_t at = log.find(kMark);
  if (at == absl::string_view::npos) return std::nullopt;
  const absl::string_view rest = log.substr(at + kMark.size());
  const size_t end = rest.find('\'');
  if (end == absl::string_view::npos) return std::nullopt;
  const std::vector<std::string> parts =
      absl::StrSplit(rest.substr(0, end), '.');
  v1::Version version;
  uint32_t number = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &number) || number > 999)
    return std::nullopt;
  version.set_major(number);
  if (!absl::SimpleAtoi(parts[1], &number) || number > 999) return std::nullopt;
  version.set_minor(number);
  return version;
}

v1::ProbeResult MeasurePtxCeiling(const CudaDriver& driver, CudaDevice device,
                                  uint32_t capability, v1::Version& ceiling) {
  if (driver.PrimaryContextRetain == nullptr ||
      driver.ContextSetCurrent == nullptr ||
      driver.ModuleLoadDataEx == nullptr) {
    return Failed("the driver lacks a function this needs");
  }
  void* context = nullptr;
  CudaResult result = driver.PrimaryContextRetain(&context, device);
  if (result != kCudaSuccess) {
    return Failed(
        absl::StrCat("cuDevicePrimaryCtxRetain: ", driver.Describe(result)),
        result);
  }
  result = driver.ContextSetCurrent(context);
  v1::ProbeResult probe;
  if (result != kCudaSuccess) {
    probe = Failed(absl::StrCat("cuCtxSetCurrent: ", driver.Describe(result)),
                   result);
  } else {
    // A few spellings, since a compiler may refuse to parse an absurd one.
    for (const char* version : {"99.0", "19.9", "10.9", "9.9"}) {
      const std::string ptx =
          absl::StrCat(".version ", version, "\n.target sm_", capability,
                       "\n.address_size 64\n.visible .entry k() { ret; }\n");
      std::vector<char> log(kLogBytes, '\0');
      int options[] = {kCudaJitErrorLogBuffer, kCudaJitErrorLogBufferSize};
      void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
      void* module = nullptr;
      result =
          driver.ModuleLoadDataEx(&module, ptx.c_str(), 2, options, values);
      log.back() = '\0';
      if (result == kCudaSuccess) {
        if (driver.ModuleUnload != nullptr) driver.ModuleUnload(module);
        probe = Failed(
            absl::StrCat("the driver compiled PTX of version ", version));
        continue;
      }
      if (const auto found = CurrentVersionOf(log.data()); found.has_value()) {
        ceiling = *found;
        probe.Clear();
        probe.set_state(v1::PROBE_STATE_OK);
        break;
      }
      probe = Failed(
          absl::StrCat("cuModuleLoadDataEx: ", driver.Describe(result),
                       "; its log names no version: ",
                       Printable(absl::string_view(log.data()).substr(0, 300))),
          result);
    }
  }
  if (driver.PrimaryContextRelease != nullptr) {
    driver.PrimaryContextRelease(device);
  }
  return probe;
}

}  // namespace twinpath::runner
