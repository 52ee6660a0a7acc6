#include "compat/fix.h"

#include "absl/strings/str_cat.h"

namespace twinpath::compat::internal {
namespace {

// "nvcc 12.9 or later", "nvcc 12.9 or earlier", or empty.
std::string ToolkitRange(uint32_t device, const Tables& tables) {
  const GpuRow* row = tables.FindGpu(device);
  if (row == nullptr) return "";
  if (row->toolkit_last) {
    return absl::StrCat("nvcc ", row->toolkit_last->ToString(), " or earlier");
  }
  // Older first toolkits are everywhere; naming them helps nobody.
  if (row->toolkit_first && row->toolkit_first->major >= 11) {
    return absl::StrCat("nvcc ", row->toolkit_first->ToString(), " or later");
  }
  return "";
}

std::string WithRange(std::string flag, uint32_t device, const Tables& tables) {
  const std::string range = ToolkitRange(device, tables);
  if (!range.empty()) absl::StrAppend(&flag, " (", range, ")");
  return flag;
}

// Whether a driver branch still drives the device.
bool Drives(uint32_t branch, uint32_t device, const Tables& tables) {
  const GpuRow* row = tables.FindGpu(device);
  return row == nullptr || !row->driver_last || branch <= *row->driver_last;
}

}  // namespace

std::string MachineCodeFlag(uint32_t device, const Tables& tables) {
  return WithRange(
      absl::StrCat("-gencode arch=compute_", device, ",code=sm_", device),
      device, tables);
}

std::string PtxFlag(uint32_t device, const Tables& tables) {
  return WithRange(
      absl::StrCat("-gencode arch=compute_", device, ",code=compute_", device),
      device, tables);
}

std::string DriverForPtx(TwoPart isa, uint32_t device, const Tables& tables) {
  const DriverRow* row = tables.FirstDriverForPtx(isa);
  if (row == nullptr || !Drives(row->branch, device, tables)) return "";
  const GpuRow* gpu = tables.FindGpu(device);
  if (gpu != nullptr && gpu->tegra()) {
    return absl::StrCat("a JetPack with CUDA ", row->cuda.ToString(),
                        " or later");
  }
  return absl::StrCat("driver R", row->branch, " (CUDA ", row->cuda.ToString(),
                      ") or later");
}

std::string FixFor(const Decision& decision, v1::Path path,
                   const HostView& host, const Tables& tables) {
  const uint32_t device = host.device;
  const std::string sass =
      absl::StrCat("add ", MachineCodeFlag(device, tables));
  const std::string ptx = absl::StrCat("add ", PtxFlag(device, tables));
  switch (decision.cause) {
    case Cause::kJitDisabled:
      return sass;
    case Cause::kNoPtx:
      return ptx;
    case Cause::kNoImage:
    case Cause::kSuffix:
    case Cause::kPtxTargetTooNew:
      return path == v1::PATH_PTX_JIT ? ptx : sass;
    case Cause::kPtxNewerThanDriver: {
      const std::string driver =
          decision.image == nullptr
              ? ""
              : DriverForPtx(decision.image->ptx_isa, device, tables);
      if (path == v1::PATH_PTX_JIT) {
        const std::string older = absl::StrCat(
            "build the PTX with CUDA ",
            host.cuda ? host.cuda->ToString() : "of the driver", " or older");
        return driver.empty() ? older : absl::StrCat(driver, "; or ", older);
      }
      return driver.empty() ? sass : absl::StrCat(sass, "; or ", driver);
    }
    case Cause::kCompression:
      return absl::StrCat("driver ", tables.zstd_first_driver(), " (CUDA ",
                          tables.zstd_first_cuda().ToString(),
                          ") or later; or build with --compress-mode=speed or "
                          "none");
    case Cause::kTegra:
      return absl::StrCat("run it there; or ", sass);
    case Cause::kToolkitNewerThanDriver: {
      const std::string older = absl::StrCat(
          "build with CUDA ", host.cuda ? host.cuda->major : 0, " or older");
      const std::string driver =
          tables.MinimumDriver(decision.image->toolkit_major);
      const auto parsed = DriverVersion::Parse(driver);
      if (!parsed || !Drives(parsed->branch(), device, tables)) return older;
      return absl::StrCat("driver ", driver, " or later; or ", older);
    }
    default:
      return "";
  }
}

}  // namespace twinpath::compat::internal
