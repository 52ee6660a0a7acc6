#include "coordinator/server.h"

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "coordinator/services.h"

namespace twinpath::coordinator {
namespace {

// Control messages; bytes go through chunk streams.
constexpr int kMaxReceiveBytes = 8 << 20;
// Agents are told to stay away this long when the daemon stops.
constexpr absl::Duration kRetryAfter = absl::Seconds(2);

// Splits at the last colon; the port is a number.
bool SplitAddress(absl::string_view address, absl::string_view& host,
                  uint32_t& port) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return false;
  host = address.substr(0, colon);
  return absl::SimpleAtoi(address.substr(colon + 1), &port) && port <= 65535;
}

bool IsIpv4Loopback(absl::string_view host) {
  const std::vector<absl::string_view> parts = absl::StrSplit(host, '.');
  if (parts.size() != 4 || parts[0] != "127") return false;
  for (const absl::string_view part : parts) {
    uint32_t value = 0;
    if (!absl::SimpleAtoi(part, &value) || value > 255) return false;
  }
  return true;
}

}  // namespace

absl::Status CheckListenAddress(absl::string_view address) {
  absl::string_view host;
  uint32_t port = 0;
  if (!SplitAddress(address, host, port)) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen address '", Printable(address),
                     "': HOST:PORT is needed, such as 127.0.0.1:7711"));
  }
  if (host == "localhost" || host == "[::1]" || IsIpv4Loopback(host)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("listen address '", Printable(address),
                   "': without TLS only a loopback address is allowed "
                   "(127.0.0.1, [::1], localhost)"));
}

struct Server::Parts {
  std::vector<std::unique_ptr<grpc::Service>> services;
  std::unique_ptr<grpc::Server> server;
};

Server::Server(Coordinator& coordinator, std::unique_ptr<Parts> parts)
    : coordinator_(coordinator), parts_(std::move(parts)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    Coordinator& coordinator, const std::string& listen) {
  if (absl::Status status = CheckListenAddress(listen); !status.ok()) {
    return status;
  }
  absl::string_view host;
  uint32_t port = 0;
  SplitAddress(listen, host, port);

  grpc::EnableDefaultHealthCheckService(true);
  auto parts = std::make_unique<Parts>();
  parts->services.push_back(MakeAgentService(coordinator));
  parts->services.push_back(MakeBlobService(coordinator));
  parts->services.push_back(MakeArtifactService(coordinator));
  parts->services.push_back(MakeFleetService(coordinator));
  parts->services.push_back(MakeSweepService(coordinator));

  grpc::ServerBuilder builder;
  int bound = 0;
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &bound);
  for (const auto& service : parts->services) {
    builder.RegisterService(service.get());
  }
  builder.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  builder.SetMaxSendMessageSize(-1);
  // Two daemons on one port would each get half of the agents.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A dead peer is noticed within a minute and a half; idle streams are kept.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
  // Connections are made anew once an hour, so that hosts spread again where
  // there are several coordinators; gRPC varies it by a tenth. Streams have a
  // minute to end, and both sides go on with the next.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, 60 * 60'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16);
  grpc::ResourceQuota quota("twinpath-coordinator");
  quota.Resize(size_t{2} << 30);
  builder.SetResourceQuota(quota);
  parts->server = builder.BuildAndStart();
  if (parts->server == nullptr || bound == 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", listen,
        "; is another coordinator running? Stop it or give another --listen"));
  }
  std::unique_ptr<Server> server(new Server(coordinator, std::move(parts)));
  server->address_ = absl::StrCat(host, ":", bound);
  return server;
}

Server::~Server() { Stop(absl::ZeroDuration()); }

void Server::Stop(absl::Duration patience) {
  if (parts_->server == nullptr) return;
  parts_->server->GetHealthCheckService()->SetServingStatus(false);
  coordinator_.Drain(kRetryAfter);
  // Blocks until every call is over; cancels them at the deadline.
  parts_->server->Shutdown(std::chrono::system_clock::now() +
                           absl::ToChronoMilliseconds(patience));
  parts_->server->Wait();
  parts_->server.reset();
}

}  // namespace twinpath::coordinator
