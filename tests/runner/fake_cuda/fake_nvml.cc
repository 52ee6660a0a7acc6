// An NVML that is none; see settings.h.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/runner/fake_cuda/act.h"
#include "tests/runner/fake_cuda/settings.h"

namespace {

using fake::Get;
using fake::Gpu;

constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;
constexpr int kGpuIsLost = 15;
constexpr unsigned kSlots = 7;

// A handle: GPU number and slot, one above so that none is null.
void* Handle(size_t gpu, int instance) {
  return reinterpret_cast<void*>((gpu + 1) * 64 +
                                 static_cast<size_t>(instance + 1));
}
size_t NumberOf(void* device) {
  return reinterpret_cast<size_t>(device) / 64 - 1;
}
int InstanceOf(void* device) {
  return static_cast<int>(reinterpret_cast<size_t>(device) % 64) - 1;
}
const Gpu& Of(void* device) { return Get().gpus[NumberOf(device)]; }

// In NVML's own order.
size_t Nth(unsigned index) {
  for (size_t i = 0; i < Get().gpus.size(); ++i) {
    if (Get().gpus[i].in_nvml && index-- == 0) return i;
  }
  return Get().gpus.size();
}

// Instance k lies in slot k + 2, so that slots before it are free.
int InstanceIn(unsigned slot) { return static_cast<int>(slot) - 2; }

int Text(char* out, unsigned size, const std::string& text) {
  std::snprintf(out, size, "%s", text.c_str());
  return 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  ACT();
  return 0;
}
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int) { return "a text of the fake NVML"; }

int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  ACT();
  return Text(version, size, Get().driver);
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  ACT();
  *count = 0;
  for (const Gpu& gpu : Get().gpus) *count += gpu.in_nvml ? 1 : 0;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  ACT();
  const size_t gpu = Nth(index);
  if (gpu >= Get().gpus.size()) return kInvalidArgument;
  if (Get().gpus[gpu].lost) return kGpuIsLost;
  *device = Handle(gpu, -1);
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  ACT();
  for (size_t i = 0; i < Get().gpus.size(); ++i) {
    const Gpu& gpu = Get().gpus[i];
    if (!gpu.in_nvml) continue;
    if (uuid == "GPU-" + fake::UuidText(gpu.uuid)) {
      if (gpu.lost) return kGpuIsLost;
      *device = Handle(i, -1);
      return 0;
    }
    for (int k = 0; k < gpu.mig; ++k) {
      if (uuid != fake::InstanceUuid(static_cast<int>(i), k)) continue;
      *device = Handle(i, k);
      return 0;
    }
  }
  return kNotFound;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size) {
  ACT();
  const int instance = InstanceOf(device);
  return Text(uuid, size,
              instance < 0 ? "GPU-" + fake::UuidText(Of(device).uuid)
                           : fake::InstanceUuid(
                                 static_cast<int>(NumberOf(device)), instance));
}
int nvmlDeviceGetName(void* device, char* name, unsigned size) {
  ACT();
  return Text(name, size,
              Of(device).name + (InstanceOf(device) < 0 ? "" : " MIG 1g.10gb"));
}
int nvmlDeviceGetPciInfo_v3(void* device, void* info) {
  ACT();
  std::memset(info, 0, 68);
  // With the domain in eight digits, as NVML gives it.
  std::string pci = Of(device).pci;
  if (NumberOf(device) == 0 && pci == "0000:01:00.0") pci = "0000000F:01:00.0";
  return Text(static_cast<char*>(info) + 36, 32, pci);
}
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  ACT();
  *major = Of(device).major;
  *minor = Of(device).minor;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  ACT();
  if (Of(device).nvml_integrated) return kNotSupported;
  memory[0] = Of(device).memory_mib << 20;
  memory[1] = memory[0];
  memory[2] = 0;
  return 0;
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  ACT();
  if (InstanceOf(device) >= 0 || Of(device).nvml_integrated) {
    return kNotSupported;
  }
  *current = *pending = Of(device).mig >= 0 ? 1 : 0;
  return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* count) {
  ACT();
  *count = kSlots;
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index,
                                        void** instance) {
  ACT();
  const int number = InstanceIn(index);
  if (number < 0 || number >= Of(device).mig) return kNotFound;
  *instance = Handle(NumberOf(device), number);
  return 0;
}
int nvmlDeviceGetEccMode(void* device, unsigned* current, unsigned* pending) {
  ACT();
  if (Of(device).nvml_integrated) return kNotSupported;
  *current = *pending = Of(device).ecc ? 1 : 0;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count,
                                            void*) {
  ACT();
  *count = Of(device).processes;
  // With room for none: NVML_ERROR_INSUFFICIENT_SIZE and the number.
  return *count == 0 ? 0 : kInsufficientSize;
}

// State of the device.
int nvmlDeviceGetTemperature(void* device, int, unsigned* temperature) {
  ACT();
  *temperature = Of(device).temperature;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int,
                                unsigned long long* count) {
  ACT();
  if (!Of(device).ecc || Of(device).nvml_integrated) return kNotSupported;
  *count = type == 1 ? Of(device).uncorrected : Of(device).corrected;
  return 0;
}
int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected,
                              unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  ACT();
  if (Of(device).nvml_integrated) return kNotSupported;
  *corrected = 0;
  *uncorrected = Of(device).remapped;
  *pending = Of(device).remap_pending ? 1 : 0;
  *failed = Of(device).remap_failed ? 1 : 0;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device,
                                              unsigned long long* reasons) {
  ACT();
  *reasons = Of(device).throttle;
  return 0;
}
int nvmlDeviceGetCurrentClocksEventReasons(void* device,
                                           unsigned long long* reasons) {
  ACT();
  *reasons = Of(device).throttle;
  return 0;
}

}  // extern "C"
