// What the gRPC services share: statuses, and unary calls answered by a worker.

#ifndef TWINPATH_COORDINATOR_GRPC_UTIL_H_
#define TWINPATH_COORDINATOR_GRPC_UTIL_H_

#include <grpcpp/grpcpp.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/text.h"
#include "coordinator/pool.h"

namespace twinpath::coordinator {

// Codes are the same numbers. A message travels in a header that must be valid
// text of bounded length.
inline grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string message = Printable(status.message(), /*keep_lines=*/true);
  constexpr size_t kMaxMessage = 4096;
  if (message.size() > kMaxMessage) message.resize(kMaxMessage);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::move(message));
}

// Answers a unary call from a worker thread: `work` returns a StatusOr of the
// response. RESOURCE_EXHAUSTED when the pool's queue is full.
template <typename Response, typename Work>
grpc::ServerUnaryReactor* RunOn(WorkerPool& pool,
                                grpc::CallbackServerContext* context,
                                Response* response, Work work) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool queued =
      pool.Run([reactor, response, work = std::move(work)]() mutable {
        absl::StatusOr<Response> result = work();
        if (result.ok()) *response = *std::move(result);
        reactor->Finish(ToGrpcStatus(result.status()));
      });
  if (!queued) {
    reactor->Finish(ToGrpcStatus(absl::ResourceExhaustedError(
        "the coordinator has too many requests; try again in some seconds")));
  }
  return reactor;
}

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_GRPC_UTIL_H_
