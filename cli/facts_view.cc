#include "cli/facts_view.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/prediction_view.h"
#include "cli/reason_view.h"
#include "cli/report_view.h"
#include "cli/table.h"
#include "compat/target.h"

namespace twinpath::cli {
namespace {

// The value where the probe read it, else why it is not there.
std::string OrWhy(const v1::ProbeResult& probe, absl::string_view value) {
  switch (probe.state()) {
    case v1::PROBE_STATE_OK:
      return std::string(value);
    case v1::PROBE_STATE_ABSENT:
      return absl::StrCat("none", probe.error().empty() ? "" : ": ",
                          probe.error());
    case v1::PROBE_STATE_FAILED:
      return absl::StrCat("failed: ", probe.error());
    case v1::PROBE_STATE_HUNG:
      return absl::StrCat("no answer: ", probe.error());
    default:
      return "not asked";
  }
}

void Field(absl::string_view name, absl::string_view value,
           const ViewOptions& options, std::string* out) {
  std::string label(name);
  label.resize(12, ' ');
  absl::StrAppend(
      out, Paint(label, Style::kDim, options.color),
      Wrap(Printable(value), static_cast<size_t>(options.width) - 12, 12),
      "\n");
}

std::string GpuLine(const v1::Gpu& gpu) {
  std::string out = absl::StrCat(
      gpu.name(), ", compute capability ",
      OrWhy(gpu.capability_probe(), VersionText(gpu.compute_capability())));
  if (gpu.has_memory_bytes()) {
    absl::StrAppend(&out, ", ", HumanBytes(gpu.memory_bytes()));
  }
  if (gpu.integrated()) {
    absl::StrAppend(&out, gpu.has_memory_bytes() ? "" : ", memory",
                    " shared with the CPU");
  }
  if (gpu.has_ecc_enabled()) {
    absl::StrAppend(&out, gpu.ecc_enabled() ? ", ECC" : ", ECC off");
  }
  if (!gpu.parent_uuid().empty()) {
    absl::StrAppend(&out, ", MIG instance");
  } else if (gpu.mig_mode() == v1::MIG_MODE_ENABLED) {
    absl::StrAppend(&out, ", MIG on");
  }
  if (gpu.compute_processes() > 0) {
    absl::StrAppend(&out, ", busy (", gpu.compute_processes(),
                    gpu.compute_processes() == 1 ? " process)" : " processes)");
  }
  if (!gpu.pci_address().empty() && gpu.parent_uuid().empty()) {
    absl::StrAppend(&out, ", ", gpu.pci_address());
  }
  absl::StrAppend(&out, ", ", gpu.uuid());
  return out;
}

// "libcudart.so.13": the parts of cuDNN and the like say nothing beside their
// head.
bool IsPart(absl::string_view soname) {
  return absl::StartsWith(soname, "libcudnn_") ||
         absl::StartsWith(soname, "libcusolverMg");
}

// Libraries by the folder they are found in, in the order of the facts. What
// only a program of that toolkit finds comes last, and only where the loader
// finds no library of that name.
void LibraryFields(const v1::HostFacts& facts, const ViewOptions& options,
                   std::string* out) {
  std::vector<std::string> folders;
  std::map<std::string, std::vector<std::string>> by_folder;
  std::set<std::string> shown;
  for (const bool toolkits : {false, true}) {
    for (const v1::Library& library : facts.libraries()) {
      const bool of_toolkit = library.place() == v1::LIBRARY_PLACE_TOOLKIT;
      if (of_toolkit != toolkits || IsPart(library.soname()) ||
          !shown.insert(library.soname()).second) {
        continue;
      }
      const std::string folder =
          absl::StrCat(DirName(library.path()),
                       of_toolkit ? " (only programs that name this folder)"
                       : library.place() == v1::LIBRARY_PLACE_LIBRARY_PATH
                           ? " (LD_LIBRARY_PATH)"
                           : "");
      std::vector<std::string>& names = by_folder[folder];
      if (names.empty()) folders.push_back(folder);
      names.push_back(library.soname());
    }
  }
  absl::string_view label = "libraries";
  for (const std::string& folder : folders) {
    Field(label,
          absl::StrCat(folder, ": ", absl::StrJoin(by_folder[folder], " ")),
          options, out);
    label = "";
  }
}

absl::string_view GpuUseText(v1::GpuUse use) {
  switch (use) {
    case v1::GPU_USE_IDLE:
      return "use a GPU when no compute process is on it";
    case v1::GPU_USE_ALWAYS:
      return "use a GPU whatever else computes on it";
    case v1::GPU_USE_RESERVED:
      return "use a GPU when the host's own command grants it";
    default:
      return "";
  }
}

// What the host's owner says about runs; only agents know.
void PolicyFields(const v1::HostFacts& facts, const ViewOptions& options,
                  std::string* out) {
  absl::string_view label = "runs";
  const auto say = [&](absl::string_view text) {
    if (text.empty()) return;
    Field(label, text, options, out);
    label = "";
  };
  if (facts.paused()) say("paused by the host's owner");
  say(GpuUseText(facts.gpu_use()));
  if (facts.allows_unsigned_runs()) {
    say("unsigned ones too (allow_unsigned_runs)");
  }
}

void ContainerFields(const v1::HostFacts& facts, const ViewOptions& options,
                     std::string* out) {
  std::vector<std::string> runtimes;
  for (const v1::OciRuntime& runtime : facts.oci_runtimes()) {
    runtimes.push_back(absl::StrCat(runtime.name(),
                                    runtime.version().empty() ? "" : " ",
                                    runtime.version()));
  }
  if (!runtimes.empty()) {
    Field("containers", absl::StrJoin(runtimes, ", "), options, out);
  }
  if (facts.cdi_devices_size() > 0) {
    Field(runtimes.empty() ? "containers" : "",
          absl::StrCat("CDI: ", absl::StrJoin(facts.cdi_devices(), " ")),
          options, out);
  }
}

std::string Age(const google::protobuf::Timestamp& time, absl::Time now) {
  if (time.seconds() == 0) return "never";
  const absl::Duration age = now - absl::FromUnixSeconds(time.seconds());
  if (age < absl::Seconds(5)) return "now";
  if (age < absl::Minutes(2)) {
    return absl::StrCat(absl::ToInt64Seconds(age), "s ago");
  }
  if (age < absl::Hours(2)) {
    return absl::StrCat(absl::ToInt64Minutes(age), "m ago");
  }
  return absl::StrCat(absl::ToInt64Hours(age), "h ago");
}

// "2 x NVIDIA H200 9.0".
std::string GpusText(const v1::HostFacts& facts) {
  std::map<std::string, int> counts;
  for (const v1::Gpu& gpu : facts.gpus()) {
    ++counts[absl::StrCat(gpu.name(), " ",
                          gpu.capability_probe().state() == v1::PROBE_STATE_OK
                              ? VersionText(gpu.compute_capability())
                              : "?")];
  }
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) {
    parts.push_back(count > 1 ? absl::StrCat(count, " x ", name) : name);
  }
  return parts.empty() ? "none" : absl::StrJoin(parts, ", ");
}

}  // namespace

std::string RenderFacts(const v1::HostFacts& facts,
                        const ViewOptions& options) {
  std::string out;
  Field("host",
        absl::StrCat(facts.host_name(),
                     facts.simulated()
                         ? absl::StrCat(" (simulated: ", facts.profile(), ")")
                         : ""),
        options, &out);
  std::string cpu(CpuText(facts.cpu_architecture()));
  if (facts.platform() == v1::PLATFORM_TEGRA) absl::StrAppend(&cpu, ", Tegra");
  if (facts.platform() == v1::PLATFORM_WSL) absl::StrAppend(&cpu, ", WSL");
  Field("cpu", cpu, options, &out);
  Field("system",
        absl::StrCat(facts.os().pretty_name(), ", kernel ",
                     facts.os().kernel_release()),
        options, &out);
  PolicyFields(facts, options, &out);
  const v1::Driver& driver = facts.driver();
  // What the driver supports and what toolkit is installed are two versions.
  Field("driver", OrWhy(driver.probe(), DriverText(facts)), options, &out);
  if (driver.probe().state() == v1::PROBE_STATE_OK) {
    Field("",
          absl::StrCat("kernel module ",
                       driver.kernel_module_version().empty()
                           ? "unknown"
                           : driver.kernel_module_version(),
                       ", libcuda ",
                       driver.libcuda_version().empty()
                           ? "unknown"
                           : driver.libcuda_version(),
                       " in ", driver.libcuda_path()),
          options, &out);
    Field("",
          absl::StrCat("newest PTX ISA it compiles: ",
                       OrWhy(driver.ptx_isa_probe(),
                             VersionText(driver.ptx_isa_ceiling()))),
          options, &out);
    Field("",
          absl::StrCat("JIT library: ", OrWhy(driver.jit_library(), "found")),
          options, &out);
  }
  for (const v1::ForwardCompatLibrary& library :
       driver.forward_compat_libraries()) {
    Field("",
          absl::StrCat(
              "forward compatibility installed: ", library.libcuda_version(),
              " in ", DirName(library.path())),
          options, &out);
  }
  if (facts.gpus().empty()) {
    Field("gpu", OrWhy(facts.gpu_probe(), "none"), options, &out);
  }
  for (const v1::Gpu& gpu : facts.gpus()) {
    Field("gpu", GpuLine(gpu), options, &out);
  }
  if (facts.toolkits().empty()) Field("toolkit", "none found", options, &out);
  for (const v1::Toolkit& toolkit : facts.toolkits()) {
    std::vector<std::string> names;
    for (const v1::Target& target : toolkit.targets()) {
      names.push_back(compat::TargetSuffixName(target));
    }
    Field(
        "toolkit",
        absl::StrCat(OrWhy(toolkit.probe(),
                           absl::StrCat("nvcc ", toolkit.nvcc_version())),
                     " in ", toolkit.path(), names.empty() ? "" : "; targets ",
                     absl::StrJoin(names, " ")),
        options, &out);
  }
  LibraryFields(facts, options, &out);
  if (!facts.cupti_path().empty()) {
    Field("tracing", absl::StrCat("CUPTI in ", DirName(facts.cupti_path())),
          options, &out);
  }
  ContainerFields(facts, options, &out);
  for (const v1::EnvironmentLeak& leak : facts.leaks()) {
    Field(
        "leak",
        absl::StrCat(leak.variable(), "=", leak.value(), " in ", leak.origin(),
                     leak.line() > 0 ? absl::StrCat(":", leak.line()) : ""),
        options, &out);
  }
  return out;
}

std::string RenderHostFindings(const std::vector<v1::Finding>& findings,
                               const ViewOptions& options) {
  if (findings.empty()) {
    return absl::StrCat(
        Paint("nothing wrong found", Style::kGood, options.color), "\n");
  }
  std::string out;
  for (const v1::Finding& finding : findings) {
    const bool error = finding.severity() == v1::SEVERITY_ERROR;
    const bool note = finding.severity() == v1::SEVERITY_NOTE;
    absl::StrAppend(&out,
                    Paint(error  ? "error"
                          : note ? "note"
                                 : "warning",
                          error  ? Style::kBad
                          : note ? Style::kDim
                                 : Style::kWarn,
                          options.color),
                    "\n", RenderReasonList({finding.reason()}, options));
  }
  return out;
}

std::string RenderHosts(const std::vector<v1::Host>& hosts, absl::Time now,
                        const ViewOptions& options) {
  Table table(
      {"NAME", "STATE", "GPU", "DRIVER", "CPU", "SEEN", "LABELS", "ID"});
  for (const v1::Host& host : hosts) {
    table.AddRow(
        {absl::StrCat(host.name(), host.simulated() ? " (simulated)" : ""),
         {!host.connected()       ? "away"
          : host.facts().paused() ? "paused"
                                  : "connected",
          host.connected() && !host.facts().paused() ? Style::kGood
                                                     : Style::kWarn},
         host.has_facts() ? GpusText(host.facts()) : "no facts yet",
         host.has_facts() ? DriverText(host.facts()) : "-",
         std::string(CpuText(host.facts().cpu_architecture())),
         Age(host.seen_time(), now),
         absl::StrJoin(host.labels(), ","),
         host.id()});
  }
  return table.Render(options.width, options.color);
}

}  // namespace twinpath::cli
