#include "cli/host_facts.h"

#include <string>

#include "absl/strings/match.h"
#include "base/status.h"
#include "base/version.h"
#include "cli/json.h"
#include "compat/conditions.h"
#include "compat/profile.h"
#include "runner/facts.h"
#include "twinpath/v1/cli.pb.h"

namespace twinpath::cli {

v1::HostFacts CollectLocalFacts() {
  runner::FactsOptions options;
  options.version = std::string(kVersion);
  return runner::CollectFacts(options);
}

v1::Conditions ConditionsNow(const v1::HostFacts& start) {
  runner::FactsOptions options;
  options.version = std::string(kVersion);
  options.ptx_isa_ceiling = false;
  options.toolkits = false;
  options.libraries = false;
  v1::HostFacts facts = runner::CollectFacts(options);
  *facts.mutable_driver()->mutable_ptx_isa_ceiling() =
      start.driver().ptx_isa_ceiling();
  *facts.mutable_driver()->mutable_ptx_isa_probe() =
      start.driver().ptx_isa_probe();
  *facts.mutable_toolkits() = start.toolkits();
  *facts.mutable_libraries() = start.libraries();
  return compat::ConditionsOf(facts);
}

absl::StatusOr<v1::HostFacts> LoadHostFacts(absl::string_view name) {
  if (!absl::EndsWith(name, ".json")) return compat::LoadProfile(name);
  const std::string path(name);
  v1::HostFacts facts;
  const absl::Status alone = LoadJson(path, &facts);
  if (alone.ok()) return facts;
  v1::DoctorOutput whole;
  if (LoadJson(path, &whole).ok() && whole.has_facts()) return whole.facts();
  return alone;
}

}  // namespace twinpath::cli
