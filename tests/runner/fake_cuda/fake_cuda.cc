// The devices of a CUDA driver that is none; see settings.h. Images are in
// fake_modules.cc.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/runner/fake_cuda/act.h"
#include "tests/runner/fake_cuda/settings.h"

namespace {

using fake::Device;
using fake::Get;
using fake::Gpu;

constexpr int kInvalidValue = 1;
constexpr int kInvalidDevice = 101;

struct ErrorName {
  int code;
  const char* name;
  const char* text;
};
// Made from compat/tables/errors.yaml by CMake.
constexpr ErrorName kErrors[] = {
#include "fake_cuda_errors.inc"
};

const ErrorName* Find(int code) {
  for (const ErrorName& each : kErrors) {
    if (each.code == code) return &each;
  }
  return nullptr;
}

bool Known(int device) {
  return device >= 0 && static_cast<size_t>(device) < Get().devices.size();
}
const Gpu& Of(int device) {
  return Get().gpus[static_cast<size_t>(
      Get().devices[static_cast<size_t>(device)].gpu)];
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
  // A driver that prints must not spoil an answer.
  std::printf("noise on standard output\n");
  std::fflush(stdout);
  ACT();
  return Get().devices.empty() && Get().count < 0 ? 100 : 0;
}

int cuDriverGetVersion(int* version) {
  ACT();
  *version = Get().cuda_version;
  return 0;
}

#ifndef FAKE_MINIMAL

int cuGetErrorName(int error, const char** name) {
  const ErrorName* found = Find(error);
  *name = found == nullptr || *found->name == '\0' ? nullptr : found->name;
  return *name == nullptr ? kInvalidValue : 0;
}
int cuGetErrorString(int error, const char** text) {
  const ErrorName* found = Find(error);
  *text = found == nullptr ? nullptr : found->text;
  return *text == nullptr ? kInvalidValue : 0;
}

int cuDeviceGetCount(int* count) {
  ACT();
  *count = static_cast<int>(Get().devices.size());
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  ACT();
  if (!Known(ordinal)) return kInvalidDevice;
  *device = ordinal;
  return 0;
}

#ifdef FAKE_OLD
int cuDeviceGetUuid(unsigned char* uuid, int device) {
#else
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
#endif
  ACT();
  if (!Known(device)) return kInvalidDevice;
  std::memcpy(uuid, Of(device).uuid.data(), 16);
  const Device& view = Get().devices[static_cast<size_t>(device)];
  if (Get().count >= 0) {
    // Devices like the first, each with a UUID of its own.
    uuid[15] = static_cast<unsigned char>(uuid[15] + device);
  }
#ifndef FAKE_OLD
  if (view.instance >= 0) {
    const std::string text = fake::InstanceUuid(view.gpu, view.instance);
    size_t at = 0;
    for (size_t i = 4; i + 1 < text.size() && at < 16; ++i) {
      if (text[i] == '-') continue;
      unsigned byte = 0;
      std::sscanf(text.c_str() + i, "%2x", &byte);
      uuid[at++] = static_cast<unsigned char>(byte);
      ++i;
    }
  }
#else
  static_cast<void>(view);
#endif
  return 0;
}

int cuDeviceGetName(char* name, int size, int device) {
  ACT();
  if (!Known(device)) return kInvalidDevice;
  std::snprintf(name, static_cast<size_t>(size), "%s", Of(device).name.c_str());
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (!Known(device)) return kInvalidDevice;
  if (attribute == 18) {
    *value = Of(device).integrated ? 1 : 0;
    return 0;
  }
  ACT();
  if (attribute == 75) *value = Of(device).major;
  if (attribute == 76) *value = Of(device).minor;
  return attribute == 75 || attribute == 76 ? 0 : kInvalidValue;
}

int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  ACT();
  if (!Known(device)) return kInvalidDevice;
  *bytes = size_t{Of(device).memory_mib} << 20;
  return 0;
}

int cuDeviceGetPCIBusId(char* text, int size, int device) {
  ACT();
  if (!Known(device)) return kInvalidDevice;
  std::snprintf(text, static_cast<size_t>(size), "%s", Of(device).pci.c_str());
  return 0;
}

#endif  // FAKE_MINIMAL

}  // extern "C"
