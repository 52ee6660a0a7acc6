// The fleet as people see it: stored hosts, and which of them are connected.
// Thread-safe.

#ifndef TWINPATH_COORDINATOR_FLEET_H_
#define TWINPATH_COORDINATOR_FLEET_H_

#include "absl/status/statusor.h"
#include "coordinator/sessions.h"
#include "coordinator/store.h"
#include "twinpath/v1/services.pb.h"

namespace twinpath::coordinator {

class Fleet {
 public:
  Fleet(Store& store, const Sessions& sessions)
      : store_(store), sessions_(sessions) {}

  // Hosts by name. NOT_FOUND: the selector names an unknown host.
  absl::StatusOr<v1::ListHostsResponse> List(
      const v1::ListHostsRequest& request) const;
  // By id or name. NOT_FOUND with the nearest name.
  absl::StatusOr<v1::Host> Get(const v1::GetHostRequest& request) const;

 private:
  v1::Host ToHost(HostRow row) const;

  Store& store_;
  const Sessions& sessions_;
};

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_FLEET_H_
