// A CUDA driver that is none, for trying gpu_images without a GPU: a device of
// 9.0 with PTX ISA 9.0 that looks at the entries of a fatbin, at the header of
// a cubin or at the directives of a PTX text, and answers as an H200 was
// measured to (docs/gpu-runs.md). Written without the model's code.
//
//   TWINPATH_FAKE_IMAGES=lie    says 209 to machine code for 9.0a
//   TWINPATH_FAKE_IMAGES=crash  dies at machine code for 8.0
//   TWINPATH_FAKE_IMAGES=init   does not start

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

bool Mode(const char* mode) {
  const char* set = std::getenv("TWINPATH_FAKE_IMAGES");
  return set != nullptr && std::strcmp(set, mode) == 0;
}

bool On(const char* name) {
  const char* set = std::getenv(name);
  return set != nullptr && std::strcmp(set, "0") != 0;
}

template <typename T>
T At(const char* bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes + offset, sizeof(value));
  return value;
}

int CodeFor(uint32_t number) {
  if (Mode("crash") && number == 80) std::abort();
  return number == 90 ? 0 : 209;
}

int LoadFatbin(const char* bytes) {
  const uint64_t end = 16 + At<uint64_t>(bytes, 8);
  bool code = false;
  uint32_t best_ptx = 0;
  uint32_t best_isa = 0;
  for (uint64_t at = 16; at < end;) {
    const auto kind = At<uint16_t>(bytes, at);
    const auto number = At<uint32_t>(bytes, at + 28);
    const auto flags = At<uint64_t>(bytes, at + 40);
    if (kind == 2 && CodeFor(number) == 0 && (flags & 0x200000) == 0 &&
        !(Mode("lie") && (flags & 0x100000) != 0)) {
      code = true;
    }
    const bool exact = (flags & 0x300000) != 0;
    if (kind == 1 && (exact ? number == 90 : number <= 90) &&
        number >= best_ptx) {
      best_ptx = number;
      best_isa =
          At<uint16_t>(bytes, at + 26) * 10u + At<uint16_t>(bytes, at + 24);
    }
    at += At<uint32_t>(bytes, at + 4) + At<uint64_t>(bytes, at + 8);
  }
  if (code && !On("CUDA_FORCE_PTX_JIT")) return 0;
  if (best_ptx == 0) return 209;
  if (On("CUDA_DISABLE_PTX_JIT")) return 223;
  return best_isa > 90 ? 222 : 0;
}

int LoadCubin(const char* bytes) {
  const auto flags = At<uint32_t>(bytes, 48);
  return CodeFor(bytes[8] >= 8 ? (flags >> 8) & 0xff : flags & 0xff);
}

int LoadPtx(const std::string& text) {
  if (On("CUDA_DISABLE_PTX_JIT")) return 223;
  const size_t version = text.find(".version ");
  const size_t target = text.find(".target sm_");
  if (version == std::string::npos || target == std::string::npos) return 200;
  if (std::atof(text.c_str() + version + 9) > 9.05) return 222;
  return std::atoi(text.c_str() + target + 11) <= 90 ? 0 : 218;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return Mode("init") ? 999 : 0; }
int cuDeviceGet(int* device, int) {
  *device = 0;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = context;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuModuleUnload(void*) { return 0; }
int cuModuleLoadDataEx(void** module, const void* data, unsigned, int*,
                       void**) {
  const auto* bytes = static_cast<const char*>(data);
  *module = nullptr;
  if (std::memcmp(bytes, "\x50\xED\x55\xBA", 4) == 0) return LoadFatbin(bytes);
  if (std::memcmp(bytes,
                  "\x7f"
                  "ELF",
                  4) == 0)
    return LoadCubin(bytes);
  return LoadPtx(bytes);
}

}  // extern "C"
