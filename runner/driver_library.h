// The CUDA driver and NVML by dlopen, every symbol optional: a driver older or
// newer than this program, a stub, or half an installation must end in an
// answer, not in a loader error. Only children that may hang or die with the
// driver include this: the probe and the image loader.
//
// The few types and numbers are those of NVIDIA's cuda.h and nvml.h; they are
// part of the drivers' stable ABI.

#ifndef TWINPATH_RUNNER_DRIVER_LIBRARY_H_
#define TWINPATH_RUNNER_DRIVER_LIBRARY_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace twinpath::runner {

using CudaResult = int;
using CudaDevice = int;
struct CudaUuid {
  unsigned char bytes[16];
};

inline constexpr CudaResult kCudaSuccess = 0;
inline constexpr CudaResult kCudaErrorStubLibrary = 34;
inline constexpr CudaResult kCudaErrorNoDevice = 100;
// CUdevice_attribute.
inline constexpr int kCudaAttributeIntegrated = 18;
inline constexpr int kCudaAttributeCapabilityMajor = 75;
inline constexpr int kCudaAttributeCapabilityMinor = 76;
// CUjit_option.
inline constexpr int kCudaJitErrorLogBuffer = 5;
inline constexpr int kCudaJitErrorLogBufferSize = 6;
// CUjitInputType.
inline constexpr int kCudaJitInputCubin = 0;
inline constexpr int kCudaJitInputPtx = 1;
// CUfunction_attribute.
inline constexpr int kCudaFunctionPtxVersion = 5;
inline constexpr int kCudaFunctionBinaryVersion = 6;

// libcuda.so.1. A pointer is null where the library lacks the symbol.
struct CudaDriver {
  CudaResult (*Init)(unsigned) = nullptr;
  CudaResult (*DriverGetVersion)(int*) = nullptr;
  CudaResult (*GetErrorName)(CudaResult, const char**) = nullptr;
  CudaResult (*GetErrorString)(CudaResult, const char**) = nullptr;
  CudaResult (*DeviceGetCount)(int*) = nullptr;
  CudaResult (*DeviceGet)(CudaDevice*, int) = nullptr;
  CudaResult (*DeviceGetUuid)(CudaUuid*, CudaDevice) = nullptr;
  CudaResult (*DeviceGetName)(char*, int, CudaDevice) = nullptr;
  CudaResult (*DeviceGetAttribute)(int*, int, CudaDevice) = nullptr;
  CudaResult (*DeviceTotalMem)(size_t*, CudaDevice) = nullptr;
  CudaResult (*DeviceGetPciBusId)(char*, int, CudaDevice) = nullptr;
  CudaResult (*PrimaryContextRetain)(void**, CudaDevice) = nullptr;
  CudaResult (*PrimaryContextRelease)(CudaDevice) = nullptr;
  CudaResult (*ContextSetCurrent)(void*) = nullptr;
  CudaResult (*ModuleLoadDataEx)(void**, const void*, unsigned, int*,
                                 void**) = nullptr;
  CudaResult (*ModuleUnload)(void*) = nullptr;
  CudaResult (*MemGetInfo)(size_t*, size_t*) = nullptr;
  // CUDA 12.4 and newer.
  CudaResult (*ModuleGetFunctionCount)(unsigned*, void*) = nullptr;
  CudaResult (*ModuleEnumerateFunctions)(void**, unsigned, void*) = nullptr;
  // CUDA 12.3 and newer.
  CudaResult (*FuncGetName)(const char**, void*) = nullptr;
  CudaResult (*FuncGetAttribute)(int*, int, void*) = nullptr;
  CudaResult (*LinkCreate)(unsigned, int*, void**, void**) = nullptr;
  CudaResult (*LinkAddData)(void*, int, void*, size_t, const char*, unsigned,
                            int*, void**) = nullptr;
  CudaResult (*LinkComplete)(void*, void**, size_t*) = nullptr;
  CudaResult (*LinkDestroy)(void*) = nullptr;

  // Loads the library and looks up what it has. False: not loaded, see error.
  bool Load();
  // "CUDA error 803: CUDA_ERROR_...: text".
  std::string Describe(CudaResult result) const;

  // Resolved path of the loaded file.
  std::string path;
  // Why Load failed; whether the file is simply not there.
  std::string error;
  bool absent = false;
};

using NvmlResult = int;
using NvmlDevice = void*;
inline constexpr NvmlResult kNvmlSuccess = 0;
inline constexpr NvmlResult kNvmlNotSupported = 3;
inline constexpr NvmlResult kNvmlInsufficientSize = 7;

// nvmlPciInfo_t.
struct NvmlPciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};

// nvmlMemory_t.
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

// libnvidia-ml.so.1.
struct Nvml {
  NvmlResult (*Init)() = nullptr;
  NvmlResult (*Shutdown)() = nullptr;
  const char* (*ErrorString)(NvmlResult) = nullptr;
  NvmlResult (*SystemGetDriverVersion)(char*, unsigned) = nullptr;
  NvmlResult (*DeviceGetCount)(unsigned*) = nullptr;
  NvmlResult (*DeviceGetHandleByIndex)(unsigned, NvmlDevice*) = nullptr;
  NvmlResult (*DeviceGetUuid)(NvmlDevice, char*, unsigned) = nullptr;
  NvmlResult (*DeviceGetName)(NvmlDevice, char*, unsigned) = nullptr;
  NvmlResult (*DeviceGetPciInfo)(NvmlDevice, NvmlPciInfo*) = nullptr;
  NvmlResult (*DeviceGetCapability)(NvmlDevice, int*, int*) = nullptr;
  NvmlResult (*DeviceGetMemoryInfo)(NvmlDevice, NvmlMemory*) = nullptr;
  NvmlResult (*DeviceGetMigMode)(NvmlDevice, unsigned*, unsigned*) = nullptr;
  NvmlResult (*DeviceGetMaxMigDeviceCount)(NvmlDevice, unsigned*) = nullptr;
  NvmlResult (*DeviceGetMigDeviceHandleByIndex)(NvmlDevice, unsigned,
                                                NvmlDevice*) = nullptr;
  NvmlResult (*DeviceGetEccMode)(NvmlDevice, unsigned*, unsigned*) = nullptr;
  NvmlResult (*DeviceGetComputeRunningProcesses)(NvmlDevice, unsigned*,
                                                 void*) = nullptr;

  bool Load();
  std::string Describe(NvmlResult result) const;

  std::string error;
  bool absent = false;
};

// Whether the driver's PTX compiler can be loaded; `error` says why not.
bool JitLibraryLoads(std::string& error);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_DRIVER_LIBRARY_H_
