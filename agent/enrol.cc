#include "agent/enrol.h"

#include <grpcpp/client_context.h>

#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "agent/grpc_channel.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "twinpath/v1/services.grpc.pb.h"

namespace twinpath::agent {
namespace {

constexpr std::chrono::seconds kDeadline(10);

absl::StatusOr<Identity> EnrolOnce(v1::AgentService::Stub& stub,
                                   const v1::EnrolRequest& request,
                                   const std::string& identity_file) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
  v1::EnrolResponse response;
  TWINPATH_RETURN_IF_ERROR(FromGrpc(stub.Enrol(&context, request, &response)));
  Identity identity{response.host_id(), response.secret(), request.simulated()};
  TWINPATH_RETURN_IF_ERROR_CTX(SaveIdentity(identity_file, identity),
                               "keeping the identity");
  return identity;
}

}  // namespace

absl::StatusOr<Identity> EnrolUntil(
    v1::EnrolRequest request, const std::string& token_file,
    const std::string& identity_file,
    const std::shared_ptr<grpc::Channel>& channel,
    const BackoffOptions& backoff_options, const Notify& notify,
    const std::function<bool()>& stopped, absl::Duration poll) {
  const std::unique_ptr<v1::AgentService::Stub> stub =
      v1::AgentService::NewStub(channel);
  std::mt19937_64 random(std::random_device{}());
  Backoff backoff(backoff_options, [&random] {
    return std::uniform_real_distribution<double>(0, 1)(random);
  });
  const Clock& clock = SystemClock();
  bool ready = false;
  while (!stopped()) {
    absl::StatusOr<std::string> token = ReadJoinToken(token_file);
    if (!token.ok() && !ready) return token.status();
    if (!ready) notify.Send("READY=1\nSTATUS=enrolling");
    ready = true;
    absl::Status status = token.status();
    if (token.ok()) {
      request.set_join_token(*token);
      absl::StatusOr<Identity> identity =
          EnrolOnce(*stub, request, identity_file);
      if (identity.ok()) {
        Log(LogLevel::kInfo, "enrolled",
            {{"host", request.host_name()}, {"id", identity->host_id}});
        return identity;
      }
      status = identity.status();
    }
    const absl::Duration delay = backoff.After(status, absl::ZeroDuration());
    const bool heals = TroubleOf(status) == Trouble::kTransient;
    Log(heals ? LogLevel::kWarning : LogLevel::kError, "enrolment failed",
        {{"host", request.host_name()},
         {"why", std::string(MessageOf(status))},
         {"hint", absl::IsUnauthenticated(status)
                      ? absl::StrCat("put a fresh join token into ", token_file)
                      : std::string()},
         {"retry_in",
          absl::FormatDuration(absl::Trunc(delay, absl::Milliseconds(1)))}});
    const absl::Time until = clock.Monotonic() + delay;
    while (!stopped() && clock.Monotonic() < until) {
      notify.Send("WATCHDOG=1");
      absl::SleepFor(std::min(until - clock.Monotonic(), poll));
    }
  }
  return absl::CancelledError("stopped before the host was enrolled");
}

}  // namespace twinpath::agent
