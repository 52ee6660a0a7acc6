// The part of NVML that tells how a GPU is: counters of memory errors, remapped
// rows, reasons for lowered clocks, events. By dlopen, every symbol optional,
// beside driver_library.h. Only the probe child includes this.

#ifndef TWINPATH_RUNNER_NVML_HEALTH_H_
#define TWINPATH_RUNNER_NVML_HEALTH_H_

#include "runner/driver_library.h"

namespace twinpath::runner {

inline constexpr NvmlResult kNvmlTimeout = 10;
// nvmlEventTypeXidCriticalError.
inline constexpr unsigned long long kNvmlEventXid = 8;
// nvmlMemoryErrorType_t and NVML_VOLATILE_ECC: since the driver was loaded.
inline constexpr int kNvmlCorrected = 0;
inline constexpr int kNvmlUncorrected = 1;
inline constexpr int kNvmlVolatile = 0;

using NvmlEventSet = void*;

// nvmlEventData_t; the first version ends behind `data`.
struct NvmlEvent {
  NvmlDevice device;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance;
  unsigned compute_instance;
};

// A pointer is null where the library lacks the symbol.
struct NvmlHealth {
  NvmlResult (*DeviceGetHandleByUuid)(const char*, NvmlDevice*) = nullptr;
  NvmlResult (*ParentOfMig)(NvmlDevice, NvmlDevice*) = nullptr;
  NvmlResult (*DeviceGetTotalEccErrors)(NvmlDevice, int, int,
                                        unsigned long long*) = nullptr;
  NvmlResult (*DeviceGetRemappedRows)(NvmlDevice, unsigned*, unsigned*,
                                      unsigned*, unsigned*) = nullptr;
  NvmlResult (*DeviceGetClocksReasons)(NvmlDevice,
                                       unsigned long long*) = nullptr;
  NvmlResult (*DeviceGetTemperature)(NvmlDevice, int, unsigned*) = nullptr;
  NvmlResult (*EventSetCreate)(NvmlEventSet*) = nullptr;
  NvmlResult (*DeviceRegisterEvents)(NvmlDevice, unsigned long long,
                                     NvmlEventSet) = nullptr;
  NvmlResult (*EventSetWait)(NvmlEventSet, NvmlEvent*, unsigned) = nullptr;

  // Looks up what the library has, which Nvml::Load has loaded.
  void Load();
};

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_NVML_HEALTH_H_
