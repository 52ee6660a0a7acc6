#include "compat/environment.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/text.h"
#include "compat/reason.h"

namespace twinpath::compat {
namespace {

constexpr int kNative = 0;
constexpr int kPtxJit = 1;
constexpr int kPlain = 2;

bool IsOff(absl::string_view value) { return value.empty() || value == "0"; }

bool Forces(absl::string_view name) {
  return name == "CUDA_FORCE_PTX_JIT" || name == "CUDA_FORCE_JIT";
}

bool Disables(absl::string_view name) {
  return name == "CUDA_DISABLE_PTX_JIT" || name == "CUDA_DISABLE_JIT";
}

bool Injects(absl::string_view name) {
  return name == "LD_PRELOAD" || name == "LD_AUDIT" ||
         absl::StartsWith(name, "CUDA_INJECTION") ||
         absl::StartsWith(name, "NVTX_INJECTION");
}

// Folders of an LD_LIBRARY_PATH with a part of this name.
bool HasFolder(absl::string_view value, absl::string_view part_name) {
  for (const absl::string_view folder : absl::StrSplit(value, ':')) {
    for (const absl::string_view part : absl::StrSplit(folder, '/')) {
      if (absl::StartsWith(part, part_name)) return true;
    }
  }
  return false;
}

// What a switch does to programs that inherit it.
std::string EffectOf(absl::string_view name) {
  if (Forces(name)) {
    return "machine code is ignored and PTX compiled, also in NVIDIA's "
           "libraries";
  }
  if (Disables(name)) return "nothing is compiled: PTX alone fails with 223";
  if (name == "CUDA_CACHE_DISABLE") {
    return "what is compiled is compiled again at each start";
  }
  if (name == "CUDA_CACHE_PATH") return "the compiler's cache lies there";
  if (name == "CUDA_CACHE_MAXSIZE") {
    return "results above that size are compiled again at each start";
  }
  return "";
}

// Of two spellings the PTX one wins (Programming Guide).
void Prefer(const v1::EnvironmentLeak& leak, const v1::EnvironmentLeak*& held) {
  if (held == nullptr || absl::StrContains(leak.variable(), "PTX")) {
    held = &leak;
  }
}

// GPUs and MIG instances CUDA can show, in PCI order.
std::vector<const v1::Gpu*> Devices(const v1::HostFacts& facts) {
  std::vector<const v1::Gpu*> devices;
  for (const v1::Gpu& gpu : facts.gpus()) {
    if (gpu.mig_mode() == v1::MIG_MODE_ENABLED && gpu.parent_uuid().empty()) {
      continue;
    }
    devices.push_back(&gpu);
  }
  return devices;
}

// Reads CUDA_VISIBLE_DEVICES: indices, UUIDs or unique beginnings of them. The
// list is cut at the first entry that names no device.
class VisibleDevices {
 public:
  VisibleDevices(const v1::HostFacts& facts, absl::string_view value,
                 bool pci_order)
      : devices_(Devices(facts)) {
    for (const v1::Gpu* device : devices_) {
      mixed_ |= device->name() != devices_.front()->name();
    }
    for (absl::string_view word : absl::StrSplit(value, ',')) {
      while (absl::ConsumePrefix(&word, " ")) {
      }
      if (!Add(word)) break;
    }
    index_in_doubt_ &= mixed_ && !pci_order;
  }

  bool none() const { return visible_.empty(); }
  // An index of a host with several models, in CUDA's own order.
  bool index_in_doubt() const { return index_in_doubt_; }
  bool Shows(const v1::Gpu& gpu) const {
    return std::any_of(
        visible_.begin(), visible_.end(),
        [&gpu](const v1::Gpu* one) { return one->uuid() == gpu.uuid(); });
  }

 private:
  bool Add(absl::string_view word) {
    uint32_t index = 0;
    if (absl::SimpleAtoi(word, &index)) {
      if (index >= devices_.size()) return false;
      visible_.push_back(devices_[index]);
      index_in_doubt_ = true;
      return true;
    }
    const v1::Gpu* found = nullptr;
    for (const v1::Gpu* device : devices_) {
      if (word.size() < 5 || !absl::StartsWith(device->uuid(), word)) continue;
      if (found != nullptr) return false;
      found = device;
    }
    if (found == nullptr) return false;
    visible_.push_back(found);
    return true;
  }

  std::vector<const v1::Gpu*> devices_;
  std::vector<const v1::Gpu*> visible_;
  bool mixed_ = false;
  bool index_in_doubt_ = false;
};

void PutFirst(v1::Reason reason, v1::PathPrediction& path) {
  path.mutable_reasons()->Add(std::move(reason));
  for (int i = path.reasons_size() - 1; i > 0; --i) {
    path.mutable_reasons()->SwapElements(i, i - 1);
  }
}

// The error a path fails with; 0: none, or it does not fail.
uint32_t ErrorOf(const v1::PathPrediction& path) {
  return path.outcome() == v1::OUTCOME_FAILS && path.reasons_size() > 0
             ? path.reasons(0).cuda_error()
             : 0;
}

// Whether a path's answer is another, not only its wording: a program that does
// not start fails the same with and without a switch.
bool Changed(const v1::PathPrediction& before,
             const v1::PathPrediction& after) {
  return before.outcome() != after.outcome() ||
         ErrorOf(before) != ErrorOf(after);
}

}  // namespace

bool IsInherited(const v1::EnvironmentLeak& leak) {
  const absl::string_view origin = leak.origin();
  if (origin == "process") return true;
  for (const absl::string_view place :
       {"/etc/environment", "/etc/profile", "/etc/bash.bashrc",
        "/etc/security/pam_env.conf", "/etc/systemd/system.conf",
        "/etc/systemd/user.conf"}) {
    // Also /etc/environment.d, /etc/profile.d, /etc/systemd/system.conf.d.
    if (absl::StartsWith(origin, place)) return true;
  }
  return false;
}

std::string DescribeLeak(const v1::EnvironmentLeak& leak) {
  return absl::StrCat(Printable(leak.variable()), "=", Printable(leak.value()),
                      " in ", Printable(leak.origin()),
                      leak.line() > 0 ? absl::StrCat(":", leak.line()) : "");
}

std::optional<v1::Reason> ReasonOfLeak(const v1::EnvironmentLeak& leak) {
  const absl::string_view name = leak.variable();
  const std::string text = DescribeLeak(leak);
  if (name == "CUDA_DEVICE_ORDER") return std::nullopt;
  if (name == "CUDA_VISIBLE_DEVICES") {
    // For one service it is how GPUs are shared out.
    if (!IsInherited(leak)) return std::nullopt;
    return MakeReason("TP123", text);
  }
  if (IsOff(leak.value()) && name != "CUDA_CACHE_PATH" &&
      name != "CUDA_CACHE_MAXSIZE") {
    return std::nullopt;
  }
  if (Injects(name)) return MakeReason("TP126", text);
  if (name == "LD_LIBRARY_PATH") {
    return MakeReason(
        "TP122",
        absl::StrCat(text,
                     HasFolder(leak.value(), "stubs")
                         ? ": a libcuda.so.1 in the stubs folder is found "
                           "before the driver's (error 34)"
                         : ": a libcuda.so.1 in the compat folder is found "
                           "before the driver's"));
  }
  const std::string effect = EffectOf(name);
  return MakeReason("TP109",
                    effect.empty() ? text : absl::StrCat(text, ": ", effect));
}

Inherited InheritedBy(const v1::HostFacts& facts, const v1::Gpu& gpu,
                      const Tables& tables) {
  Inherited inherited;
  const v1::EnvironmentLeak* visible = nullptr;
  bool pci_order = false;
  for (const v1::EnvironmentLeak& leak : facts.leaks()) {
    if (!IsInherited(leak)) continue;
    const absl::string_view name = leak.variable();
    if (name == "CUDA_VISIBLE_DEVICES") visible = &leak;
    if (name == "CUDA_DEVICE_ORDER") {
      pci_order = leak.value() == "PCI_BUS_ID";
    }
    if (IsOff(leak.value())) continue;
    if (Forces(name)) Prefer(leak, inherited.force);
    if (Disables(name)) Prefer(leak, inherited.disable);
    if (name == "LD_LIBRARY_PATH" && HasFolder(leak.value(), "compat")) {
      inherited.compat_path = &leak;
    }
  }
  if (visible != nullptr) {
    const VisibleDevices devices(facts, visible->value(), pci_order);
    if (devices.none()) {
      inherited.no_devices = visible;
    } else if (devices.index_in_doubt()) {
      inherited.devices = MakeReason(
          "TP123", absl::StrCat(DescribeLeak(*visible),
                                ": this host has several models of GPU, and "
                                "CUDA's order is not nvidia-smi's without "
                                "CUDA_DEVICE_ORDER=PCI_BUS_ID"));
    } else if (!devices.Shows(gpu)) {
      inherited.devices =
          MakeReason("TP123", absl::StrCat(DescribeLeak(*visible), " hides ",
                                           Printable(gpu.name()), " ",
                                           Printable(gpu.uuid())));
    }
  }
  if (inherited.compat_path != nullptr &&
      !facts.driver().has_forward_compat()) {
    const auto& installed = facts.driver().forward_compat_libraries();
    for (const v1::ForwardCompatLibrary& library : installed) {
      for (const absl::string_view folder :
           absl::StrSplit(inherited.compat_path->value(), ':')) {
        if (DirName(library.path()) == folder) {
          inherited.compat_library = &library;
        }
      }
    }
    // /usr/local/cuda is a link; with one package installed it is that one.
    if (inherited.compat_library == nullptr && installed.size() == 1) {
      inherited.compat_library = &installed[0];
    }
    if (inherited.compat_library != nullptr) {
      inherited.compat = DecideForwardCompat(
          inherited.compat_library->note(),
          inherited.compat_library->libcuda_version(), facts, gpu, tables);
    }
  }
  return inherited;
}

std::optional<v1::HostFacts> WithInheritedDriver(const v1::HostFacts& facts,
                                                 const v1::Gpu& gpu,
                                                 const Tables& tables) {
  const Inherited inherited = InheritedBy(facts, gpu, tables);
  if (!inherited.compat || inherited.compat->answer != CompatAnswer::kWorks) {
    return std::nullopt;
  }
  v1::HostFacts changed = facts;
  changed.clear_leaks();
  // Nothing was started with it.
  changed.set_simulated(true);
  v1::Driver& driver = *changed.mutable_driver();
  *driver.mutable_forward_compat() = inherited.compat_library->note();
  driver.set_libcuda_path(inherited.compat_library->path());
  driver.set_libcuda_version(inherited.compat_library->libcuda_version());
  driver.clear_cuda_version();
  driver.clear_ptx_isa_ceiling();
  driver.clear_ptx_isa_probe();
  return changed;
}

void ApplyInherited(
    const Inherited& inherited,
    google::protobuf::RepeatedPtrField<v1::PathPrediction>* paths) {
  v1::PathPrediction& plain = *paths->Mutable(kPlain);
  if (plain.outcome() == v1::OUTCOME_NO_DEVICE_CODE) return;
  const auto decided = [&plain](const v1::EnvironmentLeak& leak,
                                absl::string_view effect) {
    PutFirst(MakeReason("TP122", absl::StrCat(DescribeLeak(leak), ": ", effect),
                        "", ErrorOf(plain)),
             plain);
  };
  const auto take = [&](int path) {
    plain = paths->Get(path);
    plain.set_path(v1::PATH_PLAIN);
  };
  if (inherited.force != nullptr && inherited.disable != nullptr) {
    // Measured: 223 for all that PTX would serve.
    take(kPtxJit);
    if (plain.outcome() == v1::OUTCOME_JIT) {
      plain.set_outcome(v1::OUTCOME_FAILS);
      plain.clear_reasons();
      *plain.add_reasons() = MakeReason("TP205", "", "", 223);
    }
    decided(*inherited.force, "machine code is ignored");
    decided(*inherited.disable, "and nothing is compiled");
  } else if (inherited.force != nullptr) {
    const v1::PathPrediction before = plain;
    take(kPtxJit);
    if (!Changed(before, plain)) {
      plain = before;
    } else {
      decided(*inherited.force, "programs run as on the ptx-jit path");
    }
  } else if (inherited.disable != nullptr) {
    const v1::PathPrediction before = plain;
    take(kNative);
    if (!Changed(before, plain)) {
      plain = before;
    } else {
      decided(*inherited.disable, "programs run as on the native path");
    }
  }
  if (inherited.compat && inherited.compat->answer != CompatAnswer::kWorks) {
    const bool refused = inherited.compat->answer == CompatAnswer::kRefused;
    plain.set_outcome(refused ? v1::OUTCOME_FAILS : v1::OUTCOME_UNKNOWN);
    plain.set_settled_by(inherited.compat->settled_by);
    v1::Reason reason = inherited.compat->reason;
    reason.set_detail(absl::StrCat(DescribeLeak(*inherited.compat_path), ": ",
                                   reason.detail()));
    PutFirst(std::move(reason), plain);
  }
  if (inherited.no_devices != nullptr) {
    plain.set_outcome(v1::OUTCOME_FAILS);
    plain.clear_settled_by();
    PutFirst(MakeReason("TP123",
                        absl::StrCat(DescribeLeak(*inherited.no_devices),
                                     " leaves no GPU"),
                        "", 100),
             plain);
  }
}

}  // namespace twinpath::compat
