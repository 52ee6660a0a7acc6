// The hosts of a fleet: as the coordinator knows them, or a folder of facts
// files.

#ifndef TWINPATH_CLI_FLEET_HOSTS_H_
#define TWINPATH_CLI_FLEET_HOSTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::cli {

struct FleetHosts {
  // With the name the coordinator or the file gives in host_name.
  std::vector<v1::HostFacts> hosts;
  // Known hosts that have never reported facts.
  std::vector<std::string> without_facts;
  // Hosts that are not connected: their facts are the last they sent.
  size_t disconnected = 0;
};

// All hosts of the coordinator at `address`. Errors as the client's.
absl::StatusOr<FleetHosts> HostsOfCoordinator(const std::string& address);

// Every .json (facts) and .yaml (profile) file right in `folder`, by name.
// INVALID_ARGUMENT names each file that is neither; NOT_FOUND: there is none.
absl::StatusOr<FleetHosts> HostsInFolder(const std::string& folder);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_FLEET_HOSTS_H_
