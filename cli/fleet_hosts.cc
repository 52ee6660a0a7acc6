#include "cli/fleet_hosts.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/client.h"
#include "cli/host_facts.h"
#include "twinpath/v1/services.pb.h"

namespace twinpath::cli {
namespace {

// Mistakes named; the rest is counted.
constexpr size_t kMaxMistakes = 10;

}  // namespace

absl::StatusOr<FleetHosts> HostsOfCoordinator(const std::string& address) {
  TWINPATH_ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                            Client::Make(address));
  TWINPATH_ASSIGN_OR_RETURN(std::vector<v1::Host> hosts,
                            client->ListHosts(v1::HostSelector()));
  FleetHosts fleet;
  for (v1::Host& host : hosts) {
    if (!host.has_facts()) {
      fleet.without_facts.push_back(host.name());
      continue;
    }
    if (!host.connected()) ++fleet.disconnected;
    v1::HostFacts& facts =
        fleet.hosts.emplace_back(std::move(*host.mutable_facts()));
    facts.set_host_name(host.name());
    // The name above is the one to show, for simulated hosts too.
    facts.clear_profile();
  }
  return fleet;
}

absl::StatusOr<FleetHosts> HostsInFolder(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end;
       !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    if (absl::EndsWith(path, ".json") || absl::EndsWith(path, ".yaml")) {
      files.push_back(path);
    }
  }
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat(Printable(folder), ": ", error.message()));
  }
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat(
        Printable(folder),
        ": no facts file (.json, as twinpath doctor --format json prints) and "
        "no profile (.yaml)"));
  }
  std::sort(files.begin(), files.end());
  FleetHosts fleet;
  std::vector<std::string> mistakes;
  size_t more = 0;
  for (const std::string& file : files) {
    absl::StatusOr<v1::HostFacts> facts = LoadHostFacts(file);
    if (!facts.ok()) {
      if (mistakes.size() < kMaxMistakes) {
        mistakes.emplace_back(MessageOf(facts.status()));
      } else {
        ++more;
      }
      continue;
    }
    // A host copied from a profile many times is told apart by its file.
    std::string name(BaseName(file));
    name.resize(name.rfind('.'));
    if (facts->host_name().empty() || !facts->profile().empty()) {
      facts->set_host_name(name);
    }
    facts->clear_profile();
    fleet.hosts.push_back(*std::move(facts));
  }
  if (!mistakes.empty()) {
    if (more > 0) mistakes.push_back(absl::StrCat("and ", more, " more"));
    return absl::InvalidArgumentError(absl::StrJoin(mistakes, "\n"));
  }
  return fleet;
}

}  // namespace twinpath::cli
