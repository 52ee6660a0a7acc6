// The channel to the coordinator, its settings, and statuses across it. Without
// TLS the coordinator keeps to loopback, and so does the agent: its secret
// never leaves the host in clear.

#ifndef TWINPATH_AGENT_GRPC_CHANNEL_H_
#define TWINPATH_AGENT_GRPC_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace twinpath::agent {

// Opens a channel to "HOST:PORT". Nothing is dialled yet. INVALID_ARGUMENT: not
// HOST:PORT, or a host that is not this one.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const std::string& coordinator);

// The two libraries number their codes alike.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_GRPC_CHANNEL_H_
