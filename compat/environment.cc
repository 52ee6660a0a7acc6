#include "compat/environment.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/text.h"
#include "compat/loader_index.h"
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

// Folders of an LD_LIBRARY_PATH, in order; ld.so(8) takes both separators.
std::vector<absl::string_view> FoldersOf(absl::string_view value) {
  return absl::StrSplit(value, absl::ByAnyChar(":;"), absl::SkipEmpty());
}

// Whether a folder of an LD_LIBRARY_PATH has a part of one of these names.
bool HasFolder(absl::string_view value,
               std::initializer_list<absl::string_view> names) {
  for (const absl::string_view folder : FoldersOf(value)) {
    for (const absl::string_view part : absl::StrSplit(folder, '/')) {
      if (std::find(names.begin(), names.end(), part) != names.end()) {
        return true;
      }
    }
  }
  return false;
}

bool HasCompatFolder(absl::string_view value) {
  return HasFolder(value, {"compat", "compat_orin"});
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

// The part of `path` behind a link that toolkits keep to the installed one,
// /usr/local/cuda or /usr/local/cuda-13; with it the beginning that all folders
// have to which the link can lead. Nothing for other folders.
struct LinkedFolder {
  std::string toolkits;
  std::string rest;
};
std::optional<LinkedFolder> BehindToolkitLink(absl::string_view path) {
  if (!absl::ConsumePrefix(&path, "/usr/local/cuda")) return std::nullopt;
  const absl::string_view version = path.substr(0, path.find('/'));
  if (absl::StrContains(version, '.')) return std::nullopt;
  // "/usr/local/cuda-" and "/usr/local/cuda-13.".
  LinkedFolder linked;
  linked.toolkits =
      absl::StrCat("/usr/local/cuda", version, version.empty() ? "-" : ".");
  linked.rest = std::string(path.substr(version.size()));
  return linked;
}

// The packages that a folder of an LD_LIBRARY_PATH may hold: the one that lies
// there, else those to which a toolkit's link may lead.
std::vector<const v1::ForwardCompatLibrary*> PackagesIn(
    absl::string_view folder, const v1::Driver& driver) {
  const std::string wanted = NormalisedPath(folder);
  std::vector<const v1::ForwardCompatLibrary*> packages;
  const auto linked = BehindToolkitLink(wanted);
  for (const v1::ForwardCompatLibrary& library :
       driver.forward_compat_libraries()) {
    const std::string lies = NormalisedPath(DirName(library.path()));
    if (lies == wanted) return {&library};
    absl::string_view rest = lies;
    if (!linked || !absl::ConsumePrefix(&rest, linked->toolkits)) continue;
    rest.remove_prefix(std::min(rest.find('/'), rest.size()));
    if (rest == linked->rest) packages.push_back(&library);
  }
  return packages;
}

// Which libcuda LD_LIBRARY_PATH leads to, and what comes of it: that of the
// first folder that holds one (ld.so(8)).
void FindCompat(const v1::HostFacts& facts, const v1::Gpu& gpu,
                const Tables& tables, Inherited& inherited) {
  const auto decide = [&](const v1::ForwardCompatLibrary& library) {
    return DecideForwardCompat(library.note(), library.libcuda_version(), facts,
                               gpu, tables);
  };
  for (const absl::string_view folder :
       FoldersOf(inherited.compat_path->value())) {
    const auto packages = PackagesIn(folder, facts.driver());
    if (packages.empty()) continue;
    const CompatDecision first = decide(*packages.front());
    if (packages.size() == 1) {
      inherited.compat_library = packages.front();
      inherited.compat = first;
      return;
    }
    // Which of them it is matters only where they differ.
    const bool all_refused =
        std::all_of(packages.begin(), packages.end(), [&](const auto* library) {
          const CompatDecision other = decide(*library);
          return other.answer == CompatAnswer::kRefused &&
                 other.reason.cuda_error() == first.reason.cuda_error();
        });
    if (all_refused) {
      inherited.compat = first;
      return;
    }
    const auto path = [](std::string* out, const auto* library) {
      out->append(Printable(library->path()));
    };
    inherited.compat = CompatDecision();
    inherited.compat->reason = MakeReason(
        "TP124", absl::StrCat(Printable(folder), " may be that of ",
                              absl::StrJoin(packages, " or ", path)));
    // A command to paste: the folder stands in it only where that is safe.
    const bool plain_name =
        std::all_of(folder.begin(), folder.end(), [](char c) {
          return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                 absl::string_view("/._-").find(c) != absl::string_view::npos;
        });
    inherited.compat->settled_by =
        absl::StrCat("readlink -f ", plain_name ? absl::string_view(folder)
                                                : "/usr/local/cuda*");
    return;
  }
}

// The error a path fails with; 0: none, or it does not fail.
uint32_t ErrorOf(const v1::PathPrediction& path) {
  return path.outcome() == v1::OUTCOME_FAILS && path.reasons_size() > 0
             ? path.reasons(0).cuda_error()
             : 0;
}

bool FailsWith(const v1::PathPrediction& path,
               std::initializer_list<absl::string_view> codes) {
  return path.outcome() == v1::OUTCOME_FAILS && path.reasons_size() > 0 &&
         std::find(codes.begin(), codes.end(), path.reasons(0).code()) !=
             codes.end();
}

// A file for another CPU, or a program whose libraries are missing: no driver
// is asked.
bool StopsBeforeDriver(const v1::PathPrediction& path) {
  return FailsWith(path, {"TP208", "TP231"});
}

// A failure that another libcuda may mend: its CUDA version is too low for the
// PTX, the runtime, the compression, Tile IR, obfuscated PTX.
bool FailsByDriver(const v1::PathPrediction& path) {
  return FailsWith(path, {"TP204", "TP207", "TP211", "TP255", "TP257"});
}

// Whether there is PTX whose target fits the GPU, told by the answers without a
// switch. Without machine code the native path says so itself; beside some,
// what stops the compilation is not the target.
bool HasFittingPtx(const v1::PathPrediction& native,
                   const v1::PathPrediction& ptx_jit) {
  if (ptx_jit.outcome() == v1::OUTCOME_JIT || ErrorOf(native) == 223) {
    return true;
  }
  if (native.outcome() != v1::OUTCOME_NATIVE || ptx_jit.reasons_size() == 0) {
    return false;
  }
  static constexpr absl::string_view kNotTheTarget[] = {
      "TP204", "TP108", "TP118", "TP218", "TP257", "TP258"};
  return std::find(std::begin(kNotTheTarget), std::end(kNotTheTarget),
                   ptx_jit.reasons(0).code()) != std::end(kNotTheTarget);
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
    const bool stubs = HasFolder(leak.value(), {"stubs"});
    if (!stubs && !HasCompatFolder(leak.value())) return std::nullopt;
    return MakeReason(
        "TP122",
        absl::StrCat(text,
                     stubs ? ": a libcuda.so.1 in the stubs folder is found "
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
    if (name == "LD_LIBRARY_PATH" && HasCompatFolder(leak.value())) {
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
    FindCompat(facts, gpu, tables, inherited);
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
  return WithDriver(facts, *inherited.compat_library);
}

v1::HostFacts WithDriver(const v1::HostFacts& facts,
                         const v1::ForwardCompatLibrary& library) {
  v1::HostFacts changed = facts;
  changed.clear_leaks();
  // Nothing was started with it.
  changed.set_simulated(true);
  v1::Driver& driver = *changed.mutable_driver();
  *driver.mutable_forward_compat() = library.note();
  driver.set_libcuda_path(library.path());
  driver.set_libcuda_version(library.libcuda_version());
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
    const v1::PathPrediction before = plain;
    take(kPtxJit);
    // Measured: 223 for all whose PTX is for the GPU, whatever stops it from
    // being compiled beside the switch.
    if (HasFittingPtx(paths->Get(kNative), plain)) {
      plain.set_outcome(v1::OUTCOME_FAILS);
      plain.clear_reasons();
      plain.clear_settled_by();
      plain.clear_gaps();
      *plain.add_reasons() = MakeReason("TP205", "", "", 223);
    }
    if (!Changed(before, plain)) {
      plain = before;
    } else {
      decided(*inherited.disable, "and nothing is compiled");
      decided(*inherited.force, "machine code is ignored");
    }
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
  if (inherited.compat && inherited.compat->answer != CompatAnswer::kWorks &&
      !StopsBeforeDriver(plain)) {
    const bool refused = inherited.compat->answer == CompatAnswer::kRefused;
    v1::Reason reason = inherited.compat->reason;
    reason.set_detail(absl::StrCat(DescribeLeak(*inherited.compat_path), ": ",
                                   reason.detail()));
    if (!refused && plain.outcome() == v1::OUTCOME_FAILS &&
        !FailsByDriver(plain)) {
      // Whichever libcuda it is.
      *plain.add_reasons() = std::move(reason);
    } else {
      plain.set_outcome(refused ? v1::OUTCOME_FAILS : v1::OUTCOME_UNKNOWN);
      plain.set_settled_by(inherited.compat->settled_by);
      plain.clear_gaps();
      PutFirst(std::move(reason), plain);
    }
  }
  if (inherited.no_devices != nullptr) {
    v1::Reason reason = MakeReason(
        "TP123",
        absl::StrCat(DescribeLeak(*inherited.no_devices), " leaves no GPU"), "",
        100);
    // The driver's own faults and the runtime's gate come before it looks for
    // devices.
    if (StopsBeforeDriver(plain) || ErrorOf(plain) == 34 ||
        ErrorOf(plain) == 35) {
      *plain.add_reasons() = std::move(reason);
    } else {
      plain.set_outcome(v1::OUTCOME_FAILS);
      plain.clear_settled_by();
      plain.clear_gaps();
      PutFirst(std::move(reason), plain);
    }
  }
}

}  // namespace twinpath::compat
