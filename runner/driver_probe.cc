#include "runner/driver_probe.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/digest.h"
#include "base/file.h"
#include "runner/driver_library.h"
#include "runner/jit_stamp.h"
#include "runner/ptx_ceiling.h"

namespace twinpath::runner {
namespace {

constexpr unsigned kMaxDevices = 256;
constexpr unsigned kMaxMigDevices = 64;
constexpr absl::string_view kVersionFile = "/proc/driver/nvidia/version";

void SetResult(v1::ProbeResult& probe, v1::ProbeState state,
               absl::string_view error = "", CudaResult cuda_error = 0) {
  probe.set_state(state);
  probe.set_error(std::string(error));
  probe.set_cuda_error(static_cast<uint32_t>(cuda_error));
}

// A device as the CUDA driver shows it.
struct CudaView {
  CudaDevice device = 0;
  std::string uuid;  // "8-4-4-4-12" without prefix
  std::string name;
  std::string pci_address;
  std::optional<std::pair<int, int>> capability;
  std::string capability_error;
  CudaResult capability_result = 0;
  std::optional<uint64_t> memory;
  std::optional<bool> integrated;
};

std::string UuidText(const CudaUuid& uuid) {
  const std::string hex = absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(uuid.bytes), sizeof(uuid.bytes)));
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-",
                      hex.substr(12, 4), "-", hex.substr(16, 4), "-",
                      hex.substr(20));
}

// Without "GPU-" or "MIG-".
absl::string_view BareUuid(absl::string_view uuid) {
  if (!absl::ConsumePrefix(&uuid, "GPU-")) absl::ConsumePrefix(&uuid, "MIG-");
  return uuid;
}

CudaView ViewOf(const CudaDriver& cuda, CudaDevice device) {
  CudaView view;
  view.device = device;
  CudaUuid uuid{};
  if (cuda.DeviceGetUuid != nullptr &&
      cuda.DeviceGetUuid(&uuid, device) == kCudaSuccess) {
    view.uuid = UuidText(uuid);
  }
  char text[256] = {};
  if (cuda.DeviceGetName != nullptr &&
      cuda.DeviceGetName(text, sizeof(text) - 1, device) == kCudaSuccess) {
    view.name = text;
  }
  char pci[64] = {};
  if (cuda.DeviceGetPciBusId != nullptr &&
      cuda.DeviceGetPciBusId(pci, sizeof(pci) - 1, device) == kCudaSuccess) {
    view.pci_address = pci;
  }
  if (cuda.DeviceGetAttribute == nullptr) {
    view.capability_error = "the driver has no cuDeviceGetAttribute";
  } else {
    int major = 0;
    int minor = 0;
    CudaResult result =
        cuda.DeviceGetAttribute(&major, kCudaAttributeCapabilityMajor, device);
    if (result == kCudaSuccess) {
      result = cuda.DeviceGetAttribute(&minor, kCudaAttributeCapabilityMinor,
                                       device);
    }
    if (result == kCudaSuccess && major > 0 && minor >= 0) {
      view.capability = {major, minor};
    } else {
      view.capability_error =
          absl::StrCat("cuDeviceGetAttribute: ", cuda.Describe(result));
      view.capability_result = result;
    }
    int integrated = 0;
    if (cuda.DeviceGetAttribute(&integrated, kCudaAttributeIntegrated,
                                device) == kCudaSuccess) {
      view.integrated = integrated != 0;
    }
  }
  size_t memory = 0;
  if (cuda.DeviceTotalMem != nullptr &&
      cuda.DeviceTotalMem(&memory, device) == kCudaSuccess) {
    view.memory = memory;
  }
  return view;
}

// Lists CUDA's devices; the result says how that ended.
v1::ProbeResult ListCudaDevices(const CudaDriver& cuda,
                                std::vector<CudaView>& views) {
  v1::ProbeResult probe;
  if (cuda.DeviceGetCount == nullptr || cuda.DeviceGet == nullptr) {
    SetResult(probe, v1::PROBE_STATE_FAILED,
              "the driver lacks cuDeviceGetCount or cuDeviceGet");
    return probe;
  }
  int count = 0;
  CudaResult result = cuda.DeviceGetCount(&count);
  if (result != kCudaSuccess) {
    SetResult(probe, v1::PROBE_STATE_FAILED,
              absl::StrCat("cuDeviceGetCount: ", cuda.Describe(result)),
              result);
    return probe;
  }
  count = std::clamp(count, 0, static_cast<int>(kMaxDevices));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CudaDevice device = 0;
    result = cuda.DeviceGet(&device, ordinal);
    if (result != kCudaSuccess) {
      SetResult(probe, v1::PROBE_STATE_FAILED,
                absl::StrCat("cuDeviceGet: ", cuda.Describe(result)), result);
      return probe;
    }
    views.push_back(ViewOf(cuda, device));
  }
  SetResult(probe, v1::PROBE_STATE_OK);
  return probe;
}

// Fills what CUDA knows of a device; the capability is always CUDA's own
// answer where CUDA lists the device.
void FillFromCuda(const CudaView& view, v1::Gpu& gpu) {
  if (gpu.name().empty()) gpu.set_name(view.name);
  if (gpu.pci_address().empty()) gpu.set_pci_address(view.pci_address);
  if (view.integrated.has_value()) gpu.set_integrated(*view.integrated);
  if (view.capability.has_value()) {
    SetResult(*gpu.mutable_capability_probe(), v1::PROBE_STATE_OK);
    gpu.mutable_compute_capability()->set_major(
        static_cast<uint32_t>(view.capability->first));
    gpu.mutable_compute_capability()->set_minor(
        static_cast<uint32_t>(view.capability->second));
  } else {
    gpu.clear_compute_capability();
    SetResult(*gpu.mutable_capability_probe(), v1::PROBE_STATE_FAILED,
              view.capability_error, view.capability_result);
  }
}

void FillFromNvml(const Nvml& nvml, NvmlDevice device, v1::Gpu& gpu) {
  char text[256] = {};
  if (nvml.DeviceGetUuid != nullptr &&
      nvml.DeviceGetUuid(device, text, sizeof(text) - 1) == kNvmlSuccess) {
    gpu.set_uuid(text);
  }
  char name[256] = {};
  if (nvml.DeviceGetName != nullptr &&
      nvml.DeviceGetName(device, name, sizeof(name) - 1) == kNvmlSuccess) {
    gpu.set_name(name);
  }
  NvmlPciInfo pci{};
  if (nvml.DeviceGetPciInfo != nullptr &&
      nvml.DeviceGetPciInfo(device, &pci) == kNvmlSuccess) {
    pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
    gpu.set_pci_address(pci.bus_id);
  }
  int major = 0;
  int minor = 0;
  if (nvml.DeviceGetCapability == nullptr) {
    SetResult(*gpu.mutable_capability_probe(), v1::PROBE_STATE_FAILED,
              "NVML has no nvmlDeviceGetCudaComputeCapability");
  } else if (const NvmlResult result =
                 nvml.DeviceGetCapability(device, &major, &minor);
             result == kNvmlSuccess && major > 0 && minor >= 0) {
    SetResult(*gpu.mutable_capability_probe(), v1::PROBE_STATE_OK);
    gpu.mutable_compute_capability()->set_major(static_cast<uint32_t>(major));
    gpu.mutable_compute_capability()->set_minor(static_cast<uint32_t>(minor));
  } else {
    SetResult(*gpu.mutable_capability_probe(), v1::PROBE_STATE_FAILED,
              absl::StrCat("nvmlDeviceGetCudaComputeCapability: ",
                           nvml.Describe(result)));
  }
  NvmlMemory memory{};
  // Not supported on parts that share memory with the CPU: stays absent.
  if (nvml.DeviceGetMemoryInfo != nullptr &&
      nvml.DeviceGetMemoryInfo(device, &memory) == kNvmlSuccess) {
    gpu.set_memory_bytes(memory.total);
  }
  unsigned current = 0;
  unsigned pending = 0;
  if (nvml.DeviceGetEccMode != nullptr &&
      nvml.DeviceGetEccMode(device, &current, &pending) == kNvmlSuccess) {
    gpu.set_ecc_enabled(current != 0);
  }
  if (nvml.DeviceGetMigMode != nullptr) {
    const NvmlResult result = nvml.DeviceGetMigMode(device, &current, &pending);
    if (result == kNvmlSuccess) {
      gpu.set_mig_mode(current != 0 ? v1::MIG_MODE_ENABLED
                                    : v1::MIG_MODE_DISABLED);
    } else if (result == kNvmlNotSupported) {
      gpu.set_mig_mode(v1::MIG_MODE_UNSUPPORTED);
    }
  }
  if (nvml.DeviceGetComputeRunningProcesses != nullptr) {
    // With room for none the call answers the number.
    unsigned count = 0;
    const NvmlResult result =
        nvml.DeviceGetComputeRunningProcesses(device, &count, nullptr);
    if (result == kNvmlSuccess || result == kNvmlInsufficientSize) {
      gpu.set_compute_processes(count);
    }
  }
}

// Lists NVML's devices, each followed by its MIG instances.
v1::ProbeResult ListNvmlDevices(const Nvml& nvml, std::vector<v1::Gpu>& gpus) {
  v1::ProbeResult probe;
  if (nvml.DeviceGetCount == nullptr ||
      nvml.DeviceGetHandleByIndex == nullptr) {
    SetResult(probe, v1::PROBE_STATE_FAILED,
              "NVML lacks nvmlDeviceGetCount_v2 or "
              "nvmlDeviceGetHandleByIndex_v2");
    return probe;
  }
  unsigned count = 0;
  NvmlResult result = nvml.DeviceGetCount(&count);
  if (result != kNvmlSuccess) {
    SetResult(probe, v1::PROBE_STATE_FAILED,
              absl::StrCat("nvmlDeviceGetCount_v2: ", nvml.Describe(result)));
    return probe;
  }
  for (unsigned index = 0; index < std::min(count, kMaxDevices); ++index) {
    NvmlDevice device = nullptr;
    result = nvml.DeviceGetHandleByIndex(index, &device);
    if (result != kNvmlSuccess) {
      // One lost GPU must not hide the others; it is reported as a GPU whose
      // capability could not be asked.
      v1::Gpu& lost = gpus.emplace_back();
      lost.set_name(absl::StrCat("GPU at index ", index));
      SetResult(*lost.mutable_capability_probe(), v1::PROBE_STATE_FAILED,
                absl::StrCat("nvmlDeviceGetHandleByIndex_v2: ",
                             nvml.Describe(result)));
      continue;
    }
    v1::Gpu gpu;
    FillFromNvml(nvml, device, gpu);
    gpus.push_back(gpu);
    if (gpu.mig_mode() != v1::MIG_MODE_ENABLED ||
        nvml.DeviceGetMaxMigDeviceCount == nullptr ||
        nvml.DeviceGetMigDeviceHandleByIndex == nullptr) {
      continue;
    }
    unsigned instances = 0;
    if (nvml.DeviceGetMaxMigDeviceCount(device, &instances) != kNvmlSuccess) {
      continue;
    }
    for (unsigned i = 0; i < std::min(instances, kMaxMigDevices); ++i) {
      NvmlDevice instance = nullptr;
      if (nvml.DeviceGetMigDeviceHandleByIndex(device, i, &instance) !=
          kNvmlSuccess) {
        continue;  // The slot holds no instance.
      }
      v1::Gpu mig;
      FillFromNvml(nvml, instance, mig);
      mig.set_parent_uuid(gpu.uuid());
      mig.set_mig_mode(v1::MIG_MODE_ENABLED);
      mig.set_pci_address(gpu.pci_address());
      // An instance has its parent's architecture.
      *mig.mutable_capability_probe() = gpu.capability_probe();
      if (gpu.has_compute_capability()) {
        *mig.mutable_compute_capability() = gpu.compute_capability();
      }
      gpus.push_back(std::move(mig));
    }
  }
  SetResult(probe, v1::PROBE_STATE_OK);
  return probe;
}

void SetLibcudaFile(const std::string& path, v1::Driver& driver) {
  driver.set_libcuda_path(path);
  if (const auto digest = Sha256OfFile(path); digest.ok()) {
    driver.mutable_libcuda_digest()->set_sha256(digest->Raw());
  }
  absl::string_view version = BaseName(path);
  if (absl::ConsumePrefix(&version, "libcuda.so.") && version != "1") {
    driver.set_libcuda_version(std::string(version));
  }
  if (absl::StrContains(path, "/stubs/")) driver.set_libcuda_is_stub(true);
}

// Loads and initialises the driver. Returns cuInit's result.
CudaResult StartCuda(CudaDriver& cuda, v1::Driver& driver) {
  if (!cuda.Load()) {
    SetResult(*driver.mutable_probe(),
              cuda.absent ? v1::PROBE_STATE_ABSENT : v1::PROBE_STATE_FAILED,
              cuda.error);
    return -1;
  }
  if (!cuda.path.empty()) SetLibcudaFile(cuda.path, driver);
  if (cuda.Init == nullptr) {
    SetResult(*driver.mutable_probe(), v1::PROBE_STATE_FAILED,
              "libcuda.so.1 has no cuInit");
    return -1;
  }
  const CudaResult result = cuda.Init(0);
  if (result == kCudaErrorStubLibrary) driver.set_libcuda_is_stub(true);
  int version = 0;
  if (!driver.libcuda_is_stub() && cuda.DriverGetVersion != nullptr &&
      cuda.DriverGetVersion(&version) == kCudaSuccess && version > 0) {
    // 13000 is 13.0.
    driver.mutable_cuda_version()->set_major(
        static_cast<uint32_t>(version / 1000));
    driver.mutable_cuda_version()->set_minor(
        static_cast<uint32_t>(version % 1000 / 10));
  }
  if (result == kCudaSuccess || result == kCudaErrorNoDevice) {
    // Without a device the driver itself is sound; the GPU probe says so.
    SetResult(*driver.mutable_probe(), v1::PROBE_STATE_OK);
  } else {
    SetResult(*driver.mutable_probe(), v1::PROBE_STATE_FAILED,
              absl::StrCat("cuInit: ", cuda.Describe(result)), result);
  }
  return result;
}

// Brings both views together: NVML's order (PCI) and state, CUDA's capability.
void JoinViews(const std::vector<CudaView>& cuda_views, bool cuda_works,
               std::vector<v1::Gpu>& gpus) {
  std::vector<bool> used(cuda_views.size(), false);
  for (v1::Gpu& gpu : gpus) {
    bool found = false;
    for (size_t i = 0; i < cuda_views.size(); ++i) {
      if (used[i] || cuda_views[i].uuid.empty() ||
          cuda_views[i].uuid != BareUuid(gpu.uuid())) {
        continue;
      }
      FillFromCuda(cuda_views[i], gpu);
      used[i] = found = true;
      break;
    }
    // A parent in MIG mode is never listed by CUDA, and of the instances older
    // drivers list one only: no fault of theirs.
    if (!found && cuda_works && gpu.mig_mode() != v1::MIG_MODE_ENABLED &&
        gpu.capability_probe().state() == v1::PROBE_STATE_OK) {
      gpu.clear_compute_capability();
      SetResult(*gpu.mutable_capability_probe(), v1::PROBE_STATE_FAILED,
                "NVML lists this GPU and CUDA does not");
    }
  }
  for (size_t i = 0; i < cuda_views.size(); ++i) {
    if (used[i]) continue;
    v1::Gpu& gpu = gpus.emplace_back();
    if (!cuda_views[i].uuid.empty()) {
      gpu.set_uuid(absl::StrCat("GPU-", cuda_views[i].uuid));
    }
    FillFromCuda(cuda_views[i], gpu);
    const bool integrated = cuda_views[i].integrated.value_or(false);
    if (cuda_views[i].memory.has_value() && !integrated) {
      gpu.set_memory_bytes(*cuda_views[i].memory);
    }
  }
}

}  // namespace

std::string KernelModuleVersionOf(absl::string_view text) {
  // "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  ..."
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  for (const absl::string_view line : lines) {
    if (!absl::StartsWith(line, "NVRM version:")) continue;
    for (const absl::string_view word :
         absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      const bool digits = std::all_of(word.begin(), word.end(), [](char c) {
        return c == '.' || absl::ascii_isdigit(static_cast<unsigned char>(c));
      });
      if (digits && absl::StrContains(word, '.') &&
          absl::ascii_isdigit(static_cast<unsigned char>(word.front()))) {
        return std::string(word);
      }
    }
  }
  return "";
}

v1::ProbeResponse ProbeDriver(const v1::ProbeRequest& request) {
  v1::ProbeResponse response;
  v1::Driver& driver = *response.mutable_driver();
  if (const auto text = ReadFile(std::string(kVersionFile), 64 << 10);
      text.ok()) {
    driver.set_kernel_module_version(KernelModuleVersionOf(*text));
  }
  if (!request.driver()) return response;

  std::vector<v1::Gpu> gpus;
  Nvml nvml;
  v1::ProbeResult nvml_probe;
  if (!nvml.Load()) {
    SetResult(nvml_probe,
              nvml.absent ? v1::PROBE_STATE_ABSENT : v1::PROBE_STATE_FAILED,
              nvml.error);
  } else if (nvml.Init == nullptr) {
    SetResult(nvml_probe, v1::PROBE_STATE_FAILED, "NVML has no nvmlInit_v2");
  } else if (const NvmlResult result = nvml.Init(); result != kNvmlSuccess) {
    SetResult(nvml_probe, v1::PROBE_STATE_FAILED,
              absl::StrCat("nvmlInit_v2: ", nvml.Describe(result)));
  } else {
    char version[96] = {};
    if (driver.kernel_module_version().empty() &&
        nvml.SystemGetDriverVersion != nullptr &&
        nvml.SystemGetDriverVersion(version, sizeof(version) - 1) ==
            kNvmlSuccess) {
      driver.set_kernel_module_version(version);
    }
    nvml_probe = ListNvmlDevices(nvml, gpus);
    if (nvml.Shutdown != nullptr) nvml.Shutdown();
  }

  std::optional<JitStamp> stamp;
  if (request.ptx_isa_ceiling()) stamp.emplace();
  CudaDriver cuda;
  std::vector<CudaView> views;
  const CudaResult init = StartCuda(cuda, driver);
  bool cuda_works = false;
  if (driver.probe().state() != v1::PROBE_STATE_OK) {
    *response.mutable_gpu_probe() = driver.probe();
  } else if (init != kCudaSuccess) {
    SetResult(*response.mutable_gpu_probe(), v1::PROBE_STATE_FAILED,
              absl::StrCat("cuInit: ", cuda.Describe(init)), init);
  } else {
    *response.mutable_gpu_probe() = ListCudaDevices(cuda, views);
    cuda_works = response.gpu_probe().state() == v1::PROBE_STATE_OK;
  }
  JoinViews(views, cuda_works, gpus);
  if (cuda_works && gpus.empty()) {
    SetResult(*response.mutable_gpu_probe(), v1::PROBE_STATE_ABSENT,
              "the driver lists no GPU");
  }
  for (v1::Gpu& gpu : gpus) *response.add_gpus() = std::move(gpu);

  if (cuda.Init != nullptr && !driver.libcuda_is_stub()) {
    std::string error;
    const bool loads = JitLibraryLoads(error);
    SetResult(*driver.mutable_jit_library(),
              loads ? v1::PROBE_STATE_OK : v1::PROBE_STATE_ABSENT, error);
  }
  if (request.ptx_isa_ceiling() && cuda_works) {
    for (const CudaView& view : views) {
      if (!view.capability.has_value()) continue;
      v1::Version ceiling;
      *driver.mutable_ptx_isa_probe() =
          MeasurePtxCeiling(cuda, view.device,
                            static_cast<uint32_t>(view.capability->first * 10 +
                                                  view.capability->second),
                            ceiling);
      if (driver.ptx_isa_probe().state() == v1::PROBE_STATE_OK) {
        *driver.mutable_ptx_isa_ceiling() = ceiling;
        driver.set_jit_cache_built(
            stamp->Measure(cuda, view.device,
                           static_cast<uint32_t>(view.capability->first * 10 +
                                                 view.capability->second)));
        break;
      }
    }
  }
  return response;
}

}  // namespace twinpath::runner
