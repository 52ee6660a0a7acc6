#include "agent/grpc_blob_source.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/grpc_channel.h"
#include "base/digest.h"
#include "base/mutex.h"

namespace twinpath::agent {
namespace {

// One piece at a time: the next is asked for when the last one is on disk, so a
// slow disk holds the stream back and nothing piles up in memory.
class Reader final : public grpc::ClientReadReactor<v1::GetResponse> {
 public:
  enum class Event { kPiece, kEnd, kNothing };

  void Start(v1::BlobService::Stub& stub, const v1::GetRequest* request) {
    stub.async()->Get(&context_, request, this);
    StartRead(&piece_);
    StartCall();
  }
  // Waits for the next piece, at most `timeout`.
  Event Wait(absl::Duration timeout) {
    MutexLock lock(mutex_);
    if (!has_piece_ && !done_) changed_.WaitFor(mutex_, timeout);
    if (has_piece_) return Event::kPiece;
    return done_ ? Event::kEnd : Event::kNothing;
  }
  const std::string& piece() const { return piece_.data(); }
  void Next() {
    {
      MutexLock lock(mutex_);
      has_piece_ = false;
    }
    StartRead(&piece_);
  }
  // Ends the call and waits until gRPC has let go of this.
  grpc::Status Finish(bool cancel) {
    if (cancel) context_.TryCancel();
    MutexLock lock(mutex_);
    while (!done_) changed_.Wait(mutex_);
    return status_;
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;  // OnDone follows
    MutexLock lock(mutex_);
    has_piece_ = true;
    changed_.NotifyAll();
  }
  void OnDone(const grpc::Status& status) override {
    MutexLock lock(mutex_);
    status_ = status;
    done_ = true;
    // Under the lock: the waiter destroys this as soon as it has it.
    changed_.NotifyAll();
  }

 private:
  grpc::ClientContext context_;
  v1::GetResponse piece_;
  Mutex mutex_;
  CondVar changed_;
  bool has_piece_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status GrpcBlobSource::Fetch(
    const Sha256& digest, uint64_t offset,
    const std::function<absl::Status(absl::string_view)>& sink,
    const std::function<bool()>& cancelled) {
  v1::GetRequest request;
  request.mutable_digest()->set_sha256(digest.Raw());
  request.set_offset(offset);
  Reader reader;
  reader.Start(*stub_, &request);

  constexpr absl::Duration kStep = absl::Milliseconds(200);
  absl::Duration silence;
  absl::Status mine;
  while (mine.ok()) {
    const Reader::Event event = reader.Wait(kStep);
    if (event == Reader::Event::kEnd) break;
    if (cancelled && cancelled()) {
      mine = absl::CancelledError("gave up fetching a blob");
    } else if (event == Reader::Event::kPiece) {
      silence = absl::ZeroDuration();
      mine = sink(reader.piece());
      if (mine.ok()) reader.Next();
    } else if ((silence += kStep) >= stall_) {
      mine = absl::DeadlineExceededError("the coordinator sends nothing");
    }
  }
  const grpc::Status end = reader.Finish(/*cancel=*/!mine.ok());
  return mine.ok() ? FromGrpc(end) : mine;
}

}  // namespace twinpath::agent
