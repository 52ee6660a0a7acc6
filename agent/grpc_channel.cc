#include "agent/grpc_channel.h"

#include <grpc/impl/codegen/grpc_types.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "agent/endpoint.h"
#include "base/status.h"

namespace twinpath::agent {

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const std::string& coordinator) {
  TWINPATH_RETURN_IF_ERROR(CheckLoopbackEndpoint(coordinator));
  grpc::ChannelArguments arguments;
  // Not much below a minute, or the server calls it too many pings.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  // The default of 2 silently stops the pings on a quiet stream, which is what
  // a session mostly is.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // The agent's own backoff decides when to dial; the channel's must not add to
  // it.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  // A proxy meant for the web has no business on loopback.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(
      coordinator, grpc::InsecureChannelCredentials(), arguments);
}

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

}  // namespace twinpath::agent
