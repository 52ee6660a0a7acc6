// Blobs from the coordinator's BlobService. Thread-safe.

#ifndef TWINPATH_AGENT_GRPC_BLOB_SOURCE_H_
#define TWINPATH_AGENT_GRPC_BLOB_SOURCE_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/blob_cache.h"
#include "twinpath/v1/services.grpc.pb.h"

namespace twinpath::agent {

class GrpcBlobSource final : public BlobSource {
 public:
  // A fetch that brings nothing for `stall` ends DEADLINE_EXCEEDED.
  explicit GrpcBlobSource(const std::shared_ptr<grpc::Channel>& channel,
                          absl::Duration stall = absl::Seconds(30))
      : stub_(v1::BlobService::NewStub(channel)), stall_(stall) {}

  absl::Status Fetch(const Sha256& digest, uint64_t offset,
                     const std::function<absl::Status(absl::string_view)>& sink,
                     const std::function<bool()>& cancelled) override;

 private:
  const std::unique_ptr<v1::BlobService::Stub> stub_;
  const absl::Duration stall_;
};

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_GRPC_BLOB_SOURCE_H_
