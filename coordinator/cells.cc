#include "coordinator/cells.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "coordinator/dispatch.h"

namespace twinpath::coordinator {
namespace {

// More entries than this have no place in one host's numbering of cells.
constexpr int64_t kOrdinalsPerGpu = 1 << 20;

// Predictions kept; a fleet has few classes.
constexpr size_t kMaxMemory = 4096;

bool IsMigParent(const v1::Gpu& gpu) {
  return gpu.mig_mode() == v1::MIG_MODE_ENABLED && gpu.parent_uuid().empty();
}

bool HasCapability(const v1::Gpu& gpu) {
  return gpu.capability_probe().state() == v1::PROBE_STATE_OK;
}

v1::Reason CapabilityReason(const v1::Gpu& gpu) {
  v1::Reason reason = MakeCellReason(
      "TP107", absl::StrCat(gpu.name(), ": ", gpu.capability_probe().error()));
  reason.set_cuda_error(gpu.capability_probe().cuda_error());
  return reason;
}

// What tells a driver probe that did not end well; false if it did.
bool DriverReason(const v1::ProbeResult& probe, v1::Reason& reason) {
  switch (probe.state()) {
    case v1::PROBE_STATE_OK:
    case v1::PROBE_STATE_UNSPECIFIED:
      return false;
    case v1::PROBE_STATE_ABSENT:
      reason = MakeCellReason("TP101", probe.error());
      return true;
    case v1::PROBE_STATE_HUNG:
      reason = MakeCellReason("TP103", probe.error());
      return true;
    default:
      reason = MakeCellReason(probe.cuda_error() == 803 ? "TP104" : "TP102",
                              probe.error());
      reason.set_cuda_error(probe.cuda_error());
      return true;
  }
}

bool TakesSeveral(const v1::Entry& entry) {
  return entry.gpus().all() || entry.gpus().count() > 1;
}

}  // namespace

std::vector<const v1::Gpu*> UsableGpus(const v1::HostFacts& facts) {
  std::vector<const v1::Gpu*> gpus;
  // A driver that does not answer runs nothing, whatever /proc lists.
  v1::Reason reason;
  if (facts.driver().libcuda_is_stub() ||
      DriverReason(facts.driver().probe(), reason)) {
    return gpus;
  }
  for (const v1::Gpu& gpu : facts.gpus()) {
    if (HasCapability(gpu) && !IsMigParent(gpu)) gpus.push_back(&gpu);
  }
  return gpus;
}

std::vector<v1::Reason> NoGpuReasons(const v1::HostFacts& facts) {
  std::vector<v1::Reason> reasons;
  v1::Reason reason;
  if (facts.driver().libcuda_is_stub()) {
    reasons.push_back(MakeCellReason("TP105", facts.driver().libcuda_path()));
  } else if (DriverReason(facts.driver().probe(), reason)) {
    reasons.push_back(reason);
  } else if (DriverReason(facts.gpu_probe(), reason) &&
             facts.gpu_probe().state() != v1::PROBE_STATE_ABSENT) {
    reasons.push_back(reason);
  }
  for (const v1::Gpu& gpu : facts.gpus()) {
    if (IsMigParent(gpu)) {
      reasons.push_back(MakeCellReason("TP112", gpu.name()));
    } else if (!HasCapability(gpu)) {
      reasons.push_back(CapabilityReason(gpu));
    }
  }
  if (reasons.empty()) {
    reasons.push_back(MakeCellReason("TP106", facts.gpu_probe().error()));
  }
  return reasons;
}

std::string DescribeDriver(const v1::Driver& driver) {
  std::string version = driver.kernel_module_version();
  if (version.empty()) version = driver.libcuda_version();
  if (version.empty()) version = driver.branch();
  if (version.empty() && !driver.has_cuda_version()) return "none";
  if (version.empty()) version = "unknown";
  if (!driver.has_cuda_version()) return version;
  return absl::StrCat(version, " (CUDA ", driver.cuda_version().major(), ".",
                      driver.cuda_version().minor(), ")");
}

CellMaker::CellMaker(const Model& model, const v1::ArtifactReport& report)
    : model_(model), predictor_(model.predictor(report)) {}

void CellMaker::FillHost(const HostRow& host, v1::Cell& cell) {
  cell.set_host_id(host.id);
  cell.set_host_name(host.name);
  cell.set_simulated(host.simulated);
  if (!host.has_facts) return;
  cell.set_cpu_architecture(host.facts.cpu_architecture());
  cell.set_driver(DescribeDriver(host.facts.driver()));
  cell.mutable_conditions_digest()->set_sha256(host.conditions);
  cell.mutable_class_digest()->set_sha256(
      absl::HexStringToBytes(model_.host_class(host.facts)));
}

void CellMaker::FillGpu(const HostRow& host, const v1::Entry& entry,
                        const v1::Gpu& gpu, v1::Cell& cell) {
  cell.set_gpu_uuid(gpu.uuid());
  cell.set_gpu_name(gpu.name());
  *cell.mutable_compute_capability() = gpu.compute_capability();
  // What names one machine plays no part in a prediction.
  v1::HostFacts facts = host.facts;
  facts.clear_host_name();
  facts.clear_machine_id();
  facts.clear_boot_id();
  facts.clear_collected_time();
  for (v1::Gpu& other : *facts.mutable_gpus()) {
    other.clear_uuid();
    other.clear_pci_address();
    other.clear_parent_uuid();
    other.clear_compute_processes();
  }
  v1::Gpu nameless = gpu;
  nameless.clear_uuid();
  nameless.clear_pci_address();
  nameless.clear_parent_uuid();
  nameless.clear_compute_processes();
  // Three lengths and the bytes, so that no two keys run together. Serialised
  // messages serve as keys in memory only.
  const std::string parts[] = {entry.SerializeAsString(),
                               nameless.SerializeAsString(),
                               facts.SerializeAsString()};
  const std::string key = absl::StrCat(parts[0].size(), " ", parts[1].size(),
                                       " ", parts[0], parts[1], parts[2]);
  auto it = memory_.find(key);
  if (it == memory_.end()) {
    if (memory_.size() >= kMaxMemory) memory_.clear();
    it = memory_.emplace(key, predictor_(entry, host.facts, gpu)).first;
  }
  cell.clear_predictions();
  for (const v1::PathPrediction& prediction : it->second) {
    *cell.add_predictions() = prediction;
  }
}

std::vector<CellRow> CellMaker::MakeCells(const std::string& sweep_id,
                                          const HostRow& host,
                                          const v1::Release& release) {
  std::vector<CellRow> rows;
  const auto add = [&](const v1::Entry& entry, int64_t entry_index,
                       int64_t gpu_index,
                       absl::string_view gpu_label) -> CellRow& {
    CellRow& row = rows.emplace_back();
    row.cell.set_id(absl::StrCat(sweep_id, ".", host.name, ".", gpu_label, ".",
                                 entry.name()));
    row.cell.set_sweep_id(sweep_id);
    row.cell.set_entry(entry.name());
    row.cell.set_state(v1::CELL_STATE_WAITING);
    row.ordinal = gpu_index * kOrdinalsPerGpu + entry_index;
    FillHost(host, row.cell);
    return row;
  };
  const std::vector<const v1::Gpu*> usable =
      host.has_facts ? UsableGpus(host.facts) : std::vector<const v1::Gpu*>();
  for (int e = 0; e < release.entries_size(); ++e) {
    const v1::Entry& entry = release.entries(e);
    if (!host.has_facts) {
      CellRow& row = add(entry, e, 0, "x");
      row.needs_facts = true;
      continue;
    }
    if (usable.empty()) {
      CellRow& row = add(entry, e, 0, "none");
      row.cell.set_state(v1::CELL_STATE_ENDED);
      row.reasons = NoGpuReasons(host.facts);
      continue;
    }
    if (TakesSeveral(entry)) {
      CellRow& row = add(entry, e, 0, "all");
      row.exclusive = true;
      FillGpu(host, entry, *usable.front(), row.cell);
      const size_t wanted =
          entry.gpus().all() ? usable.size() : entry.gpus().count();
      if (wanted > 1) {
        row.cell.set_gpu_name(
            absl::StrCat(wanted, " x ", usable.front()->name()));
      }
      if (wanted > usable.size()) {
        row.cell.set_state(v1::CELL_STATE_ENDED);
        row.reasons = {MakeCellReason(
            "TP318", absl::StrCat("the entry wants ", wanted,
                                  " GPUs, the host has ", usable.size()))};
      }
      continue;
    }
    for (int g = 0; g < host.facts.gpus_size(); ++g) {
      const v1::Gpu& gpu = host.facts.gpus(g);
      const bool runs =
          std::find(usable.begin(), usable.end(), &gpu) != usable.end();
      // A MIG parent is not a GPU of its own; its instances are listed.
      if (!runs && IsMigParent(gpu)) continue;
      CellRow& row = add(entry, e, g, absl::StrCat(g));
      if (runs) {
        FillGpu(host, entry, gpu, row.cell);
      } else {
        row.cell.set_gpu_uuid(gpu.uuid());
        row.cell.set_gpu_name(gpu.name());
        row.cell.set_state(v1::CELL_STATE_ENDED);
        row.reasons = {CapabilityReason(gpu)};
      }
    }
  }
  return rows;
}

void CellMaker::UpdateCell(const HostRow& host, const v1::Release& release,
                           CellRow& row) {
  const auto entry = std::find_if(
      release.entries().begin(), release.entries().end(),
      [&](const v1::Entry& e) { return e.name() == row.cell.entry(); });
  if (entry == release.entries().end()) return;
  FillHost(host, row.cell);
  for (const v1::Gpu* gpu : UsableGpus(host.facts)) {
    if (gpu->uuid() != row.cell.gpu_uuid()) continue;
    const std::string name = row.cell.gpu_name();
    FillGpu(host, *entry, *gpu, row.cell);
    if (row.exclusive) row.cell.set_gpu_name(name);
    return;
  }
  row.cell.set_state(v1::CELL_STATE_ENDED);
  row.reasons = NoGpuReasons(host.facts);
  row.reasons.insert(row.reasons.begin(),
                     MakeCellReason("TP318", "the GPU can no longer be used"));
}

}  // namespace twinpath::coordinator
