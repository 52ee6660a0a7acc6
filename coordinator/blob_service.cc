// BlobService: uploads and downloads in chunks. A chunk is written on gRPC's
// own thread (a copy into the page cache); what may take long, reading a part
// again and syncing a blob, goes to a worker.

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/status.h"
#include "coordinator/blobs.h"
#include "coordinator/coordinator.h"
#include "coordinator/grpc_util.h"
#include "coordinator/services.h"
#include "twinpath/v1/services.grpc.pb.h"

namespace twinpath::coordinator {
namespace {

constexpr size_t kMaxChunk = 1 << 20;
constexpr uint64_t kSendChunk = 256 << 10;
constexpr int kMaxFindMissing = 10'000;

absl::Status Busy() {
  return absl::ResourceExhaustedError(
      "the coordinator has too many requests; try again in some seconds");
}

class PutReactor final : public grpc::ServerReadReactor<v1::PutRequest> {
 public:
  PutReactor(Coordinator& coordinator, v1::PutResponse* response)
      : coordinator_(coordinator), response_(response) {
    StartRead(&request_);
  }

 private:
  // At any time exactly one of these runs: a read, a worker's step, Finish.
  void OnReadDone(bool ok) override {
    if (ok && !started_) {
      OnWorker([this] { First(); });
    } else if (ok) {
      Append();
    } else if (upload_ == nullptr) {
      End(absl::InvalidArgumentError("an upload needs a first message"));
    } else {
      OnWorker([this] { Last(); });
    }
  }

  void OnDone() override { delete this; }

  template <typename Step>
  void OnWorker(Step step) {
    if (!coordinator_.requests().Run(step)) End(Busy());
  }

  void First() {
    started_ = true;
    const absl::StatusOr<Sha256> digest =
        Sha256::FromRaw(request_.digest().sha256());
    if (!digest.ok()) {
      End(absl::InvalidArgumentError(
          "the first message of an upload names the digest, 32 bytes"));
      return;
    }
    response_->set_size_bytes(request_.size_bytes());
    if (const auto stored = coordinator_.blobs().Progress(*digest);
        stored.ok() && stored->complete) {
      // Nothing to do; the client is told at once.
      response_->set_size_bytes(stored->offset);
      End(absl::OkStatus());
      return;
    }
    absl::StatusOr<std::unique_ptr<BlobStore::Upload>> upload =
        coordinator_.blobs().Begin(*digest, request_.size_bytes(),
                                   request_.offset());
    if (!upload.ok()) {
      End(upload.status());
      return;
    }
    upload_ = *std::move(upload);
    Append();
  }

  void Append() {
    absl::Status status;
    if (request_.data().size() > kMaxChunk) {
      status = absl::InvalidArgumentError(
          absl::StrCat("a chunk has ", request_.data().size(),
                       " bytes; at most ", kMaxChunk, " are taken"));
    } else {
      status = upload_->Write(request_.data());
    }
    if (!status.ok()) {
      End(status);
      return;
    }
    // Only `data` counts from the second message on.
    request_.Clear();
    StartRead(&request_);
  }

  void Last() { End(upload_->Commit()); }

  void End(const absl::Status& status) {
    // Gives the file up before the client hears of it, so that its next try
    // finds it free.
    upload_.reset();
    Finish(ToGrpcStatus(status));
  }

  Coordinator& coordinator_;
  v1::PutResponse* const response_;
  v1::PutRequest request_;
  bool started_ = false;
  std::unique_ptr<BlobStore::Upload> upload_;
};

class GetReactor final : public grpc::ServerWriteReactor<v1::GetResponse> {
 public:
  GetReactor(Coordinator& coordinator, const v1::GetRequest& request) {
    const absl::Status status = Open(coordinator, request);
    if (!status.ok()) {
      Finish(ToGrpcStatus(status));
      return;
    }
    Next();
  }

 private:
  absl::Status Open(Coordinator& coordinator, const v1::GetRequest& request) {
    TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest,
                              Sha256::FromRaw(request.digest().sha256()));
    TWINPATH_ASSIGN_OR_RETURN(blob_,
                              coordinator.blobs().OpenForReading(digest));
    offset_ = request.offset();
    if (offset_ <= blob_.size_bytes) return absl::OkStatus();
    return absl::OutOfRangeError(
        absl::StrCat("blob ", digest.Hex(), " has ", blob_.size_bytes,
                     " bytes, offset ", offset_, " was asked for"));
  }

  void Next() {
    if (offset_ == blob_.size_bytes) {
      Finish(grpc::Status::OK);
      return;
    }
    absl::StatusOr<std::string> data =
        PreadUpTo(blob_.fd.get(), offset_,
                  std::min(kSendChunk, blob_.size_bytes - offset_));
    if (!data.ok()) {
      Finish(ToGrpcStatus(data.status()));
      return;
    }
    if (data->empty()) {
      Finish(ToGrpcStatus(
          absl::DataLossError("the stored blob is shorter than it was")));
      return;
    }
    offset_ += data->size();
    response_.set_data(*std::move(data));
    StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      Next();
    } else {
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the reader is gone"));
    }
  }

  void OnDone() override { delete this; }

  OpenBlob blob_;
  uint64_t offset_ = 0;
  v1::GetResponse response_;
};

class BlobServiceImpl final : public v1::BlobService::CallbackService {
 public:
  explicit BlobServiceImpl(Coordinator& coordinator)
      : coordinator_(coordinator) {}

  grpc::ServerUnaryReactor* FindMissing(
      grpc::CallbackServerContext* context,
      const v1::FindMissingRequest* request,
      v1::FindMissingResponse* response) override {
    return RunOn(coordinator_.requests(), context, response,
                 [this, request]() -> absl::StatusOr<v1::FindMissingResponse> {
                   if (request->digests_size() > kMaxFindMissing) {
                     return absl::InvalidArgumentError(absl::StrCat(
                         "at most ", kMaxFindMissing, " digests a call"));
                   }
                   v1::FindMissingResponse answer;
                   for (const v1::Digest& proto : request->digests()) {
                     TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest,
                                               Sha256::FromRaw(proto.sha256()));
                     if (!coordinator_.blobs().Has(digest)) {
                       *answer.add_missing() = proto;
                     }
                   }
                   return answer;
                 });
  }

  grpc::ServerUnaryReactor* GetUpload(
      grpc::CallbackServerContext* context, const v1::GetUploadRequest* request,
      v1::GetUploadResponse* response) override {
    return RunOn(
        coordinator_.requests(), context, response,
        [this, request]() -> absl::StatusOr<v1::GetUploadResponse> {
          TWINPATH_ASSIGN_OR_RETURN(
              const Sha256 digest, Sha256::FromRaw(request->digest().sha256()));
          TWINPATH_ASSIGN_OR_RETURN(const UploadProgress progress,
                                    coordinator_.blobs().Progress(digest));
          v1::GetUploadResponse answer;
          answer.set_offset(progress.offset);
          answer.set_complete(progress.complete);
          return answer;
        });
  }

  grpc::ServerReadReactor<v1::PutRequest>* Put(
      grpc::CallbackServerContext* /*context*/,
      v1::PutResponse* response) override {
    return new PutReactor(coordinator_, response);
  }

  grpc::ServerWriteReactor<v1::GetResponse>* Get(
      grpc::CallbackServerContext* /*context*/,
      const v1::GetRequest* request) override {
    return new GetReactor(coordinator_, *request);
  }

 private:
  Coordinator& coordinator_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeBlobService(Coordinator& coordinator) {
  return std::make_unique<BlobServiceImpl>(coordinator);
}

}  // namespace twinpath::coordinator
