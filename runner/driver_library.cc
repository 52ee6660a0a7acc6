#include "runner/driver_library.h"

#include <dlfcn.h>

#include <climits>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runner/library_symbol.h"

namespace twinpath::runner {
namespace {

// Opens `name`; on failure says why and whether the file is just not there.
void* Open(const char* name, std::string& error, bool& absent) {
  void* handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  if (handle != nullptr) return handle;
  const char* text = dlerror();
  error = text == nullptr ? absl::StrCat("dlopen ", name, " failed") : text;
  // A missing dependency reads the same but begins with another name.
  absent = absl::StartsWith(error, absl::StrCat(name, ":")) &&
           absl::StrContains(error, "No such file");
  return nullptr;
}

}  // namespace

bool CudaDriver::Load() {
  void* handle = Open("libcuda.so.1", error, absent);
  if (handle == nullptr) return false;
  Look(handle, Init, {"cuInit"});
  Look(handle, DriverGetVersion, {"cuDriverGetVersion"});
  Look(handle, GetErrorName, {"cuGetErrorName"});
  Look(handle, GetErrorString, {"cuGetErrorString"});
  Look(handle, DeviceGetCount, {"cuDeviceGetCount"});
  Look(handle, DeviceGet, {"cuDeviceGet"});
  // _v2 gives a MIG instance's own UUID, the first version its parent's.
  Look(handle, DeviceGetUuid, {"cuDeviceGetUuid_v2", "cuDeviceGetUuid"});
  Look(handle, DeviceGetName, {"cuDeviceGetName"});
  Look(handle, DeviceGetAttribute, {"cuDeviceGetAttribute"});
  Look(handle, DeviceTotalMem, {"cuDeviceTotalMem_v2"});
  Look(handle, DeviceGetPciBusId, {"cuDeviceGetPCIBusId"});
  Look(handle, PrimaryContextRetain, {"cuDevicePrimaryCtxRetain"});
  Look(handle, PrimaryContextRelease,
       {"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease"});
  Look(handle, ContextSetCurrent, {"cuCtxSetCurrent"});
  Look(handle, ModuleLoadDataEx, {"cuModuleLoadDataEx"});
  Look(handle, ModuleUnload, {"cuModuleUnload"});
  Look(handle, MemGetInfo, {"cuMemGetInfo_v2"});
  Look(handle, ModuleGetFunctionCount, {"cuModuleGetFunctionCount"});
  Look(handle, ModuleEnumerateFunctions, {"cuModuleEnumerateFunctions"});
  Look(handle, FuncGetName, {"cuFuncGetName"});
  Look(handle, FuncGetAttribute, {"cuFuncGetAttribute"});
  Look(handle, LinkCreate, {"cuLinkCreate_v2"});
  Look(handle, LinkAddData, {"cuLinkAddData_v2"});
  Look(handle, LinkComplete, {"cuLinkComplete"});
  Look(handle, LinkDestroy, {"cuLinkDestroy"});
  for (const char* name : {"cuInit", "cuDriverGetVersion", "cuGetErrorName"}) {
    Dl_info info;
    void* symbol = dlsym(handle, name);
    if (symbol == nullptr || dladdr(symbol, &info) == 0 ||
        info.dli_fname == nullptr) {
      continue;
    }
    char resolved[PATH_MAX];
    path = realpath(info.dli_fname, resolved) != nullptr ? resolved
                                                         : info.dli_fname;
    break;
  }
  return true;
}

std::string CudaDriver::Describe(CudaResult result) const {
  std::string text = absl::StrCat("CUDA error ", result);
  const char* part = nullptr;
  if (GetErrorName != nullptr && GetErrorName(result, &part) == kCudaSuccess &&
      part != nullptr) {
    absl::StrAppend(&text, ": ", part);
  }
  part = nullptr;
  if (GetErrorString != nullptr &&
      GetErrorString(result, &part) == kCudaSuccess && part != nullptr) {
    absl::StrAppend(&text, ": ", part);
  }
  return text;
}

bool Nvml::Load() {
  void* handle = Open("libnvidia-ml.so.1", error, absent);
  if (handle == nullptr) return false;
  Look(handle, Init, {"nvmlInit_v2", "nvmlInit"});
  Look(handle, Shutdown, {"nvmlShutdown"});
  Look(handle, ErrorString, {"nvmlErrorString"});
  Look(handle, SystemGetDriverVersion, {"nvmlSystemGetDriverVersion"});
  Look(handle, DeviceGetCount, {"nvmlDeviceGetCount_v2"});
  Look(handle, DeviceGetHandleByIndex, {"nvmlDeviceGetHandleByIndex_v2"});
  Look(handle, DeviceGetUuid, {"nvmlDeviceGetUUID"});
  Look(handle, DeviceGetName, {"nvmlDeviceGetName"});
  Look(handle, DeviceGetPciInfo, {"nvmlDeviceGetPciInfo_v3"});
  Look(handle, DeviceGetCapability, {"nvmlDeviceGetCudaComputeCapability"});
  Look(handle, DeviceGetMemoryInfo, {"nvmlDeviceGetMemoryInfo"});
  Look(handle, DeviceGetMigMode, {"nvmlDeviceGetMigMode"});
  Look(handle, DeviceGetMaxMigDeviceCount, {"nvmlDeviceGetMaxMigDeviceCount"});
  Look(handle, DeviceGetMigDeviceHandleByIndex,
       {"nvmlDeviceGetMigDeviceHandleByIndex"});
  Look(handle, DeviceGetEccMode, {"nvmlDeviceGetEccMode"});
  Look(handle, DeviceGetComputeRunningProcesses,
       {"nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetComputeRunningProcesses_v2",
        "nvmlDeviceGetComputeRunningProcesses"});
  return true;
}

std::string Nvml::Describe(NvmlResult result) const {
  std::string text = absl::StrCat("NVML error ", result);
  if (ErrorString != nullptr) {
    if (const char* part = ErrorString(result); part != nullptr) {
      absl::StrAppend(&text, ": ", part);
    }
  }
  return text;
}

bool JitLibraryLoads(std::string& error) {
  bool absent = false;
  return Open("libnvidia-ptxjitcompiler.so.1", error, absent) != nullptr;
}

}  // namespace twinpath::runner
