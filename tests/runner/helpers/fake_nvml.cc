// An NVML that is none: one GPU whose UUID is fake_cuda's. TWINPATH_FAKE_NVML:
//
//   unset      driver 580.95.05, 1 GiB, ECC on, two compute processes
//   integrated memory is not supported, as on GB10
//   mig        MIG is on, one instance
//   mismatch   nvmlInit_v2 returns 18 (library and module differ)

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kNotSupported = 3;

bool ModeIs(const char* mode) {
  const char* value = std::getenv("TWINPATH_FAKE_NVML");
  return value != nullptr && std::strcmp(value, mode) == 0;
}

int g_gpu;
int g_instance;

int Text(char* out, unsigned size, const char* text) {
  std::snprintf(out, size, "%s", text);
  return 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return ModeIs("mismatch") ? 18 : 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int) { return "a text of the fake NVML"; }

int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  return Text(version, size, "580.95.05");
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 1;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned, void** device) {
  *device = &g_gpu;
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size) {
  return Text(uuid, size,
              device == &g_gpu ? "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
                               : "MIG-11111111-2222-3333-4444-555555555555");
}
int nvmlDeviceGetName(void* device, char* name, unsigned size) {
  return Text(name, size,
              device == &g_gpu ? "NVIDIA Fake" : "NVIDIA Fake MIG 1g.10gb");
}
int nvmlDeviceGetPciInfo_v3(void*, void* info) {
  std::memset(info, 0, 68);
  return Text(static_cast<char*>(info) + 36, 32, "0000000F:01:00.0");
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = 12;
  *minor = 1;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* memory) {
  if (ModeIs("integrated")) return kNotSupported;
  memory[0] = 1ULL << 30;
  return 0;
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  if (device != &g_gpu || ModeIs("integrated")) return kNotSupported;
  *current = *pending = ModeIs("mig") ? 1 : 0;
  return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* count) {
  *count = 7;
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void*, unsigned index, void** device) {
  if (index != 2) return 6;  // NVML_ERROR_NOT_FOUND: the slot is free.
  *device = &g_instance;
  return 0;
}
int nvmlDeviceGetEccMode(void*, unsigned* current, unsigned* pending) {
  if (ModeIs("integrated")) return kNotSupported;
  *current = *pending = 1;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void*) {
  *count = 2;
  return 7;  // NVML_ERROR_INSUFFICIENT_SIZE, with the number.
}

}  // extern "C"
