#include "tests/runner/fake_cuda/settings.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace fake {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string FileBesideThis() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&FileBesideThis), &info) == 0 ||
      info.dli_fname == nullptr) {
    return "";
  }
  std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  path = slash == std::string::npos ? "fake.conf"
                                    : path.substr(0, slash + 1) + "fake.conf";
  std::ifstream file(path);
  std::stringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

std::vector<std::string> Split(const std::string& text,
                               const std::string& separators) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text + separators[0]) {
    if (separators.find(c) == std::string::npos) {
      word.push_back(c);
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  return words;
}

[[noreturn]] void Complain(const std::string& word) {
  std::fprintf(stderr, "fake driver: what is \"%s\"?\n", word.c_str());
  std::abort();
}

// 13.0 as major * 10 + minor.
int TwoPart(const std::string& text) {
  int major = 0;
  int minor = 0;
  if (std::sscanf(text.c_str(), "%d.%d", &major, &minor) != 2) Complain(text);
  return major * 10 + minor;
}

void SetUuid(const std::string& hex, Gpu& gpu) {
  for (size_t i = 0; i < gpu.uuid.size() && i * 2 + 1 < hex.size(); ++i) {
    gpu.uuid[i] = static_cast<unsigned char>(
        std::stoi(hex.substr(i * 2, 2), nullptr, 16));
  }
}

Gpu DefaultGpu(size_t index) {
  Gpu gpu;
  for (size_t i = 0; i < gpu.uuid.size(); ++i) {
    gpu.uuid[i] = static_cast<unsigned char>(i + index);
  }
  char pci[32];
  std::snprintf(pci, sizeof(pci), "0000:%02zx:00.0", index + 1);
  gpu.pci = pci;
  return gpu;
}

Gpu ParseGpu(const std::string& text, size_t index) {
  Gpu gpu = DefaultGpu(index);
  const std::vector<std::string> parts = Split(text, ",");
  if (parts.empty()) Complain("gpu=");
  if (std::sscanf(parts[0].c_str(), "%d.%d", &gpu.major, &gpu.minor) != 2) {
    Complain(parts[0]);
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t at = parts[i].find('=');
    const std::string key = parts[i].substr(0, at);
    const std::string value =
        at == std::string::npos ? "" : parts[i].substr(at + 1);
    if (key == "name") {
      gpu.name = value;
      for (char& c : gpu.name) c = c == '_' ? ' ' : c;
    } else if (key == "memory") {
      gpu.memory_mib = std::stoull(value);
    } else if (key == "integrated") {
      gpu.integrated = gpu.nvml_integrated = true;
    } else if (key == "mig") {
      gpu.mig = std::stoi(value);
    } else if (key == "no-ecc") {
      gpu.ecc = false;
    } else if (key == "processes") {
      gpu.processes = static_cast<unsigned>(std::stoul(value));
    } else if (key == "uuid") {
      SetUuid(value, gpu);
    } else if (key == "pci") {
      gpu.pci = value;
    } else if (key == "cuda-only") {
      gpu.in_nvml = false;
    } else if (key == "nvml-only") {
      gpu.in_cuda = false;
    } else if (key == "lost") {
      gpu.lost = true;
    } else if (key == "remapped") {
      gpu.remapped = static_cast<unsigned>(std::stoul(value));
    } else if (key == "remap-pending") {
      gpu.remap_pending = true;
    } else if (key == "remap-failed") {
      gpu.remap_failed = true;
    } else if (key == "uncorrected") {
      gpu.uncorrected = std::stoull(value);
    } else if (key == "corrected") {
      gpu.corrected = std::stoull(value);
    } else if (key == "temperature") {
      gpu.temperature = static_cast<unsigned>(std::stoul(value));
    } else if (key == "throttle") {
      gpu.throttle = std::stoull(value, nullptr, 0);
    } else {
      Complain(parts[i]);
    }
  }
  return gpu;
}

void ParseWord(const std::string& word, bool& mig, bool& integrated,
               Settings& settings) {
  const size_t at = word.find('=');
  const std::string key = word.substr(0, at);
  const std::string value = at == std::string::npos ? "" : word.substr(at + 1);
  if (key == "gpu") {
    settings.gpus.push_back(ParseGpu(value, settings.gpus.size()));
  } else if (key == "count") {
    settings.count = std::stoi(value);
  } else if (key == "cuda") {
    const int version = TwoPart(value);
    settings.cuda_version = version / 10 * 1000 + version % 10 * 10;
  } else if (key == "driver") {
    settings.driver = value;
  } else if (key == "ceiling") {
    settings.ceiling = TwoPart(value);
  } else if (key == "nolog") {
    settings.log = false;
  } else if (key == "init") {
    settings.calls["cuInit"] = value;
  } else if (key == "attribute") {
    settings.calls["cuDeviceGetAttribute"] = value;
  } else if (word == "hang" || word == "crash" || word == "exit") {
    settings.calls["cuInit"] = word;
  } else if (word == "mismatch") {
    settings.calls["nvmlInit_v2"] = "18";
  } else if (word == "mig") {
    mig = true;
  } else if (word == "integrated") {
    integrated = true;
  } else if (key.rfind("image:", 0) == 0 && !value.empty()) {
    settings.images[key.substr(6)] = value;
  } else if ((key.rfind("cu", 0) == 0 || key.rfind("nvml", 0) == 0) &&
             !value.empty()) {
    settings.calls[key] = value;
  } else {
    Complain(word);
  }
}

// The devices that CUDA lists where nothing limits them.
std::vector<Device> Listed(const Settings& settings) {
  std::vector<Device> devices;
  for (size_t i = 0; i < settings.gpus.size(); ++i) {
    const Gpu& gpu = settings.gpus[i];
    if (!gpu.in_cuda || gpu.mig == 0) continue;
    devices.push_back({static_cast<int>(i), gpu.mig > 0 ? 0 : -1});
  }
  if (settings.count >= 0) {
    const Device first = devices.empty() ? Device{} : devices[0];
    devices.assign(static_cast<size_t>(settings.count), first);
  }
  return devices;
}

// CUDA_VISIBLE_DEVICES by UUID; the list ends at the first that is not there.
std::vector<Device> Visible(const Settings& settings) {
  const std::vector<Device> listed = Listed(settings);
  const char* set = std::getenv("CUDA_VISIBLE_DEVICES");
  if (set == nullptr) return listed;
  std::vector<Device> visible;
  for (const std::string& word : Split(set, ",")) {
    bool found = false;
    for (size_t i = 0; i < settings.gpus.size() && !found; ++i) {
      const Gpu& gpu = settings.gpus[i];
      const int number = static_cast<int>(i);
      if (!gpu.in_cuda) continue;
      if (gpu.mig <= 0 && word == "GPU-" + UuidText(gpu.uuid)) {
        visible.push_back({number, -1});
        found = gpu.mig < 0;
      }
      for (int k = 0; k < gpu.mig && !found; ++k) {
        if (word != InstanceUuid(number, k)) continue;
        visible.push_back({number, k});
        found = true;
      }
    }
    if (!found) {
      const bool number =
          word.find_first_not_of("0123456789") == std::string::npos;
      const size_t at = number ? std::stoul(word) : listed.size();
      if (at >= listed.size()) break;
      visible.push_back(listed[at]);
    }
  }
  return visible;
}

Settings Read() {
  Settings settings;
  bool mig = false;
  bool integrated = false;
  for (const std::string& text :
       {FileBesideThis(), Variable("TWINPATH_FAKE_CUDA"),
        Variable("TWINPATH_FAKE_NVML")}) {
    for (const std::string& word : Split(text, " \t\n;")) {
      ParseWord(word, mig, integrated, settings);
    }
  }
  if (settings.gpus.empty()) {
    Gpu gpu = DefaultGpu(0);
    gpu.integrated = true;
    settings.gpus.push_back(gpu);
  }
  if (mig) settings.gpus[0].mig = 1;
  if (integrated) settings.gpus[0].nvml_integrated = true;
  settings.devices = Visible(settings);
  return settings;
}

}  // namespace

const Settings& Get() {
  static const Settings* settings = new Settings(Read());
  return *settings;
}

std::string UuidText(const std::array<unsigned char, 16>& uuid) {
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text.push_back('-');
    char hex[3];
    std::snprintf(hex, sizeof(hex), "%02x", uuid[i]);
    text += hex;
  }
  return text;
}

std::string InstanceUuid(int gpu, int instance) {
  char text[64];
  std::snprintf(text, sizeof(text),
                "MIG-1111111%x-2222-3333-4444-55555555555%x",
                static_cast<unsigned>(1 + instance) % 16,
                static_cast<unsigned>(5 + gpu) % 16);
  return text;
}

int Do(const std::string& action) {
  if (action == "hang") {
    while (true) pause();
  }
  if (action == "crash") std::abort();
  if (action == "segv") {
    // Not by raise(): as a fault inside the driver would.
    *static_cast<volatile int*>(nullptr) = 0;
  }
  if (action == "exit") _exit(0);
  if (action.rfind("slow:", 0) == 0) {
    usleep(static_cast<useconds_t>(std::stoul(action.substr(5)) * 1000));
    return 0;
  }
  if (action.rfind("memory:", 0) == 0) return 0;
  return std::stoi(action);
}

int Act(const char* call) {
  const Settings& settings = Get();
  const auto it = settings.calls.find(call);
  return it == settings.calls.end() ? 0 : Do(it->second);
}

}  // namespace fake
