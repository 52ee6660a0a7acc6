#include "cli/facts_view.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
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
  if (gpu.mig_mode() == v1::MIG_MODE_ENABLED) absl::StrAppend(&out, ", MIG on");
  if (gpu.compute_processes() > 0) {
    absl::StrAppend(&out, ", busy (", gpu.compute_processes(), " processes)");
  }
  absl::StrAppend(&out, ", ", gpu.uuid());
  return out;
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
  if (facts.allows_unsigned_runs()) {
    Field("runs", "unsigned ones too (allow_unsigned_runs)", options, &out);
  }
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
  std::vector<std::string> libraries;
  for (const v1::Library& library : facts.libraries()) {
    libraries.push_back(library.soname());
  }
  if (!libraries.empty()) {
    Field("libraries", absl::StrJoin(libraries, " "), options, &out);
  }
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
    absl::StrAppend(&out,
                    Paint(error ? "error" : "warning",
                          error ? Style::kBad : Style::kWarn, options.color),
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
         {host.connected() ? "connected" : "away",
          host.connected() ? Style::kGood : Style::kWarn},
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
