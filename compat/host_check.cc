#include "compat/host_check.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "compat/forward_compat.h"
#include "compat/reason.h"
#include "compat/target.h"

namespace twinpath::compat {
namespace {

constexpr char kAskDriver[] =
    "nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv";

Blocker MakeBlocker(v1::Outcome outcome, v1::Reason reason,
                    std::string settled_by = "") {
  return {outcome, std::move(reason), std::move(settled_by)};
}

// What the driver probe says; nullopt when the driver answers.
std::optional<Blocker> DriverBlocker(const v1::Driver& driver) {
  const v1::ProbeResult& probe = driver.probe();
  if (driver.libcuda_is_stub()) {
    return MakeBlocker(
        v1::OUTCOME_FAILS,
        MakeReason("TP105",
                   absl::StrCat("libcuda.so.1 resolves to the link stub ",
                                driver.libcuda_path()),
                   "", 34));
  }
  switch (probe.state()) {
    case v1::PROBE_STATE_ABSENT:
      return MakeBlocker(
          v1::OUTCOME_FAILS,
          MakeReason("TP101",
                     "no libcuda.so.1: cudaGetDeviceCount gives 35, as with a "
                     "driver that is too old",
                     "", 35));
    case v1::PROBE_STATE_HUNG:
      return MakeBlocker(
          v1::OUTCOME_UNKNOWN,
          MakeReason("TP103", absl::StrCat("driver probe: ", probe.error())),
          "dmesg | grep -i xid");
    case v1::PROBE_STATE_FAILED:
      if (driver.has_forward_compat() &&
          (probe.cuda_error() == 803 || probe.cuda_error() == 804)) {
        return MakeBlocker(
            v1::OUTCOME_FAILS,
            MakeReason("TP121",
                       absl::StrCat("libcuda ", driver.libcuda_version(),
                                    " for forward compatibility at ",
                                    Printable(driver.libcuda_path()),
                                    ", kernel module ",
                                    driver.kernel_module_version()),
                       "", probe.cuda_error()));
      }
      if (probe.cuda_error() == 803) {
        return MakeBlocker(
            v1::OUTCOME_UNKNOWN,
            MakeReason(
                "TP104",
                absl::StrCat("kernel module ", driver.kernel_module_version(),
                             ", libcuda ", driver.libcuda_version()),
                "", 803),
            "cat /proc/driver/nvidia/version");
      }
      if (driver.missing_nodes_size() > 0) {
        return MakeBlocker(
            v1::OUTCOME_UNKNOWN,
            MakeReason("TP113",
                       absl::StrCat(absl::StrJoin(driver.missing_nodes(), ", "),
                                    "; driver probe: ", probe.error()),
                       "", probe.cuda_error()),
            "nvidia-modprobe -u -c=0 && nvidia-smi");
      }
      return MakeBlocker(
          v1::OUTCOME_UNKNOWN,
          MakeReason("TP102", absl::StrCat("driver probe: ", probe.error()), "",
                     probe.cuda_error()),
          "nvidia-smi");
    default:
      return std::nullopt;
  }
}

std::optional<Blocker> CapabilityBlocker(const v1::Gpu& gpu) {
  if (gpu.capability_probe().state() == v1::PROBE_STATE_OK &&
      gpu.compute_capability().major() > 0) {
    return std::nullopt;
  }
  const std::string& error = gpu.capability_probe().error();
  return MakeBlocker(
      v1::OUTCOME_UNKNOWN,
      MakeReason("TP107",
                 error.empty() ? "the facts hold no compute capability" : error,
                 "", gpu.capability_probe().cuda_error()),
      kAskDriver);
}

// A MIG parent without a compute instance offers CUDA no device.
bool LacksMigInstance(const v1::HostFacts& facts, const v1::Gpu& gpu) {
  return gpu.mig_mode() == v1::MIG_MODE_ENABLED && gpu.parent_uuid().empty() &&
         !HasInstances(facts, gpu);
}

std::optional<Blocker> DroppedBlocker(const HostView& view,
                                      std::optional<uint32_t> branch,
                                      const Tables& tables) {
  const GpuRow* row = tables.FindGpu(view.device);
  if (row == nullptr || !row->driver_last || !branch ||
      *branch <= *row->driver_last) {
    return std::nullopt;
  }
  return MakeBlocker(
      v1::OUTCOME_FAILS,
      MakeReason(
          "TP117",
          absl::StrCat("driver R", *branch, " no longer drives ",
                       row->architecture, " (", CapabilityName(view.device),
                       "); the last is R", *row->driver_last),
          absl::StrCat("keep this host on driver R", *row->driver_last), 100));
}

// `compat_cuda`: CUDA version of a forward-compatibility libcuda that works but
// was not started here.
void FillDriver(const v1::Driver& driver, std::optional<uint32_t> branch,
                std::optional<TwoPart> compat_cuda, const Tables& tables,
                HostView& view) {
  view.driver = DriverVersion::Parse(driver.kernel_module_version());
  if (compat_cuda) {
    view.cuda = compat_cuda;
  } else if (driver.cuda_version().major() > 0) {
    view.cuda = TwoPart::From(driver.cuda_version());
  } else if (branch) {
    if (const DriverRow* row = tables.FindDriver(*branch))
      view.cuda = row->cuda;
  }
  if (driver.ptx_isa_probe().state() == v1::PROBE_STATE_OK &&
      driver.ptx_isa_ceiling().major() > 0) {
    view.ptx_ceiling = TwoPart::From(driver.ptx_isa_ceiling());
    view.ceiling_exact = true;
    view.ceiling_measured = true;
  } else if (view.cuda) {
    for (const DriverRow& row : tables.drivers()) {
      if (row.cuda > *view.cuda) break;
      view.ptx_ceiling = row.ptx_isa;
      view.ceiling_exact = row.cuda == *view.cuda;
    }
  }
  switch (driver.jit_library().state()) {
    case v1::PROBE_STATE_OK:
      view.jit_library = JitLibrary::kPresent;
      break;
    case v1::PROBE_STATE_ABSENT:
      view.jit_library = JitLibrary::kAbsent;
      break;
    default:
      break;
  }
  if (view.cuda) {
    view.reads_zstd = *view.cuda >= tables.zstd_first_cuda();
    // Early versions of the first branch lack the reader.
    const auto first = DriverVersion::Parse(tables.zstd_first_driver());
    if (view.reads_zstd && view.driver && first &&
        view.driver->branch() == first->branch()) {
      view.reads_zstd = *view.driver >= *first;
    }
  }
}

}  // namespace

HostView LookAtHost(const v1::HostFacts& facts, const v1::Gpu& gpu,
                    const Tables& tables) {
  HostView view;
  view.gpu_name = gpu.name();
  view.cpu = facts.cpu_architecture();
  const v1::Driver& driver = facts.driver();
  const std::optional<uint32_t> branch = DriverBranchOf(driver);
  // A libcuda that answered the probe works, whatever its note says.
  std::optional<CompatDecision> compat;
  if (driver.has_forward_compat() &&
      (facts.simulated() || driver.probe().state() != v1::PROBE_STATE_OK)) {
    compat = DecideForwardCompat(driver.forward_compat(),
                                 driver.libcuda_version(), facts, gpu, tables);
  }
  FillDriver(driver, branch, compat ? compat->cuda : std::nullopt, tables,
             view);
  if (gpu.capability_probe().state() == v1::PROBE_STATE_OK) {
    view.device = CapabilityNumber(gpu.compute_capability());
  }
  view.blocker = DriverBlocker(driver);
  if (!view.blocker && compat && compat->answer != CompatAnswer::kWorks) {
    view.blocker = MakeBlocker(compat->answer == CompatAnswer::kRefused
                                   ? v1::OUTCOME_FAILS
                                   : v1::OUTCOME_UNKNOWN,
                               compat->reason, compat->settled_by);
  }
  if (!view.blocker && facts.gpu_probe().state() == v1::PROBE_STATE_ABSENT) {
    // Without its nodes the driver lists no GPU that is there.
    view.blocker =
        driver.missing_nodes_size() > 0
            ? MakeBlocker(
                  v1::OUTCOME_UNKNOWN,
                  MakeReason("TP113",
                             absl::StrJoin(driver.missing_nodes(), ", "), "",
                             100),
                  "nvidia-modprobe -u -c=0 && nvidia-smi")
            : MakeBlocker(
                  v1::OUTCOME_FAILS,
                  MakeReason("TP106", facts.gpu_probe().error(), "", 100));
  }
  if (!view.blocker) view.blocker = CapabilityBlocker(gpu);
  if (!view.blocker && !view.cuda) {
    view.blocker = MakeBlocker(
        v1::OUTCOME_UNKNOWN,
        MakeReason("TP118",
                   driver.kernel_module_version().empty()
                       ? "the facts hold no driver version"
                       : absl::StrCat("driver ", driver.kernel_module_version(),
                                      " is not in the tables and its CUDA "
                                      "version was not read")),
        kAskDriver);
  }
  if (!view.blocker) view.blocker = DroppedBlocker(view, branch, tables);
  if (!view.blocker && LacksMigInstance(facts, gpu)) {
    view.blocker = MakeBlocker(
        v1::OUTCOME_FAILS,
        MakeReason("TP112",
                   absl::StrCat("MIG is on for ", gpu.name(), " ", gpu.uuid(),
                                " and no compute instance exists"),
                   "nvidia-smi mig -cgi ... -C, or nvidia-smi -mig 0", 100));
  }
  return view;
}

bool DriverHalvesDiffer(const v1::HostFacts& facts) {
  const v1::Driver& driver = facts.driver();
  const auto kernel = DriverVersion::Parse(driver.kernel_module_version());
  const auto library = DriverVersion::Parse(driver.libcuda_version());
  // libcuda.so.1.1 and the like are no versions of a driver.
  if (!kernel || !library || library->branch() < 100) return false;
  return *kernel != *library && !driver.has_forward_compat() &&
         facts.platform() != v1::PLATFORM_WSL &&
         facts.platform() != v1::PLATFORM_TEGRA;
}

bool HasInstances(const v1::HostFacts& facts, const v1::Gpu& gpu) {
  if (gpu.uuid().empty()) return false;
  return std::any_of(facts.gpus().begin(), facts.gpus().end(),
                     [&gpu](const v1::Gpu& other) {
                       return other.parent_uuid() == gpu.uuid();
                     });
}

std::string CpuName(v1::CpuArchitecture cpu) {
  switch (cpu) {
    case v1::CPU_ARCHITECTURE_X86_64:
      return "x86-64";
    case v1::CPU_ARCHITECTURE_AARCH64:
      return "AArch64";
    case v1::CPU_ARCHITECTURE_OTHER:
      return "another CPU";
    default:
      return "unknown";
  }
}

}  // namespace twinpath::compat
