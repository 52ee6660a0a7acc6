// A CUDA driver that is none: answers as TWINPATH_FAKE_CUDA says, so that the
// probe's every branch can be reached without a GPU.
//
//   unset        one device: "NVIDIA Fake", compute capability 12.1, CUDA 13.0,
//                PTX ISA 9.0
//   init=N       cuInit returns N
//   hang, crash, exit   in cuInit
//   attribute=N  the capability query returns N
//   count=N      cuDeviceGetCount gives N devices
//   ceiling=X.Y  newest PTX ISA
//   nolog        a failed module load leaves no log

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string Mode() {
  const char* mode = std::getenv("TWINPATH_FAKE_CUDA");
  return mode == nullptr ? "" : mode;
}

// The text behind "name=", or `otherwise`.
std::string Setting(const std::string& name, const std::string& otherwise) {
  const std::string mode = Mode();
  if (mode.rfind(name + "=", 0) != 0) return otherwise;
  return mode.substr(name.size() + 1);
}

int Number(const std::string& name, int otherwise) {
  return std::stoi(Setting(name, std::to_string(otherwise)));
}

// As a driver keeps what it compiled: index, and an entry that begins with who
// made it.
void KeepInCache(const std::string& ptx) {
  const char* folder = std::getenv("CUDA_CACHE_PATH");
  if (folder == nullptr) return;
  const std::string place = std::string(folder) + "/5";
  mkdir(place.c_str(), 0700);
  for (const std::string& name :
       {std::string(folder) + "/index", place + "/entry"}) {
    if (std::FILE* file = std::fopen(name.c_str(), "w")) {
      const std::string text =
          name.back() == 'x' ? "A" : "~;HApr 29 202617:12:06HOST64sm_121" + ptx;
      std::fwrite(text.data(), 1, text.size(), file);
      std::fclose(file);
    }
  }
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
  // A driver that prints must not spoil the probe's answer.
  std::printf("noise on standard output\n");
  std::fflush(stdout);
  if (Mode() == "hang") {
    while (true) pause();
  }
  if (Mode() == "crash") abort();
  if (Mode() == "exit") _exit(0);
  return Number("init", 0);
}

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

#ifndef FAKE_MINIMAL

int cuGetErrorName(int error, const char** name) {
  *name = error == 803   ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
          : error == 100 ? "CUDA_ERROR_NO_DEVICE"
          : error == 222 ? "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
                         : "CUDA_ERROR_UNKNOWN";
  return 0;
}

int cuGetErrorString(int, const char** text) {
  *text = "a text of the fake driver";
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = Number("count", 1);
  return 0;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}

int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  for (int i = 0; i < 16; ++i) {
    uuid[i] = static_cast<unsigned char>(i + device);
  }
  return 0;
}

int cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<size_t>(size), "NVIDIA Fake");
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  if (attribute == 18) {
    *value = 1;
    return 0;
  }
  const int error = Number("attribute", 0);
  if (error != 0) return error;
  *value = attribute == 75 ? 12 : 1;
  return 0;
}

int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{1} << 30;
  return 0;
}

int cuDeviceGetPCIBusId(char* text, int size, int) {
  std::snprintf(text, static_cast<size_t>(size), "0000:01:00.0");
  return 0;
}

int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = context;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(void*) { return 0; }

int cuModuleLoadDataEx(void**, const void* data, unsigned count, int* options,
                       void** values) {
  // As driver 580.159.04 answered PTX of version 9.1 on an H200:
  //   ptxas application ptx input, line 1; fatal : Unsupported .version 9.1;
  //   current version is '9.0'
  const std::string ptx = static_cast<const char*>(data);
  const size_t at = ptx.find(".version ");
  const std::string offered = ptx.substr(at + 9, ptx.find('\n', at) - at - 9);
  if (std::stod(offered) <= std::stod(Setting("ceiling", "9.0"))) {
    KeepInCache(ptx);
    return 0;
  }
  for (unsigned i = 0; i < count && Mode() != "nolog"; ++i) {
    if (options[i] != 5) continue;
    std::snprintf(static_cast<char*>(values[i]), 1024,
                  "ptxas application ptx input, line 1; fatal   : Unsupported "
                  ".version %s; current version is '%s'\n",
                  offered.c_str(), Setting("ceiling", "9.0").c_str());
  }
  return 222;
}

int cuModuleUnload(void*) { return 0; }

#endif  // FAKE_MINIMAL

}  // extern "C"
