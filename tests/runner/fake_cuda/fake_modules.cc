// Images and the linker of a CUDA driver that is none; see settings.h. It
// answers as an H200 was measured to (docs/gpu-runs.md); what its linker says
// of a double symbol was not measured.

#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/runner/fake_cuda/act.h"
#include "tests/runner/fake_cuda/images.h"
#include "tests/runner/fake_cuda/settings.h"

#ifndef FAKE_MINIMAL

namespace {

using fake::Get;
using fake::Image;

constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kInvalidImage = 200;
constexpr int kInvalidContext = 201;
constexpr int kNoBinary = 209;
constexpr int kInvalidPtx = 218;
constexpr int kUnsupportedPtx = 222;
constexpr int kJitDisabled = 223;
constexpr int kMissingSymbol = 300;
constexpr int kNotFound = 500;
constexpr char kLinked[] = "FAKE LINKED";

struct Function {
  std::string name;
  int ptx = 0;
  int binary = 0;
};
struct Module {
  std::vector<Function> functions;
  uint64_t memory = 0;
};
struct Link {
  std::vector<Image> pieces;
  std::string product;
  char* log = nullptr;
  size_t log_bytes = 0;
};

int g_device = -1;
uint64_t g_used = 0;

const fake::Gpu& Gpu() {
  return Get().gpus[static_cast<size_t>(
      Get().devices[static_cast<size_t>(g_device)].gpu)];
}
int Number() { return Gpu().major * 10 + Gpu().minor; }

bool On(const char* name) {
  const char* set = std::getenv(name);
  return set != nullptr && *set != '\0' && std::strcmp(set, "0") != 0;
}

// As a driver keeps what it compiled: index, and an entry that begins with who
// made it.
void KeepInCache(const std::string& ptx) {
  const char* folder = std::getenv("CUDA_CACHE_PATH");
  if (folder == nullptr || On("CUDA_CACHE_DISABLE")) return;
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

void Write(unsigned count, const int* options, void** values,
           const std::string& text) {
  char* buffer = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == 5) buffer = static_cast<char*>(values[i]);
    if (options[i] == 6) size = reinterpret_cast<size_t>(values[i]);
  }
  if (buffer != nullptr && size > 0 && Get().log) {
    std::snprintf(buffer, size, "%s", text.c_str());
  }
}

std::string Dotted(int version) {
  return std::to_string(version / 10) + "." + std::to_string(version % 10);
}

// What settings say of an image; `memory` is what it takes.
int ActOn(const Image& image, uint64_t& memory) {
  memory = uint64_t{1} << 20;
  for (const std::string& name :
       {image.Name(), std::string(image.ptx ? "ptx" : "sass"),
        std::string("all")}) {
    const auto it = Get().images.find(name);
    if (it == Get().images.end()) continue;
    if (it->second.rfind("memory:", 0) == 0) {
      memory = std::stoull(it->second.substr(7)) << 20;
    }
    return fake::Do(it->second);
  }
  return 0;
}

// Why the driver does not take a bare image; 0: it does.
int Check(const Image& image, std::string& log) {
  if (!image.ptx) return image.Fits(Number()) ? 0 : kNoBinary;
  if (On("CUDA_DISABLE_PTX_JIT")) return kJitDisabled;
  if (image.isa > Get().ceiling) {
    // As driver 580.159.04 answered PTX of version 9.1 on an H200.
    log =
        "ptxas application ptx input, line 1; fatal   : Unsupported .version " +
        Dotted(image.isa) + "; current version is '" + Dotted(Get().ceiling) +
        "'\n";
    return kUnsupportedPtx;
  }
  if (!image.Fits(Number())) {
    log =
        "ptxas fatal   : SM version specified by .target is higher than "
        "default SM version assumed\n";
    return kInvalidPtx;
  }
  return 0;
}

int Take(const Image& image, void** module, std::string& log) {
  uint64_t memory = 0;
  if (const int acted = ActOn(image, memory); acted != 0) {
    log = "the fake driver was told to\n";
    return acted;
  }
  if (!image.undefined.empty()) {
    log = "ptxas fatal   : Unresolved extern function '" +
          *image.undefined.begin() + "'\n";
    return image.ptx ? kInvalidPtx : kNotFound;
  }
  if (g_used + memory > Gpu().memory_mib << 20) return kOutOfMemory;
  auto* made = new Module;
  made->memory = memory;
  g_used += memory;
  std::vector<std::string> names = image.kernels;
  if (!image.read) names = {"packed_kernel"};
  for (const std::string& name : names) {
    made->functions.push_back(
        {name, image.number, image.ptx ? Number() : image.number});
  }
  *module = made;
  return 0;
}

int LoadFatbin(const char* bytes, void** module, std::string& log) {
  const Image* code = nullptr;
  const Image* ptx = nullptr;
  const std::vector<Image> images = fake::ReadFatbin(bytes);
  for (const Image& image : images) {
    if (!image.Fits(Number())) continue;
    const Image*& best = image.ptx ? ptx : code;
    if (best == nullptr || image.number >= best->number) best = &image;
  }
  if (On("CUDA_FORCE_PTX_JIT")) code = nullptr;
  if (code != nullptr) return Take(*code, module, log);
  if (ptx == nullptr) return kNoBinary;
  if (const int refused = Check(*ptx, log); refused != 0) return refused;
  return Take(*ptx, module, log);
}

int LoadLinked(const char* text, void** module) {
  auto* made = new Module;
  const std::string all = text;
  size_t at = all.find('\n');
  while (at != std::string::npos && at + 1 < all.size()) {
    const size_t end = all.find('\n', at + 1);
    made->functions.push_back(
        {all.substr(at + 1, end - at - 1), Number(), Number()});
    at = end;
  }
  *module = made;
  return 0;
}

int Load(const char* bytes, void** module, std::string& log) {
  *module = nullptr;
  if (g_device < 0) return kInvalidContext;
  if (std::memcmp(bytes, "\x50\xED\x55\xBA", 4) == 0) {
    return LoadFatbin(bytes, module, log);
  }
  if (std::strncmp(bytes, kLinked, sizeof(kLinked) - 1) == 0) {
    return LoadLinked(bytes, module);
  }
  Image image;
  if (std::memcmp(bytes, "\177ELF", 4) == 0) {
    image = fake::ReadCubin(bytes);
  } else if (!fake::ReadPtx(bytes, image)) {
    return kInvalidImage;
  }
  if (const int refused = Check(image, log); refused != 0) return refused;
  if (image.ptx) KeepInCache(bytes);
  return Take(image, module, log);
}

}  // namespace

extern "C" {

int cuDevicePrimaryCtxRetain(void** context, int device) {
  ACT();
  *context = reinterpret_cast<void*>(static_cast<size_t>(device) + 1);
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(void* context) {
  ACT();
  g_device = static_cast<int>(reinterpret_cast<size_t>(context)) - 1;
  return 0;
}

int cuModuleLoadDataEx(void** module, const void* data, unsigned count,
                       int* options, void** values) {
  ACT();
  std::string log;
  const int result = Load(static_cast<const char*>(data), module, log);
  if (!log.empty()) Write(count, options, values, log);
  return result;
}
int cuModuleLoadData(void** module, const void* data) {
  ACT();
  std::string log;
  return Load(static_cast<const char*>(data), module, log);
}
int cuModuleUnload(void* module) {
  ACT();
  auto* unloaded = static_cast<Module*>(module);
  g_used -= unloaded->memory;
  delete unloaded;
  return 0;
}

#ifndef FAKE_OLD

int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  ACT();
  if (g_device < 0) return kInvalidContext;
  *total = size_t{Gpu().memory_mib} << 20;
  *free_bytes = *total - g_used;
  return 0;
}
int cuModuleGetFunctionCount(unsigned* count, void* module) {
  ACT();
  *count =
      static_cast<unsigned>(static_cast<Module*>(module)->functions.size());
  return 0;
}
int cuModuleEnumerateFunctions(void** functions, unsigned count, void* module) {
  ACT();
  auto& all = static_cast<Module*>(module)->functions;
  for (unsigned i = 0; i < count && i < all.size(); ++i) functions[i] = &all[i];
  return 0;
}
int cuFuncGetName(const char** name, void* function) {
  ACT();
  *name = static_cast<Function*>(function)->name.c_str();
  return 0;
}
int cuFuncGetAttribute(int* value, int attribute, void* function) {
  ACT();
  const auto* of = static_cast<Function*>(function);
  if (attribute != 5 && attribute != 6) return kInvalidValue;
  *value = attribute == 5 ? of->ptx : of->binary;
  return 0;
}

int cuLinkCreate_v2(unsigned count, int* options, void** values, void** state) {
  ACT();
  auto* link = new Link;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == 5) link->log = static_cast<char*>(values[i]);
    if (options[i] == 6) link->log_bytes = reinterpret_cast<size_t>(values[i]);
  }
  *state = link;
  return 0;
}
int cuLinkAddData_v2(void* state, int type, void* data, size_t size,
                     const char*, unsigned, int*, void**) {
  ACT();
  auto* link = static_cast<Link*>(state);
  Image image;
  std::string log;
  const std::string bytes(static_cast<const char*>(data), size);
  if (type == 0) {
    if (std::memcmp(data, "\177ELF", 4) != 0) return kInvalidImage;
    image = fake::ReadCubin(bytes.data());
  } else if (type != 1 || !fake::ReadPtx(bytes, image)) {
    return kInvalidImage;
  }
  int result = Check(image, log);
  uint64_t memory = 0;
  if (result == 0) result = ActOn(image, memory);
  if (result == 0) link->pieces.push_back(image);
  if (!log.empty() && link->log != nullptr) {
    std::snprintf(link->log, link->log_bytes, "%s", log.c_str());
  }
  return result;
}
int cuLinkComplete(void* state, void** cubin, size_t* size) {
  ACT();
  auto* link = static_cast<Link*>(state);
  std::set<std::string> defined;
  std::string log;
  for (const Image& piece : link->pieces) {
    for (const std::string& name : piece.defined) {
      if (!defined.insert(name).second) {
        log += "error   : Multiple definition of '" + name + "'\n";
      }
    }
  }
  for (const Image& piece : link->pieces) {
    for (const std::string& name : piece.undefined) {
      if (defined.count(name) == 0) {
        log += "error   : Undefined reference to '" + name + "'\n";
      }
    }
  }
  if (!log.empty()) {
    if (link->log != nullptr) {
      std::snprintf(link->log, link->log_bytes, "%s", log.c_str());
    }
    return kMissingSymbol;
  }
  link->product = std::string(kLinked) + "\n";
  for (const Image& piece : link->pieces) {
    for (const std::string& name : piece.kernels) {
      link->product += name + "\n";
    }
  }
  *cubin = link->product.data();
  *size = link->product.size();
  return 0;
}
int cuLinkDestroy(void* state) {
  ACT();
  delete static_cast<Link*>(state);
  return 0;
}

#endif  // FAKE_OLD

}  // extern "C"

#endif  // FAKE_MINIMAL
