#include "cli/host_findings.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "compat/environment.h"
#include "compat/host_check.h"
#include "compat/reason.h"
#include "compat/tables.h"
#include "compat/target.h"

namespace twinpath::cli {
namespace {

using compat::MakeReason;

bool Known(const v1::Gpu& gpu) {
  return gpu.capability_probe().state() == v1::PROBE_STATE_OK &&
         gpu.compute_capability().major() > 0;
}

// The reason a probe gives; no code: it went well or was not made.
v1::Reason OfProbe(const v1::ProbeResult& probe, absl::string_view absent,
                   absl::string_view what) {
  switch (probe.state()) {
    case v1::PROBE_STATE_ABSENT:
      return MakeReason(absent, probe.error());
    case v1::PROBE_STATE_FAILED:
      return MakeReason(probe.cuda_error() == 803   ? "TP104"
                        : probe.cuda_error() == 34  ? "TP105"
                        : probe.cuda_error() == 100 ? "TP106"
                                                    : "TP102",
                        absl::StrCat(what, ": ", probe.error()), "",
                        probe.cuda_error());
    case v1::PROBE_STATE_HUNG:
      return MakeReason("TP103", absl::StrCat(what, ": ", probe.error()));
    default:
      return {};
  }
}

// The causes that the model knows behind a driver that fails or GPUs that
// cannot be used: they take the place of the bare error.
void AddModelFindings(const v1::HostFacts& facts,
                      std::vector<v1::Reason>& reasons) {
  const absl::StatusOr<const compat::Tables*> tables =
      compat::Tables::Default();
  if (!tables.ok()) return;
  std::vector<const v1::Gpu*> gpus;
  for (const v1::Gpu& gpu : facts.gpus()) gpus.push_back(&gpu);
  // Of the driver alone: its capability is not asked about.
  v1::Gpu none;
  none.mutable_capability_probe()->set_state(v1::PROBE_STATE_FAILED);
  if (gpus.empty()) gpus.push_back(&none);
  for (const v1::Gpu* gpu : gpus) {
    const compat::HostView view = compat::LookAtHost(facts, *gpu, **tables);
    if (!view.blocker) continue;
    const v1::Reason& reason = view.blocker->reason;
    const std::string& code = reason.code();
    // Said of each GPU below.
    if (code == "TP107") continue;
    const bool cause = code == "TP113" || code == "TP121";
    if (cause) {
      std::erase_if(reasons, [](const v1::Reason& other) {
        return other.code() == "TP102" || other.code() == "TP104" ||
               other.code() == "TP106";
      });
    }
    const bool of_gpu = code == "TP112" || code == "TP117";
    const bool known = std::any_of(
        reasons.begin(), reasons.end(), [&](const v1::Reason& other) {
          return other.code() == code &&
                 (!of_gpu || other.detail() == reason.detail());
        });
    if (!known) reasons.push_back(reason);
  }
  // A node may be missing while what was asked worked all the same.
  const v1::Driver& driver = facts.driver();
  const bool all_works = driver.probe().state() == v1::PROBE_STATE_OK &&
                         facts.gpu_probe().state() == v1::PROBE_STATE_OK &&
                         driver.ptx_isa_probe().state() == v1::PROBE_STATE_OK;
  const bool said = std::any_of(
      reasons.begin(), reasons.end(),
      [](const v1::Reason& reason) { return reason.code() == "TP113"; });
  if (driver.missing_nodes_size() > 0 && !all_works && !said) {
    reasons.push_back(
        MakeReason("TP113", absl::StrJoin(driver.missing_nodes(), ", ")));
  }
}

// What kind of host it is, where that changes how it is to be read.
void AddKindOfHost(const v1::HostFacts& facts,
                   std::vector<v1::Reason>& reasons) {
  const v1::Driver& driver = facts.driver();
  const bool works = driver.probe().state() == v1::PROBE_STATE_OK;
  // The driver's own libcuda may carry the note, too (seen on R580): then both
  // halves are of one version.
  if (driver.has_forward_compat() && works &&
      driver.libcuda_version() != driver.kernel_module_version()) {
    reasons.push_back(MakeReason(
        "TP120",
        absl::StrCat("libcuda ", driver.libcuda_version(), " in ",
                     Printable(driver.libcuda_path()), ", kernel module ",
                     driver.kernel_module_version())));
  }
  if (facts.platform() == v1::PLATFORM_WSL) {
    reasons.push_back(MakeReason(
        "TP125",
        driver.kernel_module_version().empty()
            ? "the driver is not found"
            : absl::StrCat("Windows driver ", driver.kernel_module_version())));
  }
  std::map<std::string, int> models;
  for (const v1::Gpu& gpu : facts.gpus()) {
    // Instances have their GPU's model; of a lost GPU it is not known.
    if (!gpu.parent_uuid().empty() || !Known(gpu)) continue;
    ++models[absl::StrCat(gpu.name(), " ", gpu.compute_capability().major(),
                          ".", gpu.compute_capability().minor())];
  }
  if (models.size() > 1) {
    std::vector<std::string> parts;
    for (const auto& [model, count] : models) {
      parts.push_back(absl::StrCat(count, " x ", model));
    }
    reasons.push_back(MakeReason("TP139", absl::StrJoin(parts, ", ")));
  }
  if (facts.paused()) {
    reasons.push_back(MakeReason("TP138", "its agent takes no leases"));
  }
}

}  // namespace

std::vector<v1::Reason> WhyNoGpu(const v1::HostFacts& facts) {
  std::vector<v1::Reason> reasons;
  for (const v1::Gpu& gpu : facts.gpus()) {
    if (Known(gpu)) return {};
  }
  v1::Reason driver = OfProbe(facts.driver().probe(), "TP101", "driver");
  if (!driver.code().empty()) {
    reasons.push_back(std::move(driver));
    return reasons;
  }
  if (facts.gpus().empty()) {
    v1::Reason gpu = OfProbe(facts.gpu_probe(), "TP106", "listing the GPUs");
    if (gpu.code().empty()) {
      gpu = MakeReason("TP106", "the driver lists no GPU");
    }
    reasons.push_back(std::move(gpu));
  }
  for (const v1::Gpu& gpu : facts.gpus()) {
    reasons.push_back(MakeReason(
        "TP107", absl::StrCat(gpu.uuid(), ": ", gpu.capability_probe().error()),
        "", gpu.capability_probe().cuda_error()));
  }
  return reasons;
}

bool HasMigInstances(const v1::HostFacts& facts, const v1::Gpu& gpu) {
  return std::any_of(
      facts.gpus().begin(), facts.gpus().end(), [&gpu](const v1::Gpu& other) {
        return !gpu.uuid().empty() && other.parent_uuid() == gpu.uuid();
      });
}

std::vector<const v1::Gpu*> RunnableGpus(const v1::HostFacts& facts, bool all) {
  std::vector<const v1::Gpu*> out;
  std::set<std::string> models;
  for (const v1::Gpu& gpu : facts.gpus()) {
    const bool mig_parent =
        gpu.mig_mode() == v1::MIG_MODE_ENABLED && gpu.parent_uuid().empty();
    if (!Known(gpu) || mig_parent) continue;
    const std::string model =
        absl::StrCat(gpu.name(), " ", gpu.compute_capability().major(), ".",
                     gpu.compute_capability().minor());
    if (models.insert(model).second || all) out.push_back(&gpu);
  }
  return out;
}

std::vector<v1::Finding> HostFindings(const v1::HostFacts& facts) {
  std::vector<v1::Reason> reasons = WhyNoGpu(facts);
  const v1::Driver& driver = facts.driver();
  const auto has = [&reasons](absl::string_view code) {
    return std::any_of(
        reasons.begin(), reasons.end(),
        [code](const v1::Reason& reason) { return reason.code() == code; });
  };
  AddModelFindings(facts, reasons);
  if (compat::DriverHalvesDiffer(facts) && !has("TP104") && !has("TP121")) {
    reasons.push_back(MakeReason(
        "TP104", absl::StrCat("kernel module ", driver.kernel_module_version(),
                              ", libcuda ", driver.libcuda_version())));
  }
  if (driver.libcuda_is_stub() && !has("TP105")) {
    reasons.push_back(
        MakeReason("TP105", absl::StrCat("found ", driver.libcuda_path())));
  }
  if (driver.probe().state() == v1::PROBE_STATE_OK &&
      (driver.jit_library().state() == v1::PROBE_STATE_ABSENT ||
       driver.jit_library().state() == v1::PROBE_STATE_FAILED)) {
    reasons.push_back(MakeReason("TP108", driver.jit_library().error()));
  }
  for (const v1::Gpu& gpu : facts.gpus()) {
    if (!Known(gpu) && !has("TP107")) {
      reasons.push_back(MakeReason(
          "TP107",
          absl::StrCat(gpu.uuid(), ": ", gpu.capability_probe().error())));
    }
  }
  for (const v1::Toolkit& toolkit : facts.toolkits()) {
    if (toolkit.probe().state() != v1::PROBE_STATE_OK) continue;
    std::vector<uint32_t> named;
    for (const v1::Gpu& gpu : facts.gpus()) {
      if (!Known(gpu)) continue;
      const uint32_t number =
          compat::CapabilityNumber(gpu.compute_capability());
      const bool listed = std::any_of(
          toolkit.targets().begin(), toolkit.targets().end(),
          [number](const v1::Target& t) { return t.number() == number; });
      if (listed ||
          std::find(named.begin(), named.end(), number) != named.end()) {
        continue;
      }
      named.push_back(number);
      reasons.push_back(MakeReason(
          "TP110", absl::StrCat("nvcc ", toolkit.nvcc_version(), " in ",
                                toolkit.path(), " does not list ", "sm_",
                                number, " (", gpu.name(), ")")));
    }
  }
  for (const v1::EnvironmentLeak& leak : facts.leaks()) {
    if (auto reason = compat::ReasonOfLeak(leak)) {
      reasons.push_back(*std::move(reason));
    }
  }
  AddKindOfHost(facts, reasons);
  std::vector<v1::Finding> findings;
  for (v1::Reason& reason : reasons) {
    v1::Finding finding;
    finding.set_severity(compat::SeverityOf(reason));
    finding.set_scope(v1::FINDING_SCOPE_HOST);
    finding.add_hosts(facts.host_name());
    *finding.mutable_reason() = std::move(reason);
    findings.push_back(std::move(finding));
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const v1::Finding& a, const v1::Finding& b) {
                     return a.severity() > b.severity();
                   });
  return findings;
}

std::vector<v1::Finding> DeviceFindings(
    const google::protobuf::RepeatedPtrField<v1::DeviceState>& states,
    absl::string_view host_name) {
  std::vector<v1::Finding> findings;
  const auto add = [&](v1::Reason reason) {
    v1::Finding& finding = findings.emplace_back();
    finding.set_severity(compat::SeverityOf(reason));
    finding.set_scope(v1::FINDING_SCOPE_HOST);
    finding.add_hosts(std::string(host_name));
    *finding.mutable_reason() = std::move(reason);
  };
  for (const v1::DeviceState& state : states) {
    if (state.remapping_failed()) {
      add(MakeReason(
          "TP322",
          absl::StrCat(state.gpu_uuid(), ": a remapping of its memory failed"),
          "Take the GPU out of use and ask its vendor; nvidia-smi -q -d "
          "ROW_REMAPPER tells more."));
    } else if (state.remapping_pending()) {
      add(MakeReason(
          "TP322",
          absl::StrCat(state.gpu_uuid(),
                       ": a remapping of its memory waits for a reset"),
          "Reset the GPU when nothing runs on it: nvidia-smi --gpu-reset."));
    }
    std::vector<std::string> slow;
    for (const std::string& reason : state.throttle_reasons()) {
      if (reason != "power" && reason != "sync boost") slow.push_back(reason);
    }
    if (!slow.empty()) {
      add(MakeReason("TP328", absl::StrCat(state.gpu_uuid(), ": ",
                                           absl::StrJoin(slow, ", "))));
    }
  }
  return findings;
}

}  // namespace twinpath::cli
