#include "runner/nvml_health.h"

#include <dlfcn.h>

#include "runner/library_symbol.h"

namespace twinpath::runner {

void NvmlHealth::Load() {
  void* handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return;
  Look(handle, DeviceGetHandleByUuid, {"nvmlDeviceGetHandleByUUID"});
  Look(handle, ParentOfMig, {"nvmlDeviceGetDeviceHandleFromMigDeviceHandle"});
  Look(handle, DeviceGetTotalEccErrors, {"nvmlDeviceGetTotalEccErrors"});
  Look(handle, DeviceGetRemappedRows, {"nvmlDeviceGetRemappedRows"});
  // Renamed in NVML 12.2; newer libraries have both.
  Look(handle, DeviceGetClocksReasons,
       {"nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons"});
  Look(handle, DeviceGetTemperature, {"nvmlDeviceGetTemperature"});
  Look(handle, EventSetCreate, {"nvmlEventSetCreate"});
  Look(handle, DeviceRegisterEvents, {"nvmlDeviceRegisterEvents"});
  // Both fill in what NvmlEvent begins with.
  Look(handle, EventSetWait, {"nvmlEventSetWait_v2", "nvmlEventSetWait"});
}

}  // namespace twinpath::runner
