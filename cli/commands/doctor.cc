// twinpath doctor: this host's facts and what is wrong with it; twinpath
// version.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/exit_code.h"
#include "base/status.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/facts_view.h"
#include "cli/host_facts.h"
#include "cli/host_findings.h"
#include "cli/progress.h"
#include "cli/report_view.h"
#include "compat/reason.h"
#include "runner/device_watch.h"
#include "runner/facts.h"
#include "runner/sandbox.h"
#include "twinpath/v1/cli.pb.h"

namespace twinpath::cli {

int RunDoctor(Console& console) {
  v1::DoctorOutput output;
  {
    Progress progress(console);
    progress.Show("asking the driver and the toolkits");
    *output.mutable_facts() = CollectLocalFacts();
    for (v1::Finding& finding : HostFindings(output.facts())) {
      *output.add_findings() = std::move(finding);
    }
    std::vector<std::string> gpus;
    for (const v1::Gpu& gpu : output.facts().gpus()) {
      if (!gpu.uuid().empty()) gpus.push_back(gpu.uuid());
    }
    // In a child, as everything that asks the driver.
    const v1::DeviceWatch watch =
        runner::DeviceWatcher(gpus, runner::ProbeOptions()).Finish();
    for (v1::Finding& finding :
         DeviceFindings(watch.after(), output.facts().host_name())) {
      *output.add_findings() = std::move(finding);
    }
    if (const absl::Status sandbox = runner::CheckSandbox(); !sandbox.ok()) {
      v1::Finding& finding = *output.add_findings();
      *finding.mutable_reason() =
          compat::MakeReason("TP114", MessageOf(sandbox));
      finding.set_severity(v1::SEVERITY_ERROR);
      finding.set_scope(v1::FINDING_SCOPE_HOST);
      finding.add_hosts(output.facts().host_name());
    }
  }
  std::stable_sort(output.mutable_findings()->begin(),
                   output.mutable_findings()->end(),
                   [](const v1::Finding& a, const v1::Finding& b) {
                     return a.severity() > b.severity();
                   });
  if (console.json()) {
    console.PrintJson(output);
  } else {
    const ViewOptions view{console.width(), console.color()};
    console.Print(RenderFacts(output.facts(), view));
    console.Print("\n");
    console.Print(RenderHostFindings(
        {output.findings().begin(), output.findings().end()}, view));
  }
  for (const v1::Finding& finding : output.findings()) {
    if (finding.severity() == v1::SEVERITY_ERROR) return kExitFail;
  }
  return kExitPass;
}

int RunVersion(Console& console) {
  v1::VersionOutput output;
  output.set_version(std::string(kVersion));
  output.set_protocol_min(kProtocolMin);
  output.set_protocol_max(kProtocolMax);
#if defined(__clang__)
  output.set_compiler(absl::StrCat("clang ", __clang_version__));
#else
  output.set_compiler(absl::StrCat("gcc ", __VERSION__));
#endif
  output.set_cpu_architecture(runner::HostCpuArchitecture());
  if (console.json()) {
    console.PrintJson(output);
  } else {
    console.Print(absl::StrCat(
        "twinpath ", output.version(), " (protocol ", output.protocol_min(),
        " to ", output.protocol_max(), ", ", CpuText(output.cpu_architecture()),
        ", ", output.compiler(), ")\n"));
  }
  return kExitPass;
}

}  // namespace twinpath::cli
