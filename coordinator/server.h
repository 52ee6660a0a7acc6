// The network side of the daemon: one plain-text gRPC server on a loopback
// address with all services, health included. No gRPC types here, so that main
// and tests need none.

#ifndef TWINPATH_COORDINATOR_SERVER_H_
#define TWINPATH_COORDINATOR_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "coordinator/coordinator.h"

namespace twinpath::coordinator {

// OK for 127.0.0.0/8, [::1] and localhost with a port (0: any free one).
// INVALID_ARGUMENT else: there is no TLS yet, so nothing else is listened on.
absl::Status CheckListenAddress(absl::string_view address);

class Server {
 public:
  // Listens. INVALID_ARGUMENT: address. UNAVAILABLE: it is in use.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      Coordinator& coordinator, const std::string& listen);
  // As Stop() with no patience.
  ~Server();

  // "host:port" it listens on.
  const std::string& address() const { return address_; }

  // Tells health checks and agents to go, gives streams until `patience` to end
  // by themselves, then cancels them. Returns when all calls are over.
  void Stop(absl::Duration patience);

 private:
  struct Parts;
  explicit Server(Coordinator& coordinator, std::unique_ptr<Parts> parts);

  Coordinator& coordinator_;
  std::unique_ptr<Parts> parts_;
  std::string address_;
};

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_SERVER_H_
