#include "runner/nvml_health.h"

#include <dlfcn.h>

#include <initializer_list>

namespace twinpath::runner {
namespace {

template <typename Function>
void Look(void* handle, Function& function,
          std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* symbol = dlsym(handle, name); symbol != nullptr) {
      function = reinterpret_cast<Function>(symbol);
      return;
    }
  }
}

}  // namespace

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
