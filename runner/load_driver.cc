#include "runner/load_driver.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace twinpath::runner {
namespace {

constexpr uint32_t kMostFunctions = 1'000'000;

// Where the driver writes what its compiler and linker say.
class JitLog {
 public:
  JitLog() {
    text_.fill('\0');
    values_[0] = text_.data();
    values_[1] = reinterpret_cast<void*>(text_.size());
  }
  unsigned count() const { return 2; }
  int* options() { return options_.data(); }
  void** values() { return values_.data(); }
  std::string Text() const {
    return std::string(text_.data(), strnlen(text_.data(), text_.size()));
  }

 private:
  std::array<char, kMostLogBytes> text_;
  std::array<int, 2> options_ = {kCudaJitErrorLogBuffer,
                                 kCudaJitErrorLogBufferSize};
  std::array<void*, 2> values_;
};

LoadHello Down(absl::string_view code, std::string text, CudaResult error = 0) {
  LoadHello hello;
  hello.code = std::string(code);
  hello.text = std::move(text);
  hello.cuda_error = error;
  return hello;
}

// The machine code's number that a link of these pieces has; 0: not known.
uint32_t NumberOf(const std::vector<LoadDriver::Piece>& pieces,
                  uint32_t device) {
  uint32_t number = 0;
  for (const LoadDriver::Piece& piece : pieces) {
    const uint32_t of = piece.job->ptx ? device : piece.job->number;
    if (number != 0 && of != number) return 0;
    number = of;
  }
  return number;
}

}  // namespace

LoadHello LoadDriver::Start() {
  if (!driver_.Load()) {
    return Down(driver_.absent ? "TP101" : "TP102", driver_.error);
  }
  struct Needed {
    const void* symbol;
    const char* name;
  };
  for (const Needed& needed : {
           Needed{reinterpret_cast<void*>(driver_.Init), "cuInit"},
           Needed{reinterpret_cast<void*>(driver_.DeviceGet), "cuDeviceGet"},
           Needed{reinterpret_cast<void*>(driver_.DeviceGetAttribute),
                  "cuDeviceGetAttribute"},
           Needed{reinterpret_cast<void*>(driver_.PrimaryContextRetain),
                  "cuDevicePrimaryCtxRetain"},
           Needed{reinterpret_cast<void*>(driver_.ContextSetCurrent),
                  "cuCtxSetCurrent"},
           Needed{reinterpret_cast<void*>(driver_.ModuleLoadDataEx),
                  "cuModuleLoadDataEx"},
           Needed{reinterpret_cast<void*>(driver_.ModuleUnload),
                  "cuModuleUnload"},
       }) {
    if (needed.symbol == nullptr) {
      return Down("TP102", absl::StrCat("libcuda.so.1 has no ", needed.name));
    }
  }
  CudaDevice device = 0;
  int major = 0;
  int minor = 0;
  void* context = nullptr;
  CudaResult result = 0;
  const auto failed = [&](const char* call) {
    return Down(result == kCudaErrorNoDevice      ? "TP106"
                : result == kCudaErrorStubLibrary ? "TP105"
                                                  : "TP102",
                absl::StrCat(call, ": ", driver_.Describe(result)), result);
  };
  if ((result = driver_.Init(0)) != kCudaSuccess) return failed("cuInit");
  if ((result = driver_.DeviceGet(&device, 0)) != kCudaSuccess) {
    return failed("cuDeviceGet");
  }
  if ((result = driver_.DeviceGetAttribute(
           &major, kCudaAttributeCapabilityMajor, device)) != kCudaSuccess ||
      (result = driver_.DeviceGetAttribute(
           &minor, kCudaAttributeCapabilityMinor, device)) != kCudaSuccess) {
    return failed("cuDeviceGetAttribute");
  }
  if ((result = driver_.PrimaryContextRetain(&context, device)) !=
      kCudaSuccess) {
    return failed("cuDevicePrimaryCtxRetain");
  }
  if ((result = driver_.ContextSetCurrent(context)) != kCudaSuccess) {
    return failed("cuCtxSetCurrent");
  }
  LoadHello hello;
  hello.up = true;
  device_ = hello.device = static_cast<uint32_t>(major * 10 + minor);
  size_t total = 0;
  if (driver_.DeviceTotalMem != nullptr &&
      driver_.DeviceTotalMem(&total, device) == kCudaSuccess) {
    hello.device_bytes = total;
  }
  return hello;
}

uint64_t LoadDriver::Free() const {
  size_t free_bytes = 0;
  size_t total = 0;
  if (driver_.MemGetInfo == nullptr ||
      driver_.MemGetInfo(&free_bytes, &total) != kCudaSuccess) {
    return 0;
  }
  return free_bytes;
}

void LoadDriver::Refused(CudaResult result, absl::string_view call,
                         LoadAnswer& answer) const {
  answer.state = LoadAnswer::State::kRefused;
  answer.cuda_error = result;
  if (answer.log.empty()) {
    answer.log = absl::StrCat(call, ": ", driver_.Describe(result));
  }
}

void LoadDriver::ReadKernels(void* module, bool ptx, uint32_t number,
                             LoadAnswer& answer) const {
  unsigned count = 0;
  if (driver_.ModuleGetFunctionCount == nullptr ||
      driver_.ModuleGetFunctionCount(&count, module) != kCudaSuccess) {
    return;
  }
  answer.functions += count;
  if (count == 0 || count > kMostFunctions ||
      driver_.ModuleEnumerateFunctions == nullptr ||
      driver_.FuncGetAttribute == nullptr) {
    return;
  }
  std::vector<void*> functions(count, nullptr);
  if (driver_.ModuleEnumerateFunctions(functions.data(), count, module) !=
      kCudaSuccess) {
    return;
  }
  for (void* function : functions) {
    int ptx_version = 0;
    int binary_version = 0;
    if (function == nullptr ||
        driver_.FuncGetAttribute(&ptx_version, kCudaFunctionPtxVersion,
                                 function) != kCudaSuccess ||
        driver_.FuncGetAttribute(&binary_version, kCudaFunctionBinaryVersion,
                                 function) != kCudaSuccess) {
      continue;
    }
    ++answer.kernels;
    // What was compiled is for this device and from that PTX; what was not is
    // what the image says.
    const auto binary = static_cast<uint32_t>(binary_version);
    const auto made_from = static_cast<uint32_t>(ptx_version);
    const bool good =
        number == 0 ||
        (ptx ? binary == device_ && made_from == number : binary == number);
    if (good || answer.odd.size() == kMostKernelsListed) continue;
    LoadAnswer::Kernel& kernel = answer.odd.emplace_back();
    kernel.ptx_version = made_from;
    kernel.binary_version = binary;
    const char* name = nullptr;
    if (driver_.FuncGetName != nullptr &&
        driver_.FuncGetName(&name, function) == kCudaSuccess &&
        name != nullptr) {
      kernel.name = name;
    }
  }
}

void LoadDriver::LoadInto(const void* bytes, bool ptx, uint32_t number,
                          LoadAnswer& answer) {
  JitLog log;
  void* module = nullptr;
  const uint64_t before = Free();
  const CudaResult result = driver_.ModuleLoadDataEx(
      &module, bytes, log.count(), log.options(), log.values());
  if (std::string text = log.Text(); !text.empty()) answer.log = text;
  if (result != kCudaSuccess) {
    Refused(result, "cuModuleLoadDataEx", answer);
    return;
  }
  const uint64_t after = Free();
  answer.device_bytes = before > after ? before - after : 0;
  ReadKernels(module, ptx, number, answer);
  answer.state = LoadAnswer::State::kLoaded;
  driver_.ModuleUnload(module);
}

LoadAnswer LoadDriver::Load(const LoadJob& job, absl::string_view bytes) {
  LoadAnswer answer;
  answer.id = job.id;
  const absl::Time start = absl::Now();
  // Of a whole fatbin the driver chooses, so nothing is known of its kernels.
  const uint32_t number = job.form == LoadJob::Form::kFatbin ? 0 : job.number;
  LoadInto(bytes.data(), job.ptx, number, answer);
  answer.duration = absl::Now() - start;
  return answer;
}

LoadAnswer LoadDriver::Link(const std::vector<Piece>& pieces) {
  LoadAnswer answer;
  answer.linked = true;
  const absl::Time start = absl::Now();
  if (driver_.LinkCreate == nullptr || driver_.LinkAddData == nullptr ||
      driver_.LinkComplete == nullptr || driver_.LinkDestroy == nullptr) {
    answer.state = LoadAnswer::State::kUnread;
    answer.log = "libcuda.so.1 has no linker (cuLinkCreate_v2)";
    return answer;
  }
  JitLog log;
  void* link = nullptr;
  CudaResult result =
      driver_.LinkCreate(log.count(), log.options(), log.values(), &link);
  if (result != kCudaSuccess) {
    Refused(result, "cuLinkCreate", answer);
    return answer;
  }
  const char* call = "cuLinkAddData";
  for (const Piece& piece : pieces) {
    const bool ptx = piece.job->ptx;
    const std::string name = absl::StrCat("piece at ", piece.job->offset);
    // PTX with its NUL; a cubin without.
    result =
        driver_.LinkAddData(link, ptx ? kCudaJitInputPtx : kCudaJitInputCubin,
                            const_cast<char*>(piece.bytes.data()),
                            ptx ? piece.bytes.size() : piece.bytes.size() - 1,
                            name.c_str(), 0, nullptr, nullptr);
    if (result != kCudaSuccess) break;
  }
  void* cubin = nullptr;
  size_t size = 0;
  if (result == kCudaSuccess) {
    call = "cuLinkComplete";
    result = driver_.LinkComplete(link, &cubin, &size);
  }
  answer.log = log.Text();
  if (result != kCudaSuccess) {
    Refused(result, call, answer);
  } else {
    LoadInto(cubin, false, NumberOf(pieces, device_), answer);
  }
  // The cubin is the link's.
  driver_.LinkDestroy(link);
  answer.duration = absl::Now() - start;
  return answer;
}

}  // namespace twinpath::runner
