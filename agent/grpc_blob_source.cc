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
// slow disk holds the stream back and nothing piles up in memory. Since reads
// are started outside gRPC's callbacks, a hold keeps OnDone away until no
// further read can follow.
class Reader final : public grpc::ClientReadReactor<v1::GetResponse> {
 public:
  enum class Event { kPiece, kEnd, kNothing };

  void Start(v1::BlobService::Stub& stub, const v1::GetRequest* request) {
    stub.async()->Get(&context_, request, this);
    AddHold();
    StartRead(&piece_);
    StartCall();
  }
  // Waits for the next piece, at most `timeout`.
  Event Wait(absl::Duration timeout) {
    MutexLock lock(mutex_);
    if (reading_ && !done_) changed_.WaitFor(mutex_, timeout);
    if (has_piece_) return Event::kPiece;
    return ended_ || done_ ? Event::kEnd : Event::kNothing;
  }
  const std::string& piece() const { return piece_.data(); }
  // Asks for the next piece; only behind kPiece.
  void Next() {
    {
      MutexLock lock(mutex_);
      has_piece_ = false;
      reading_ = true;
    }
    StartRead(&piece_);
  }
  // Ends the call and waits until gRPC has let go of this.
  grpc::Status Finish(bool cancel) {
    if (cancel) context_.TryCancel();
    bool release = false;
    {
      MutexLock lock(mutex_);
      finishing_ = true;
      // A read under way releases it when it ends.
      release = !reading_ && !ended_;
    }
    if (release) RemoveHold();
    MutexLock lock(mutex_);
    while (!done_) changed_.Wait(mutex_);
    return status_;
  }

  void OnReadDone(bool ok) override {
    bool release = false;
    {
      MutexLock lock(mutex_);
      reading_ = false;
      has_piece_ = ok;
      ended_ = !ok;
      release = !ok || finishing_;
      changed_.NotifyAll();
    }
    if (release) RemoveHold();
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
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
  bool has_piece_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
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
