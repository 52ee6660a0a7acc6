#include "runner/device_state.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "runner/driver_library.h"
#include "runner/nvml_health.h"
#include "runner/unit_socket.h"

namespace twinpath::runner {
namespace {

// A driver in trouble reports the same fault again and again.
constexpr int kMostEvents = 64;
constexpr size_t kMostTextBytes = 500;
constexpr size_t kMostGpus = 256;
// How long one wait for an event takes; the end of the run is seen so late.
constexpr unsigned kSliceMilliseconds = 100;
constexpr size_t kMaxRequestBytes = 64 << 10;
// The kernel's records are at most this long (printk's PRINTK_MESSAGE_MAX).
constexpr size_t kRecordBytes = 8 << 10;
// Records read between two looks at the socket; a flood must not keep the
// watch from ending.
constexpr int kMostRecords = 10'000;

void SetResult(v1::ProbeResult& probe, v1::ProbeState state,
               absl::string_view error = "") {
  probe.set_state(state);
  probe.set_error(std::string(error));
}

struct WatchedGpu {
  std::string uuid;
  std::string pci;
  NvmlDevice device = nullptr;
  // The whole GPU where `device` is a MIG instance: counters and events are the
  // GPU's.
  NvmlDevice whole = nullptr;
};

class Watch {
 public:
  explicit Watch(const v1::ProbeRequest& request) {
    OpenKernelLog();
    StartNvml(request);
  }

  v1::DeviceWatch Begin() {
    v1::DeviceWatch watch;
    for (const WatchedGpu& gpu : gpus_) *watch.add_before() = StateOf(gpu);
    *watch.mutable_xid_watch() = probe_;
    return watch;
  }

  // Collects what comes within one slice.
  void Wait() {
    if (!registered_) {
      poll(nullptr, 0, kSliceMilliseconds);
      return;
    }
    unsigned patience = kSliceMilliseconds;
    for (int i = 0; i < kMostEvents; ++i) {
      NvmlEvent event{};
      const NvmlResult result =
          health_.EventSetWait(event_set_, &event, patience);
      if (result == kNvmlTimeout) return;
      if (result != kNvmlSuccess) {
        // As when the GPU is gone; what was seen stays.
        SetResult(
            probe_, v1::PROBE_STATE_FAILED,
            absl::StrCat("nvmlEventSetWait_v2: ", nvml_.Describe(result)));
        registered_ = false;
        return;
      }
      if ((event.type & kNvmlEventXid) != 0) AddEvent(event);
      patience = 0;
    }
  }

  v1::DeviceWatch End() {
    // What belongs to the run may come just behind it.
    Wait();
    ReadKernelLog();
    v1::DeviceWatch watch;
    for (const WatchedGpu& gpu : gpus_) *watch.add_after() = StateOf(gpu);
    for (v1::XidEvent& event : events_) *watch.add_xids() = std::move(event);
    *watch.mutable_xid_watch() = probe_;
    return watch;
  }

 private:
  void OpenKernelLog() {
    kernel_log_ =
        UniqueFd(open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (kernel_log_.valid() && lseek(kernel_log_.get(), 0, SEEK_END) < 0) {
      kernel_log_.Close();
    }
  }

  void StartNvml(const v1::ProbeRequest& request) {
    const v1::ProbeState without =
        kernel_log_.valid() ? v1::PROBE_STATE_OK : v1::PROBE_STATE_FAILED;
    if (!nvml_.Load()) {
      SetResult(probe_,
                kernel_log_.valid() ? v1::PROBE_STATE_OK
                : nvml_.absent      ? v1::PROBE_STATE_ABSENT
                                    : v1::PROBE_STATE_FAILED,
                nvml_.error);
      return;
    }
    if (nvml_.Init == nullptr) {
      SetResult(probe_, without, "NVML has no nvmlInit_v2");
      return;
    }
    if (const NvmlResult result = nvml_.Init(); result != kNvmlSuccess) {
      SetResult(probe_, without,
                absl::StrCat("nvmlInit_v2: ", nvml_.Describe(result)));
      return;
    }
    health_.Load();
    std::string error = FindGpus(request);
    if (error.empty()) error = Register();
    registered_ = error.empty() && !gpus_.empty();
    SetResult(probe_, registered_ ? v1::PROBE_STATE_OK : without, error);
  }

  // Returns what was not found.
  std::string FindGpus(const v1::ProbeRequest& request) {
    if (health_.DeviceGetHandleByUuid == nullptr) {
      return "NVML has no nvmlDeviceGetHandleByUUID";
    }
    std::string error;
    for (const std::string& uuid : request.gpu_uuids()) {
      if (gpus_.size() == kMostGpus) break;
      WatchedGpu gpu;
      gpu.uuid = uuid;
      const NvmlResult result =
          health_.DeviceGetHandleByUuid(uuid.c_str(), &gpu.device);
      if (result != kNvmlSuccess) {
        error = absl::StrCat("nvmlDeviceGetHandleByUUID ", uuid, ": ",
                             nvml_.Describe(result));
        continue;
      }
      gpu.whole = gpu.device;
      if (absl::StartsWith(uuid, "MIG-") && health_.ParentOfMig != nullptr) {
        NvmlDevice parent = nullptr;
        if (health_.ParentOfMig(gpu.device, &parent) == kNvmlSuccess) {
          gpu.whole = parent;
        }
      }
      NvmlPciInfo pci{};
      if (nvml_.DeviceGetPciInfo != nullptr &&
          nvml_.DeviceGetPciInfo(gpu.whole, &pci) == kNvmlSuccess) {
        pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
        gpu.pci = PciKey(pci.bus_id);
      }
      gpus_.push_back(std::move(gpu));
    }
    return error;
  }

  std::string Register() {
    if (health_.EventSetCreate == nullptr ||
        health_.DeviceRegisterEvents == nullptr ||
        health_.EventSetWait == nullptr) {
      return "NVML has no events";
    }
    NvmlResult result = health_.EventSetCreate(&event_set_);
    if (result != kNvmlSuccess) {
      return absl::StrCat("nvmlEventSetCreate: ", nvml_.Describe(result));
    }
    for (const WatchedGpu& gpu : gpus_) {
      result =
          health_.DeviceRegisterEvents(gpu.whole, kNvmlEventXid, event_set_);
      if (result != kNvmlSuccess) {
        return absl::StrCat("nvmlDeviceRegisterEvents: ",
                            nvml_.Describe(result));
      }
    }
    return "";
  }

  v1::DeviceState StateOf(const WatchedGpu& gpu) const {
    v1::DeviceState state;
    state.set_gpu_uuid(gpu.uuid);
    unsigned count = 0;
    if (nvml_.DeviceGetComputeRunningProcesses != nullptr) {
      const NvmlResult result =
          nvml_.DeviceGetComputeRunningProcesses(gpu.device, &count, nullptr);
      if (result == kNvmlSuccess || result == kNvmlInsufficientSize) {
        state.set_compute_processes(count);
      }
    }
    unsigned long long errors = 0;
    if (health_.DeviceGetTotalEccErrors != nullptr) {
      if (health_.DeviceGetTotalEccErrors(gpu.whole, kNvmlUncorrected,
                                          kNvmlVolatile,
                                          &errors) == kNvmlSuccess) {
        state.set_uncorrected_errors(errors);
      }
      if (health_.DeviceGetTotalEccErrors(gpu.whole, kNvmlCorrected,
                                          kNvmlVolatile,
                                          &errors) == kNvmlSuccess) {
        state.set_corrected_errors(errors);
      }
    }
    unsigned corrected = 0;
    unsigned uncorrected = 0;
    unsigned pending = 0;
    unsigned failed = 0;
    if (health_.DeviceGetRemappedRows != nullptr &&
        health_.DeviceGetRemappedRows(gpu.whole, &corrected, &uncorrected,
                                      &pending, &failed) == kNvmlSuccess) {
      state.set_remapped_rows(uncorrected);
      state.set_remapping_pending(pending != 0);
      state.set_remapping_failed(failed != 0);
    }
    unsigned long long reasons = 0;
    if (health_.DeviceGetClocksReasons != nullptr &&
        health_.DeviceGetClocksReasons(gpu.whole, &reasons) == kNvmlSuccess) {
      for (std::string& reason : ThrottleReasons(reasons)) {
        state.add_throttle_reasons(std::move(reason));
      }
    }
    unsigned degrees = 0;
    if (health_.DeviceGetTemperature != nullptr &&
        health_.DeviceGetTemperature(gpu.whole, /*sensor=*/0, &degrees) ==
            kNvmlSuccess) {
      state.set_temperature(degrees);
    }
    return state;
  }

  void AddEvent(const NvmlEvent& event) {
    if (events_.size() >= kMostEvents) return;
    v1::XidEvent xid;
    xid.set_xid(static_cast<uint32_t>(event.data));
    for (const WatchedGpu& gpu : gpus_) {
      if (gpu.whole == event.device) xid.set_gpu(gpu.uuid);
    }
    events_.push_back(std::move(xid));
  }

  // Xids in the kernel's log since the watch stands: they give a text to those
  // NVML told of, and stand alone where it told none.
  void ReadKernelLog() {
    if (!kernel_log_.valid()) return;
    std::string record(kRecordBytes, '\0');
    for (int i = 0; i < kMostRecords; ++i) {
      const ssize_t got = read(kernel_log_.get(), record.data(), record.size());
      if (got < 0 && (errno == EPIPE || errno == EINTR)) continue;
      if (got <= 0) return;
      std::optional<v1::XidEvent> xid = XidOfRecord(
          absl::string_view(record.data(), static_cast<size_t>(got)));
      if (!xid || !Concerns(*xid)) continue;
      const auto same = std::find_if(
          events_.begin(), events_.end(), [&xid](const v1::XidEvent& event) {
            return event.xid() == xid->xid() && event.text().empty();
          });
      if (same != events_.end()) {
        same->set_text(xid->text());
      } else if (!registered_ && events_.size() < kMostEvents) {
        events_.push_back(*std::move(xid));
      }
    }
  }

  // Whether a line is about one of these GPUs, or that cannot be told.
  bool Concerns(const v1::XidEvent& xid) const {
    const std::string key = PciKey(xid.gpu());
    return key.empty() || gpus_.empty() ||
           std::any_of(gpus_.begin(), gpus_.end(),
                       [&key](const WatchedGpu& gpu) {
                         return gpu.pci.empty() || gpu.pci == key;
                       });
  }

  Nvml nvml_;
  NvmlHealth health_;
  NvmlEventSet event_set_ = nullptr;
  bool registered_ = false;
  UniqueFd kernel_log_;
  v1::ProbeResult probe_;
  std::vector<WatchedGpu> gpus_;
  std::vector<v1::XidEvent> events_;
};

bool Readable(int socket) {
  struct pollfd wait = {socket, POLLIN, 0};
  return poll(&wait, 1, 0) > 0;
}

}  // namespace

absl::Status ServeDeviceWatch(int socket, const v1::ProbeRequest& request) {
  Watch watch(request);
  const Patience patience = Patience::For(absl::Seconds(60));
  if (const absl::Status status = WriteMessage(socket, patience, watch.Begin());
      !status.ok()) {
    return absl::IsUnavailable(status) ? absl::OkStatus() : status;
  }
  while (!Readable(socket)) watch.Wait();
  v1::ProbeRequest end;
  if (const absl::Status status = ReadMessage(
          socket, Patience::For(absl::Seconds(60)), kMaxRequestBytes, end);
      !status.ok()) {
    return absl::IsUnavailable(status) ? absl::OkStatus() : status;
  }
  const absl::Status status =
      WriteMessage(socket, Patience::For(absl::Seconds(60)), watch.End());
  return absl::IsUnavailable(status) ? absl::OkStatus() : status;
}

std::optional<v1::XidEvent> XidOfRecord(absl::string_view record) {
  constexpr absl::string_view kMark = "NVRM: Xid (";
  const size_t at = record.find(kMark);
  if (at == absl::string_view::npos) return std::nullopt;
  absl::string_view rest = record.substr(at + kMark.size());
  const size_t close = rest.find("): ");
  if (close == absl::string_view::npos || close > 64) return std::nullopt;
  const absl::string_view gpu = rest.substr(0, close);
  rest = rest.substr(close + 3);
  const size_t digits = rest.find_first_not_of("0123456789");
  uint32_t number = 0;
  if (!absl::SimpleAtoi(rest.substr(0, digits), &number)) return std::nullopt;
  v1::XidEvent event;
  event.set_xid(number);
  event.set_gpu(std::string(gpu));
  absl::string_view line = record.substr(at);
  line = line.substr(0, line.find('\n'));
  event.set_text(
      std::string(absl::StripAsciiWhitespace(line.substr(0, kMostTextBytes))));
  return event;
}

std::string PciKey(absl::string_view address) {
  absl::ConsumePrefix(&address, "PCI:");
  // The function, ".0", is in some spellings only.
  address = address.substr(0, address.find('.'));
  const std::vector<absl::string_view> parts = absl::StrSplit(address, ':');
  if (parts.size() != 3) return "";
  std::string key;
  for (absl::string_view part : parts) {
    if (part.empty() || part.size() > 8 ||
        !std::all_of(part.begin(), part.end(), [](char c) {
          return absl::ascii_isxdigit(static_cast<unsigned char>(c));
        })) {
      return "";
    }
    while (part.size() > 1 && part.front() == '0') part.remove_prefix(1);
    absl::StrAppend(&key, key.empty() ? "" : ":", absl::AsciiStrToLower(part));
  }
  return key;
}

std::vector<std::string> ThrottleReasons(uint64_t bits) {
  // nvmlClocksEventReasons.
  static constexpr std::pair<uint64_t, const char*> kReasons[] = {
      {0x4, "power"},    {0x8, "hardware slowdown"},   {0x10, "sync boost"},
      {0x20, "thermal"}, {0x40, "thermal (hardware)"}, {0x80, "power brake"},
  };
  std::vector<std::string> reasons;
  for (const auto& [bit, name] : kReasons) {
    if ((bits & bit) != 0) reasons.emplace_back(name);
  }
  return reasons;
}

}  // namespace twinpath::runner
