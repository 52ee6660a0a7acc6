// Events of the NVML that is none: the word nvmlXid=79:48 in the settings makes
// it report these Xids, one a wait, of the first GPU that was registered.

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/runner/fake_cuda/act.h"
#include "tests/runner/fake_cuda/settings.h"

namespace {

constexpr int kTimeout = 10;
constexpr unsigned long long kXid = 8;

void* g_registered = nullptr;
size_t g_reported = 0;

std::vector<unsigned long long> Xids() {
  std::vector<unsigned long long> xids;
  const auto& calls = fake::Get().calls;
  const auto found = calls.find("nvmlXid");
  if (found == calls.end()) return xids;
  const char* text = found->second.c_str();
  while (*text != '\0') {
    char* end = nullptr;
    xids.push_back(std::strtoull(text, &end, 10));
    text = *end == ':' ? end + 1 : end;
  }
  return xids;
}

struct Event {
  void* device;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance;
  unsigned compute_instance;
};

}  // namespace

extern "C" {

int nvmlEventSetCreate(void** set) {
  ACT();
  *set = &g_registered;
  return 0;
}
int nvmlDeviceRegisterEvents(void* device, unsigned long long types, void*) {
  ACT();
  if ((types & kXid) != 0 && g_registered == nullptr) g_registered = device;
  return 0;
}
int nvmlEventSetWait_v2(void*, Event* event, unsigned milliseconds) {
  ACT();
  const std::vector<unsigned long long> xids = Xids();
  if (g_registered != nullptr && g_reported < xids.size()) {
    *event = {g_registered, kXid, xids[g_reported++], 0, 0};
    return 0;
  }
  usleep(milliseconds * 1000);
  return kTimeout;
}
int nvmlEventSetFree(void*) { return 0; }
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void* instance, void** gpu) {
  ACT();
  // As fake_nvml.cc makes handles: 64 for each GPU, an instance's above its
  // GPU's.
  *gpu = reinterpret_cast<void*>(reinterpret_cast<size_t>(instance) / 64 * 64);
  return 0;
}

}  // extern "C"
